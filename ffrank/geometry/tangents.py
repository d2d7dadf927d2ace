"""Independent rows of a Jacobian mod p at a given θ, over as many inputs as it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ffrank import linalg
from ffrank.program.evaluate import Evaluator
from ffrank.program.points import draw_points

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ffrank.program.ir import Program

    Residues = NDArray[np.int64]

__all__ = ["Rows", "independent_rows"]

_PATIENCE = 60  # stop when a generic new input would have added nothing with probability 2^-_PATIENCE by chance


@dataclass(frozen=True)
class Rows:
    """Rows that span the row space of the Jacobian over all inputs taken.

    Attributes
    ----------
    matrix : ndarray of shape (rank, P)
    inputs : int
        Inputs up to the last of these rows.
    """

    matrix: Residues
    inputs: int

    @property
    def rank(self) -> int:
        """A lower bound of the rank over all inputs, and of the generic rank."""
        return len(self.matrix)


def independent_rows(program: Program, p: int, seed: int, theta: Residues, bound: int) -> Rows:
    """Take inputs until the rank is ``bound``, or q further inputs have not raised it, p^q ≥ 2^60.

    Parameters
    ----------
    theta : ndarray of shape (P,)
        Residues mod p. Inputs, and formal values of exponentials, are drawn with p and the seed.
    bound : int
        An upper bound of the rank.
    """
    m, patience = program.output_count, -(-_PATIENCE // max(1, p.bit_length() - 1))
    evaluator = Evaluator(program, p, theta)
    kept, scanned, inputs = np.empty((0, program.parameter_count), np.int64), 0, 0
    batch = max(1, -(-bound // m))
    while True:
        points = draw_points(program, p, seed, theta, range(scanned + 1, scanned + batch + 1))
        stacked = np.concatenate([kept, evaluator.jacobian(points.inputs, points.draws)])
        found = linalg.rank_profile(stacked, p)
        if found.rank > len(kept):
            inputs = scanned + (int(found.rows[-1]) - len(kept)) // m + 1
        kept, scanned = stacked[found.rows], scanned + batch
        if found.rank >= bound or scanned - inputs >= patience:
            return Rows(kept, inputs)
        batch = patience + min(scanned, -(-(bound - found.rank) // m))
