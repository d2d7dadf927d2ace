"""What the public functions return: frozen objects that carry their witnesses."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ffrank.errors import ShapeError
from ffrank.linalg.adapters import Matrix, read_like
from ffrank.linalg.blocks import Block, empty_block
from ffrank.linalg.choose import field_for
from ffrank.linalg.products import subtract_product
from ffrank.linalg.threads import Team
from ffrank.linalg.triangles import solve_left, solve_right

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ffrank.linalg.fields import Field

__all__ = ["PLE", "RankProfile", "Solution"]

_PANEL = 1024


@dataclass(frozen=True)
class RankProfile:
    """The rank of a matrix with its canonical profiles.

    Attributes
    ----------
    rank
        The rank r.
    rows
        Row rank profile: the lexicographically first r independent rows, increasing.
    cols
        Column rank profile, likewise. The r×r minor on ``rows`` and ``cols`` is not zero.
    """

    rank: int
    rows: NDArray[np.int64]
    cols: NDArray[np.int64]


@dataclass(frozen=True)
class Solution:
    """The answer to A·X = B.

    Attributes
    ----------
    X
        A solution with zeros outside the column rank profile, or None if there is none.
    witness
        None, or a vector y with y·A = 0 and y·B ≠ 0, which shows that there is no solution.
    """

    X: Any
    witness: Any

    @property
    def consistent(self) -> bool:
        """Whether a solution exists."""
        return self.X is not None


@dataclass(frozen=True, eq=False)
class PLE:
    """A = P·L·E mod p: P a permutation, L (m×r) unit lower trapezoidal, E (r×n) a row echelon form.

    Attributes
    ----------
    p, shape, rank
        The prime, the shape of A and its rank r.
    rows, cols
        Row and column rank profile of A, increasing.
    perm
        The permutation: ``A[perm] == L @ E`` mod p. Its first r entries are the pivot rows, in the order
        of the pivot columns ``cols``.
    """

    p: int
    shape: tuple[int, int]
    rank: int
    rows: NDArray[np.int64]
    cols: NDArray[np.int64]
    perm: NDArray[np.int64]
    _work: Block = field(repr=False)
    _threads: int | None = field(default=None, repr=False)

    def _field(self, columns: int) -> Field:
        return field_for(self.p, float(self.rank) ** 2 * columns)

    @property
    def P(self) -> NDArray[np.int64]:
        """The m×m permutation matrix, with P·L·E = A."""
        m = self.shape[0]
        P = np.zeros((m, m), np.int64)
        P[self.perm, np.arange(m)] = 1
        return P

    @property
    def L(self) -> NDArray[np.int64]:
        """The m×r unit lower trapezoidal factor, entries in [0, p)."""
        L = np.tril(self._field(0).store(self._work.part(0, self.shape[0], 0, self.rank)), -1)
        np.fill_diagonal(L, 1)
        return L

    @property
    def E(self) -> NDArray[np.int64]:
        """The r×n row echelon factor, entries in [0, p)."""
        E = self._field(0).store(self._work.part(0, self.rank, 0, self.shape[1]))
        for k, j in enumerate(self.cols):
            E[k, :j] = 0
        return E

    @property
    def _lower(self) -> Block:
        """The r×r block that holds the unit lower triangle of L."""
        return self._work.part(0, self.rank, 0, self.rank)

    def _panels(self, *, backwards: bool = False) -> Iterator[tuple[int, int, Block]]:
        """The upper triangle E[:, cols] in panels of columns a..b, rows 0..b: a copy of all would double the memory."""
        starts = range(0, self.rank, _PANEL)
        for a in reversed(starts) if backwards else starts:
            b = min(a + _PANEL, self.rank)
            yield a, b, Block.of(np.ascontiguousarray(self._work.a[:b, self.cols[a:b]]))

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        """The position in ``rows`` of each pivot row, in the order of the pivots."""
        return np.searchsorted(self.rows, self.perm[: self.rank])

    def solve_minor(self, B: Any) -> NDArray[np.int64]:
        """Solve A[rows][:, cols] · X = B mod p, in O(r²·k) operations.

        Parameters
        ----------
        B
            Right-hand sides, of shape (r, k) or (r,), in any form that ``rank`` accepts.

        Returns
        -------
        X
            The unique solution, of the shape of B, entries in [0, p).

        Raises
        ------
        ShapeError
            If B does not have r rows.
        MatrixError
            If B does not consist of integers.
        """
        right, columns = self._right_side(B)
        r, k = self.rank, right.shape[1]
        field = self._field(k)
        X = empty_block(r, k, field.dtype)
        with Team(self._threads, float(r) ** 2 * k) as team:
            field.load(right[self._order], X, team)
            solve_left(field, team, self._lower, X, unit=True, upper=False)
            for a, b, U in self._panels(backwards=True):
                solve_left(field, team, U.part(a, b, 0, b - a), X.part(a, b, 0, k), unit=False, upper=True)
                subtract_product(field, team, X.part(0, a, 0, k), U.part(0, a, 0, b - a), X.part(a, b, 0, k))
        out = field.store(X)
        return out if columns else out[:, 0]

    def solve_minor_transposed(self, B: Any) -> NDArray[np.int64]:
        """Solve A[rows][:, cols]ᵀ · X = B mod p; see ``solve_minor``."""
        right, columns = self._right_side(B)
        r, k = self.rank, right.shape[1]
        field = self._field(k)
        X = empty_block(k, r, field.dtype)
        with Team(self._threads, float(r) ** 2 * k) as team:
            field.load(right, X, team, transposed=True)
            for a, b, U in self._panels():
                subtract_product(field, team, X.part(0, k, a, b), X.part(0, k, 0, a), U.part(0, a, 0, b - a))
                solve_right(field, team, U.part(a, b, 0, b - a), X.part(0, k, a, b), unit=False, upper=True)
            solve_right(field, team, self._lower, X, unit=True, upper=False)
        out = np.empty((r, k), np.int64)
        out[self._order] = field.store(X).T
        return out if columns else out[:, 0]

    def _right_side(self, B: Any) -> tuple[NDArray[np.int64], bool]:
        """Return B mod p as a matrix, and whether it was one."""
        values = read_like(B, Matrix(np.empty((0, 0), np.int64), self.p)).values
        if values.shape[0] != self.rank:
            raise ShapeError(f"expected B with {self.rank} rows, one per pivot, got shape {values.shape}")
        return (values, True) if values.ndim == 2 else (values[:, None], False)
