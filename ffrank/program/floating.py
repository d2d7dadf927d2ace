"""A program in double precision: real exponentials, roots and reciprocals, for comparison with other software.

Nothing that ffrank certifies rests on this interpreter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ffrank.errors import ShapeError
from ffrank.program.ir import Instruction, Program, interpret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

__all__ = ["evaluate"]


def evaluate(
    program: Program, theta: ArrayLike | Mapping[str, ArrayLike], inputs: ArrayLike | Mapping[str, ArrayLike]
) -> Floats:
    """f(θ, X) over the real numbers, in float64.

    Unlike evaluation mod p, an exponential is the exponential of its argument and a square root is the positive one.

    Parameters
    ----------
    theta : array of P numbers, or mapping from parameter names to arrays
        A flat array holds the parameters one after the other, row-major.
    inputs : array of n numbers, or mapping from input names to arrays
        One input X, likewise.

    Returns
    -------
    ndarray of the shape of the output
        As accurate as rounding allows: without any bound on its error. An undefined root, reciprocal or an overflow
        gives NaN or infinity, without a warning.

    Raises
    ------
    ShapeError
        If numbers or names are missing or left over.
    """
    leaves = _leaves(program.parameters, theta, "theta") + _leaves(program.inputs, inputs, "inputs")
    with np.errstate(all="ignore"):
        return interpret(program, leaves, _meaning)[program.output]


def _leaves(named: tuple[tuple[str, tuple[int, ...]], ...], values: Any, what: str) -> list[Floats]:
    """One array for each name."""
    sizes = [int(np.prod(shape)) for _, shape in named]
    if hasattr(values, "keys"):
        names = [name for name, _ in named]
        if set(values) != set(names):
            raise ShapeError(f"{what}: expected the names {', '.join(names)}, got {', '.join(map(str, values))}")
        parts = [np.asarray(values[name], np.float64) for name in names]
        for part, (name, shape) in zip(parts, named, strict=True):
            if part.shape != shape:
                raise ShapeError(f"{what}: expected the shape {shape} for {name}, got {part.shape}")
        return parts
    flat = np.asarray(values, np.float64).reshape(-1)
    if len(flat) != sum(sizes):
        raise ShapeError(f"{what}: expected {sum(sizes)} numbers, got {len(flat)}")
    cuts = np.cumsum(sizes, dtype=np.int64)[:-1]
    return [part.reshape(shape) for part, (_, shape) in zip(np.split(flat, cuts), named, strict=True)] if named else []


def _meaning(instruction: Instruction, operands: list[Floats]) -> Floats:
    return np.asarray(_result(instruction, operands), np.float64)


def _result(instruction: Instruction, operands: list[Floats]) -> Any:
    attribute = instruction.attribute
    match instruction.op:
        case "const":
            shape, values = attribute
            return np.array([float(v) for v in values]).reshape(shape)
        case "add":
            return operands[0] + operands[1]
        case "mul":
            return operands[0] * operands[1]
        case "matmul":
            return operands[0] @ operands[1]
        case "broadcast":
            return np.broadcast_to(operands[0], attribute)
        case "concat":
            return np.concatenate(operands, axis=attribute)
    return _unary(instruction, operands[0])


def _unary(instruction: Instruction, x: Floats) -> Any:
    attribute = instruction.attribute
    match instruction.op:
        case "neg":
            return -x
        case "pow":
            return x**attribute
        case "exp":
            return np.exp(x)
        case "sqrt":
            return np.sqrt(x)
        case "recip":
            return 1 / x
        case "sum":
            return x.sum(axis=attribute)
        case "reshape":
            return x.reshape(attribute)
        case "transpose":
            return x.transpose(attribute)
        case "slice":
            return x[tuple(slice(*t) for t in attribute)]
    raise AssertionError(f"no meaning for {instruction.op}")
