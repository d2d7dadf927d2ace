"""How single instructions act on adjoints: batched products as strides, and the transposes of moving entries."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ffrank.program.ir import Instruction

    Residues: TypeAlias = NDArray[np.int64]

__all__ = ["Product", "moved_back"]


class Product:
    """A batched sum Σ_s x[g, i, j, s]·y[g, i, j, s], as sizes (G, I, J, S) and the steps of x and y."""

    def __init__(self, sizes: tuple[int, ...], x_steps: tuple[int, ...], y_steps: tuple[int, ...]) -> None:
        self.sizes, self.x_steps, self.y_steps = sizes, x_steps, y_steps

    @classmethod
    def forward(cls, a: tuple[int, ...], b: tuple[int, ...]) -> Product:
        """C = A·B: x = A, y = B."""
        (n, k), m = a[-2:], b[-1]
        return cls((prod(a[:-2]), n, m, k), (n * k, k, 0, 1), (k * m, 0, 1, m))

    @classmethod
    def left(cls, a: tuple[int, ...], b: tuple[int, ...]) -> Product:
        """The adjoint of A is C̄·Bᵀ: x = B, y = C̄."""
        (n, k), m = a[-2:], b[-1]
        return cls((prod(a[:-2]), n, k, m), (k * m, 0, m, 1), (n * m, m, 0, 1))

    @classmethod
    def right(cls, a: tuple[int, ...], b: tuple[int, ...]) -> Product:
        """The adjoint of B is Aᵀ·C̄: x = A, y = C̄."""
        (n, k), m = a[-2:], b[-1]
        return cls((prod(a[:-2]), k, m, n), (n * k, 1, 0, k), (n * m, 0, 1, m))


def moved_back(instruction: Instruction, adjoint: Residues, shapes: list[tuple[int, ...]]) -> list[Any]:
    """The transposes of the operations that only move entries; arrays (*shape, outputs, lanes)."""
    tail, a = adjoint.shape[1:], shapes[0]
    match instruction.op:
        case "reshape":
            return [adjoint]
        case "transpose":
            perm = instruction.attribute
            shaped = adjoint.reshape(*(a[i] for i in perm), *tail)
            return [shaped.transpose(*np.argsort(perm), len(a), len(a) + 1)]
        case "slice":
            out = np.zeros((*a, *tail), np.int64)
            part = out[tuple(slice(*t) for t in instruction.attribute)]
            part[...] = adjoint.reshape(part.shape)
            return [out]
        case "broadcast":
            shape = instruction.attribute
            shaped = adjoint.reshape(*shape, *tail)
            new = len(shape) - len(a)
            repeated = [i + new for i, n in enumerate(a) if n == 1 and shape[i + new] > 1]
            # fewer than 2^31 balanced residues below 2^31 add up to less than 2^62
            return [shaped.sum(axis=(*range(new), *repeated), keepdims=False)]
        case "sum":
            axis = instruction.attribute
            shaped = np.expand_dims(adjoint.reshape(*a[:axis], *a[axis + 1 :], *tail), axis)
            return [np.broadcast_to(shaped, (*a, *tail))]
        case "concat":
            axis = instruction.attribute
            cuts = np.cumsum([s[axis] for s in shapes])
            whole = adjoint.reshape(*a[:axis], int(cuts[-1]), *a[axis + 1 :], *tail)
            return np.split(whole, cuts[:-1], axis=axis)
    raise AssertionError(f"no transpose for {instruction.op}")
