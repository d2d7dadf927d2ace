"""Upper bounds of a dimension: theorems first (symmetry, ambient space), Monte Carlo where they leave a gap."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ffrank import linalg
from ffrank.certificate.witness import rank_witness
from ffrank.geometry.generators import generator_matrix
from ffrank.primes import trial_prime
from ffrank.program.bounds import ambient_dimension, bits, is_polynomial, output_bounds
from ffrank.program.evaluate import Evaluator
from ffrank.program.fractions import derivative_bounds
from ffrank.program.points import draw_points, draw_theta

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from ffrank.geometry.symmetry import Family
    from ffrank.program.ir import Program

    Allocate = Callable[[int, int], NDArray[np.int64]]

__all__ = ["TrialPlan", "Trials", "monte_carlo", "plan_trials", "theorem_bound"]

_POOL = 50_697_473  # primes between 2^30 and 2^31, less the 64 that other trials may have taken
_MOST_TRIALS = 64


def theorem_bound(
    program: Program,
    found: list[Family],
    closed: list[dict[str, Any]],
    p: int,
    seed: int,
    *,
    threads: int | None,
    allocate: Allocate,
) -> dict[str, Any]:
    """The least of: number of parameters, ambient space, closed bounds, P minus the rank of the symmetries.

    Each is a theorem for every θ. It can be larger than the dimension, never smaller. On ties the one that is
    checked with least work is taken.

    Parameters
    ----------
    found : list of Family
        Symmetry rules that hold for the program.
    closed : list of dict
        Bounds that the architecture has by a formula, in order of preference; a value None does not count.
    """
    P = program.parameter_count
    best: dict[str, Any] = {"kind": "parameters", "value": P}
    degrees = {"kind": "ambient", "value": ambient_dimension(program), "rule": "degrees"}
    for bound in (degrees, *closed):
        if bound["value"] is not None and bound["value"] < best["value"]:
            best = bound
    columns = sum(f.dimension for f in found)
    if P - columns >= best["value"]:
        return best
    allocate(P, columns)
    T = generator_matrix(program, found, draw_theta(program, p, seed), p)
    factors = linalg.ple(T, p, threads=threads, overwrite=True)
    if P - factors.rank >= best["value"]:
        return best
    claim = {"claim": "symmetry", "program": program.digest, "prime": p, "seed": seed, "inputs": 0}
    return {
        "kind": "symmetry",
        "value": P - factors.rank,
        "generators": [f.to_json() for f in found],
        **rank_witness(claim, factors.rows, factors.cols, factors.solve_minor),
    }


@dataclass(frozen=True)
class TrialPlan:
    """How many trials reach an error, and the bounds that say so.

    Attributes
    ----------
    degree, norm_bits : int
        Of an (r+1)-minor of the Jacobian as a polynomial in θ and the inputs.
    trials : int
    error : int
        If all trials have rank r, the dimension exceeds r with probability at most 2^error.
    """

    degree: int
    norm_bits: int
    trials: int
    error: int


def plan_trials(program: Program, rank: int, error: int) -> TrialPlan | None:
    """The least number of trials whose error is at most 2^error; None if 64 do not reach it."""
    ops = {i.op for i in program.instructions}
    if "sqrt" in ops:
        return None
    if is_polynomial(program):
        bounds = output_bounds(program)
        entry, norm = max(bounds.degree - 1, 0), bits(max(bounds.degree, 1)) + bounds.norm
    else:
        derivative = derivative_bounds(program)
        entry, norm = derivative.top, derivative.top_norm
    degree = (rank + 1) * entry
    norm_bits = (rank + 1) * (bits(rank + 1) + norm)
    miss = Fraction(degree + 1, 2**30) + Fraction(norm_bits // 30, _POOL)
    for trials in range(1, _MOST_TRIALS + 1 if miss < 1 else 1):
        # the largest e with miss^trials ≤ 2^-e
        reached = (miss.denominator**trials // miss.numerator**trials).bit_length() - 1
        if reached >= -error:
            return TrialPlan(degree, norm_bits, trials, -reached)
    return None


@dataclass(frozen=True)
class Trials:
    """An upper bound after trials, and what a person should know if they did not succeed."""

    bound: dict[str, Any]
    notes: tuple[str, ...]


def monte_carlo(
    program: Program,
    theorem: dict[str, Any],
    rank: int,
    inputs: int,
    p: int,
    seed: int,
    error: int,
    *,
    threads: int | None,
    allocate: Allocate,
    report: Callable[[str], None] | None = None,
) -> Trials:
    """Fresh primes and points, none of which may give more than ``rank``; else the theorem's bound stands.

    Parameters
    ----------
    rank, inputs : int
        The lower bound and the number of inputs that it took. One input more decides: if it adds nothing at
        generic points, no further one does.
    error : int
        The exponent e of the error 2^e to reach.
    """
    plan = plan_trials(program, rank, error)
    if plan is None:
        roots = any(i.op == "sqrt" for i in program.instructions)
        reason = "the map has square roots" if roots else "the degrees are too high"
        return Trials(theorem, (f"No Monte-Carlo bound reaches an error of 2^{error}: {reason}.",))
    trials: list[dict[str, int]] = []
    shape = ((inputs + 1) * program.output_count, program.parameter_count)
    for trial in range(1, plan.trials + 1):
        if report is not None:
            report(f"Monte-Carlo trial {trial} of {plan.trials}")
        prime = trial_prime(program.digest, seed, trial, frozenset([p, *(t["prime"] for t in trials)]))
        theta = draw_theta(program, prime, seed)
        points = draw_points(program, prime, seed, theta, range(1, inputs + 2))
        if points.redraws.any():
            note = f"A denominator is 0 at the point of a trial at the prime {prime}: it does not count"
            return Trials(theorem, (f"{note}. Try another seed.",))
        J = Evaluator(program, prime, theta).jacobian(points.inputs, points.draws, allocate(*shape))
        found = linalg.rank_profile(J, prime, threads=threads, overwrite=True).rank
        if found > rank:
            note = f"A trial at the prime {prime} has rank {found}: the point of this certificate is unlucky"
            return Trials(theorem, (f"{note}. Try another seed or a larger prime.",))
        trials.append({"prime": prime, "rank": found})
    bound = {
        "kind": "monte-carlo",
        "value": rank,
        "error": plan.error,
        "inputs": inputs + 1,
        "degree": plan.degree,
        "norm_bits": plan.norm_bits,
        "trials": trials,
        "theorem": theorem,
    }
    return Trials(bound, ())
