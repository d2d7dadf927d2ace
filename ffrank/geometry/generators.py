"""The matrix of all symmetry generators at a point."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ffrank.geometry.derived import Derived
    from ffrank.geometry.symmetry import Block, Family, Side
    from ffrank.program.ir import Program

    Residues: TypeAlias = NDArray[np.int64]

__all__ = ["generator_matrix"]


def generator_matrix(program: Program, found: list[Family], theta: Residues, p: int) -> Residues:
    """The matrix T of all generators at θ.

    Parameters
    ----------
    theta : ndarray of shape (P,)
        Residues mod p.

    Returns
    -------
    ndarray of shape (P, M)
        Residues 0 … p-1; one column a generator.
    """
    shapes = dict(program.parameters)
    T = np.zeros((program.parameter_count, sum(f.dimension for f in found)), np.int64)

    def matrix(name: str, source: Residues) -> Residues:
        """A parameter's entries as a matrix, vectors as columns, with what follows the first axis of ``source``."""
        shape, at = shapes[name], program.offsets[name]
        size = prod(shape)
        return source[at : at + size].reshape(shape[0], size // shape[0], *source.shape[1:])

    def weights(name: str) -> Residues:
        return matrix(name, theta)

    @cache
    def value(source: str | Derived) -> Residues:
        return weights(source) if isinstance(source, str) else source.value(weights, p)

    column = 0
    for block in (b for f in found for b in f.blocks):
        _add_block(block, T, column, matrix, value, p)
        column += block.dimension
    return np.remainder(T, p, out=T)


def _add_block(
    block: Block,
    T: Residues,
    column: int,
    matrix: Callable[[str, Residues], Residues],
    value: Callable[[str | Derived], Residues],
    p: int,
) -> None:
    for action in block.actions:
        into = matrix(action.target, T)
        source = value(action.source) * (action.factor % p) % p
        if block.kind == "scalar":
            into[:, :, column] += source
            continue
        for g, entries in enumerate(block.basis(), column):
            for i, j, x in entries:
                _act(into[:, :, g], action.side, i, j, source if x == 1 else -source, x * action.factor)


def _act(into: Residues, side: Side, i: int, j: int, source: Residues, x: int) -> None:
    """Add the action of the ξ whose only entry is x at (i, j); ``source`` has x and the factor in it."""
    match side:
        case "left":
            into[i] += source[j]
        case "left-transposed":
            into[j] += source[i]
        case "right":
            into[:, j] += source[:, i]
        case "itself":
            into[i, j] += x
        case "row-sums":
            into[i] += x
        case "column-sums":
            into[:, i] += x
