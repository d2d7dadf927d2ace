"""Elimination by halving columns, and the rank profile of very long matrices.

Both rank profiles come out of one elimination. Columns are processed from left to right; in each, the
pivot is the nonzero entry, among rows not yet pivotal, of the smallest *original* row index. Say the k-th
pivot is (i_k, j_k).

*Claim.* For all i and j, the leading block A[:i, :j] has rank #{k : i_k < i, j_k < j}.

*Proof.* In the original order of rows, A = L·E, where row k of E is zero before column j_k and not there.
L[i_k, k] = 1, and L[u, k] = 0 for u < i_k: either row u was pivotal before step k, or its entry in column
j_k was zero because i_k is the smallest index of a nonzero one. Hence column k of L[:i] vanishes if
i_k ≥ i, and row k of E[:, :j] vanishes if j_k ≥ j, so the rank is at most the stated number. The remaining
columns of L[:i] are independent (sorted by i_k they form an echelon) and so are the remaining rows of
E[:, :j], so the rank is that number. ∎

With j = n (i = m) this says that the pivot rows (columns) are the row (column) rank profile. The set of
pivots is the rank profile matrix of Dumas, Pernet and Sultan; it is transposed when A is transposed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ffrank.linalg.blocks import Block, empty_block
from ffrank.linalg.fields import Field, Pivots
from ffrank.linalg.products import subtract_product
from ffrank.linalg.triangles import solve_left, solve_right

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ffrank.linalg.threads import Team

__all__ = ["Elimination", "profile_in_chunks"]

_TOP = 256  # rows of a tall panel that are searched for pivots first


class Elimination:
    """P·L·E = A in place: L below the diagonal of the first columns, E in the rows of the pivots.

    Attributes
    ----------
    W
        The stored residues of A, replaced by the factors. Without ``factors``, E is not completed.
    rows
        The original index of each row of ``W``.
    cols
        The column of each pivot; pivot k sits in row k of ``W``.
    rank
        The number of pivots.
    """

    def __init__(self, field: Field, W: Block, team: Team, *, width: int, factors: bool,
                 rows: NDArray[np.int64] | None = None) -> None:  # fmt: skip
        self.field, self.W, self.team, self.width, self.factors = field, W, team, width, factors
        increasing = rows is None or bool((rows[1:] > rows[:-1]).all())
        rows = np.arange(W.m) if rows is None else rows
        self._pivots = Pivots(rows, np.empty(min(W.m, W.n), np.int64), np.array([increasing, factors], np.int64),
                              np.empty(width, np.int64))  # fmt: skip
        self.rank = self._eliminate(0, 0, W.n) if W.m and W.n else 0
        self.rows = rows
        self.cols = self._pivots.cols[: self.rank]

    def _eliminate(self, row: int, c0: int, c1: int) -> int:
        """Eliminate columns c0 .. c1 below ``row``; L of the k-th pivot found goes to column row + k."""
        field, team, W, m = self.field, self.team, self.W, self.W.m
        if row and field.is_zero(W.part(row, m, c0, c1)):
            return 0
        if c1 - c0 <= self.width:
            return self._tall_panel(row, c0, c1) or field.panel(W, row, c0, c1, self._pivots, team)
        panels = -(-(c1 - c0) // self.width)
        half = c0 + self.width * (panels // 2)
        r = self._eliminate(row, c0, half)
        end = row + r
        if r and (self.factors or end < m):
            solve_left(field, team, W.part(row, end, row, end), W.part(row, end, half, c1), unit=True, upper=False)
        if end == m:
            return r
        subtract_product(field, team, W.part(end, m, half, c1), W.part(end, m, row, end), W.part(row, end, half, c1))
        return r + self._eliminate(end, half, c1)

    def _tall_panel(self, row: int, c0: int, c1: int) -> int:
        """Eliminate a panel by its top rows alone and the rest by a product, if that is possible; else return 0.

        It is if the top rows come first in the original order, so that pivots found in them are the right ones, and
        if they hold a pivot for every column.
        """
        field, team, W, pivots = self.field, self.team, self.W, self._pivots
        b, end, rows = c1 - c0, row + _TOP, self._pivots.rows[row:]
        if W.m - row < 3 * _TOP or b > min(_TOP, field.base) or rows[:_TOP].max() > rows[_TOP:].min():
            return 0
        S = empty_block(_TOP, b, field.dtype)
        S.a[...] = W.a[row:end, c0:c1]
        trial = Pivots(rows[:_TOP].copy(), np.empty(b, np.int64), np.array([pivots.state[0], 1]), pivots.swaps)
        if field.panel(S, 0, 0, b, trial, team) < b:
            return 0
        if (trial.rows != rows[:_TOP]).any():
            W.a[row:end] = W.a[row + _positions(trial.rows, rows[:_TOP])]
            rows[:_TOP] = trial.rows
            pivots.state[0] = 0
        pivots.cols[row : row + b] = np.arange(c0, c1)
        rest = W.part(end, W.m, c0, c1)
        solve_right(field, team, S.part(0, b, 0, b), rest, unit=False, upper=True)
        W.a[row:end, row : row + b] = S.a
        if row < c0:
            W.a[end:, row : row + b] = rest.a
            for k in range(b):
                W.a[row + k, c0 + k : c1] = S.a[k, k:]
        return b


def _positions(wanted: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where in ``rows`` each of the ``wanted`` ones is."""
    order = np.argsort(rows)
    return order[np.searchsorted(rows[order], wanted)]


