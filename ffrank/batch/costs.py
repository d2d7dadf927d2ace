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

# Seconds, fitted on one core of an AMD EPYC to 4,600 polynomial networks with 50 to 2,000,000 parameters, and to 22,000
# attention networks of depth 2 and 3 with up to 190.
_EACH = {"mlp": 2.2e-3, "attention": 3.5e-3}
_NODE_ENTRY = {"mlp": 3e-8, "attention": 1.5e-7}  # evaluating one entry of the program at one input, forwards and back
_JACOBIAN_ENTRY = {"mlp": 2e-8, "attention": 4e-7}  # with the symmetries, which only attention networks have to compute
_MULTIPLICATION = 4.5e-11  # of an elimination
_TRANSCENDENTAL = 1.7


def estimate(spec: Spec) -> float:
    """Seconds of one core, within a factor of a few."""
    P, kind = spec.parameter_count(), spec.kind
    bound = min(P, composition_bound(spec) or P)
    inputs = -(-bound // spec.output_count) + 2
    seconds = (
        _EACH[kind]
        + inputs * spec.entry_count() * _NODE_ENTRY[kind]
        + inputs * spec.output_count * P * _JACOBIAN_ENTRY[kind]
        + float(P) * bound * bound * _MULTIPLICATION
    )
    polynomial = spec.kind == "mlp" or (spec.score == "lightning" and spec.norm == "none")
    return seconds if polynomial else seconds * _TRANSCENDENTAL
