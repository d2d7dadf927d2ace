"""How long a certificate takes, estimated from its spec alone.

Only the order and rough proportions matter: the longest jobs start first, short ones travel together, and the time
left is the estimate scaled by what has been measured so far in the same run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ffrank.geometry.composition import composition_bound

if TYPE_CHECKING:
    from ffrank.models.spec import Spec

__all__ = ["estimate"]

# Seconds, fitted on one core of an AMD EPYC to polynomial networks with 50 to 2,000,000 parameters.
_EACH = 2e-3
_PER_NODE_ENTRY = 3e-8  # evaluating one entry of the program at one input, forwards and back
_PER_MULTIPLICATION = 1.0e-10  # of an elimination
_PER_ENTRY = 6e-8  # of the Jacobian
_MONTE_CARLO = 1.5  # the average of jobs that need trials and of those that do not


def estimate(spec: Spec, *, monte_carlo: bool) -> float:
    """Seconds of one core, within a factor of a few."""
    P = spec.parameter_count()
    bound = min(P, composition_bound(spec) or P)
    inputs = -(-bound // spec.output_count) + 2
    seconds = (
        inputs * spec.entry_count() * _PER_NODE_ENTRY
        + inputs * spec.output_count * P * _PER_ENTRY
        + float(P) * bound * bound * _PER_MULTIPLICATION
    )
    if getattr(spec, "score", "lightning") != "lightning" or getattr(spec, "norm", "none") != "none":
        seconds *= 2
    return _EACH + seconds * (_MONTE_CARLO if monte_carlo else 1.0)
