"""Witnesses of a rank: the pivot minor solves random challenges (FORMAT.md, section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ffrank.primes import residues
from ffrank.program.ir import digest

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Residues = NDArray[np.int64]

__all__ = ["SECURITY", "power_count", "rank_witness"]

SECURITY = 120  # a false witness passes with probability at most 2^-SECURITY


def power_count(p: int, exponent: int) -> int:
    """The least k ≥ 1 with p^k ≥ 2^exponent."""
    k = 1
    while p**k < 2**exponent:
        k += 1
    return k


def rank_witness(
    claim: dict[str, Any],
    rows: Residues,
    columns: Residues,
    solve: Callable[[Residues], Residues],
    redraws: list[Any] | None = None,
) -> dict[str, Any]:
    """Rows, columns and witness of a claim, as a certificate holds them.

    Parameters
    ----------
    claim : dict
        ``claim``, ``program``, ``prime``, ``seed`` and ``inputs``; rows and columns are added here.
    rows, columns : ndarray of shape (r,)
        Strictly increasing pivots.
    solve : callable
        Solves the pivot minor for a right-hand side of shape (r, k).
    redraws : list, optional
        What else chooses the points; part of the claim if not empty.
    """
    p, r = claim["prime"], len(rows)
    pivots = {"rows": [int(i) for i in rows], "columns": [int(j) for j in columns]}
    name = digest(claim | pivots | ({"redraws": redraws} if redraws else {}))
    count = power_count(p, SECURITY)
    challenges = [residues(f"ffrank challenge 1\n{name}\n{j}", p, r) for j in range(count)]
    if not r:
        return pivots | {"witness": [[] for _ in challenges]}
    solutions = solve(np.stack(challenges, axis=1))
    return pivots | {"witness": [[int(v) for v in solutions[:, j]] for j in range(count)]}
