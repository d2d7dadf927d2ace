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
    a
        The block as a two-dimensional view.
    f, o, ld
        The flat buffer of the whole matrix, the offset of the block in it, and the row length of the matrix.
    m, n
        Its shape.
    """

    __slots__ = ("a", "f", "ld", "m", "n", "o")

    def __init__(self, a: NDArray[Any], f: NDArray[Any], o: int, ld: int) -> None:
        self.a, self.f, self.o, self.ld = a, f, o, ld
        self.m, self.n = a.shape

    @classmethod
    def of(cls, matrix: NDArray[Any]) -> Block:
        """Return the whole of a C-contiguous matrix."""
        return cls(matrix, matrix.reshape(-1), 0, matrix.shape[1])

    def __reduce__(self) -> tuple[Any, tuple[NDArray[Any]]]:
        return Block.of, (np.ascontiguousarray(self.a),)

    def part(self, i0: int, i1: int, j0: int, j1: int) -> Block:
        """Return rows i0 .. i1 and columns j0 .. j1."""
        return Block(self.a[i0:i1, j0:j1], self.f, self.o + i0 * self.ld + j0, self.ld)


def empty_block(m: int, n: int, dtype: Any) -> Block:
    """Return a new block with unset entries."""
    return Block.of(np.empty((m, n), dtype))