def profile_in_chunks(field: Field, A: NDArray[np.int64], team: Team, *, width: int,
                      transposed: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:  # fmt: skip
    """Return the pivot rows and columns of a wide A (of its transpose, if ``transposed``) by chunks of columns.

    After each chunk the rows that are not pivotal are known to be N·(pivot rows) on all columns seen, so a
    chunk costs one product N·(its pivot rows), and nothing more if the difference is zero: O(m·n·r) in all,
    and (m - r)·r per column once the rank is reached. Memory: at most m² + 2·m·max(m, 1024) entries.
    """
    n, m = A.shape if transposed else A.shape[::-1]
    rows = np.arange(m)
    cols: list[NDArray[np.int64]] = []
    N = empty_block(m, m, field.dtype)
    r, at, step = 0, 0, max(m, 256)
    while at < n and r < m:
        end = min(n, at + step)
        W = empty_block(m, end - at, field.dtype)
        field.load(A[at:end] if transposed else A[:, at:end], W, team, transposed=transposed)
        if at:
            W = Block.of(W.a[rows])
        rest = Block.of(W.a[r:])
        subtract_product(field, team, rest, N.part(r, m, 0, r), W.part(0, r, 0, W.n))
        if at == 0 or not field.is_zero(rest):
            base = field.base if at else width
            done = Elimination(field, rest, team, width=base, factors=False, rows=rows[r:].copy())
            cols.append(done.cols + at)
            _extend(field, team, N, rows, done)
            r += done.rank
        at, step = end, max(256, min(m, 1024))
    return rows[:r].copy(), np.concatenate(cols)


def _extend(field: Field, team: Team, N: Block, rows: NDArray[np.int64], done: Elimination) -> None:
    """Add the pivots of ``done`` to N, whose last rows, as many as ``done`` has, stand for the rest."""
    m, new = N.m, done.rank
    r = m - done.W.m
    end = r + new
    if new == 0:
        return
    N.a[r:, :r] = N.a[r + _positions(done.rows, rows[r:]), :r]
    rows[r:] = done.rows
    N.a[end:, r:end] = done.W.a[new:, :new]
    M = N.part(end, m, r, end)
    solve_right(field, team, done.W.part(0, new, 0, new), M, unit=True, upper=False)
    # A[rest] = N[rest]·A[old] + M·(A[new] - N[new]·A[old])
    subtract_product(field, team, N.part(end, m, 0, r), M, N.part(r, end, 0, r))
