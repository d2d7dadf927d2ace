"""The lower bound: the rank mod p of the Jacobian at a random point, over as many inputs as it takes.

The rank over N inputs grows with N and, at generic inputs, by no more at each further one, until it stops for
good (a new generic input that adds nothing lies in the row space for all inputs). A fixed number of rows is
never trusted: the rule of :func:`jacobian_rank` decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ffrank import linalg
from ffrank.certificate.witness import power_count
from ffrank.program.evaluate import Evaluator
from ffrank.program.points import draw_points, draw_theta

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ffrank.program.ir import Program

    Residues = NDArray[np.int64]

__all__ = ["JacobianRank", "jacobian_at", "jacobian_rank"]

_CHUNK = 2**27  # bytes of rows that are recomputed at a time
_PATIENCE = 60  # stop when a generic new input would have added nothing with probability 2^-_PATIENCE by chance


@dataclass(frozen=True)
class JacobianRank:
    """Rank profile of the Jacobian over the first inputs, and a solver for its pivot minor.

    Attributes
    ----------
    inputs : int
        Inputs up to the last pivot row.
    rows, columns : ndarray of shape (rank,)
        Canonical row and column rank profiles; row (i-1)·m + o for output o of input i.
    solve : callable
        Solves the minor [rows, columns] for a right-hand side of shape (rank, k).
    redraws : ndarray of shape (inputs, sources)
        How often each source of an input's point was drawn anew.
    """

    inputs: int
    rows: Residues
    columns: Residues
    solve: Callable[[Residues], Residues]
    redraws: NDArray[np.int64]

    @property
    def rank(self) -> int:
        """A lower bound of the dimension; it can be too small (an unlucky point or prime), never too large."""
        return len(self.rows)


def jacobian_at(program: Program, p: int, seed: int, counters: range, out: Residues | None = None) -> Residues:
    """The Jacobian mod p at θ and the inputs ``counters`` of the point (p, seed).

    Returns
    -------
    ndarray of shape (len(counters)·m, P)
    """
    return _jacobian(program, p, seed, counters, out)[0]


def _jacobian(
    program: Program, p: int, seed: int, counters: Sequence[int], out: Residues | None = None
) -> tuple[Residues, NDArray[np.int64]]:
    """The Jacobian and how often each source was redrawn at each input."""
    theta = draw_theta(program, p, seed)
    points = draw_points(program, p, seed, theta, counters)
    return Evaluator(program, p, theta).jacobian(points.inputs, points.draws, out), points.redraws


def jacobian_rank(
    program: Program,
    p: int,
    seed: int,
    *,
    bound: int,
    threads: int | None = None,
    allocate: Callable[[int, int], Residues] | None = None,
    report: Callable[[str], None] | None = None,
    first_batch: int | None = None,
) -> JacobianRank:
    """Take inputs until the rank provably or repeatedly stops growing.

    The rule: stop at the first N for which the rank over N inputs is ``bound``, or for which none of the next q
    inputs raises it, with p^q ≥ 2^60. Work goes in batches, but the result depends on the rule alone.

    Parameters
    ----------
    bound : int
        A proven upper bound of the generic rank.
    allocate : callable, optional
        Makes an array of the given shape, or raises ResourceError.
    first_batch : int, optional
        Inputs to begin with; so many that they could reach the bound, if absent. The result does not depend on it.
    """
    m, P, patience = program.output_count, program.parameter_count, power_count(p, _PATIENCE)
    numbers = np.empty(0, np.int64)  # of the pivot rows so far
    redraws = np.empty((0, 0), np.int64)
    scanned, batch = 0, first_batch or max(1, -(-bound // m))
    while True:
        if report is not None:
            report(f"rank of the Jacobian, inputs {scanned + 1} to {scanned + batch}")
        stacked = (
            allocate(len(numbers) + batch * m, P)
            if allocate is not None
            else np.empty((len(numbers) + batch * m, P), np.int64)
        )
        fresh = range(scanned + 1, scanned + batch + 1)
        _, again = _jacobian(program, p, seed, fresh, stacked[len(numbers) :])
        _rows(program, p, seed, numbers, stacked[: len(numbers)])
        redraws = np.concatenate([redraws, again]) if scanned else again
        numbers = np.concatenate([numbers, np.arange(scanned * m, (scanned + batch) * m)])
        scanned += batch
        found = linalg.ple(stacked, p, threads=threads, overwrite=True)
        numbers = numbers[found.rows]
        stop = _stop(numbers // m + 1, scanned, bound, patience)
        if stop is not None:
            inside = numbers[numbers < stop * m]
            if len(inside) < len(numbers):  # inputs of the batch beyond the rule's stop have added rows: leave them out
                stacked = np.empty((len(inside), P), np.int64)
                found = linalg.ple(_rows(program, p, seed, inside, stacked), p, threads=threads, overwrite=True)
            inputs = int(inside[-1]) // m + 1 if len(inside) else 0
            return JacobianRank(inputs, inside, found.cols, found.solve_minor, redraws[:inputs])
        last = max(1, int(np.sum(numbers >= (scanned - 1) * m)))
        batch = min(-(-(bound - len(numbers)) // last), max(4, scanned)) + patience


def _rows(program: Program, p: int, seed: int, numbers: Residues, out: Residues) -> Residues:
    """These rows of the Jacobian, computed once more: cheaper than keeping a copy beside the elimination."""
    m = program.output_count
    size = max(1, _CHUNK // (8 * m * max(1, program.parameter_count)))
    inputs = np.unique(numbers // m)
    for start in range(0, len(inputs), size):
        chunk = inputs[start : start + size]
        rows, _ = _jacobian(program, p, seed, [int(i) + 1 for i in chunk])
        here = np.flatnonzero(np.isin(numbers // m, chunk))
        out[here] = rows[np.searchsorted(chunk, numbers[here] // m) * m + numbers[here] % m]
    return out


def _stop(inputs: NDArray[np.int64], scanned: int, bound: int, patience: int) -> int | None:
    """The first N at which the rule stops, or None; ``inputs`` are those of the pivot rows, in order."""
    if not len(inputs):
        return 0 if scanned >= patience or bound == 0 else None
    reached = int(inputs[bound - 1]) if len(inputs) >= bound else scanned + 1
    growing = np.unique(inputs)
    followed = np.append(growing[1:], scanned + 1)
    # After growing[i] come followed[i] - growing[i] - 1 inputs that add nothing.
    stalls = np.flatnonzero(followed - growing - 1 >= patience)
    first = [0] if growing[0] > patience else []
    stops = first + [int(growing[i]) for i in stalls] + ([reached] if reached <= scanned else [])
    return min(stops) if stops else None
