"""Blocks of a matrix, addressed as the kernels want them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Block", "empty_block"]


class Block:
    """An m×n block of a C-contiguous matrix.

    Attributes
    ----------
    m, n
        Its shape.
    f, o, ld
        The flat buffer of the whole matrix, the offset of the block in it, and the row length of the matrix.
    """

    __slots__ = ("_base", "_col", "_row", "f", "ld", "m", "n", "o")

    def __init__(self, base: NDArray[Any], f: NDArray[Any], ld: int, row: int, col: int, m: int, n: int) -> None:
        self._base, self._row, self._col = base, row, col
        self.f, self.o, self.ld = f, row * ld + col, ld
        self.m, self.n = m, n

    @classmethod
    def of(cls, matrix: NDArray[Any]) -> Block:
        """Return the whole of a C-contiguous matrix."""
        m, n = matrix.shape
        return cls(matrix, matrix.reshape(-1), n, 0, 0, m, n)

    def __reduce__(self) -> tuple[Any, tuple[NDArray[Any]]]:
        return Block.of, (np.ascontiguousarray(self.a),)

    @property
    def a(self) -> NDArray[Any]:
        """The block as a two-dimensional view."""
        return self._base[self._row : self._row + self.m, self._col : self._col + self.n]

    def part(self, i0: int, i1: int, j0: int, j1: int) -> Block:
        """Return rows i0 .. i1 and columns j0 .. j1."""
        return Block(self._base, self.f, self.ld, self._row + i0, self._col + j0, i1 - i0, j1 - j0)


def empty_block(m: int, n: int, dtype: Any) -> Block:
    """Return a new block with unset entries."""
    return Block.of(np.empty((m, n), dtype))
