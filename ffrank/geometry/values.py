"""A program evaluated at one point: exactly over Q, or in intervals that contain the true real values."""

from __future__ import annotations

import importlib
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ffrank.errors import InputError
from ffrank.program.ir import Instruction, Program, interpret

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[Any]

__all__ = ["enclose", "evaluate"]


def evaluate(program: Program, theta: Sequence[Fraction], x: Sequence[Any]) -> list[Fraction]:
    """f(θ, X) over Q, row-major.

    Raises
    ------
    ZeroDivisionError
        If a denominator is 0 there.
    InputError
        If the program has exponentials or square roots.
    """

    def special(op: str) -> Callable[[Any], Any]:
        raise InputError(f"expected a rational program, got one that uses {op}")

    return list(_output(program, [*theta, *(Fraction(v) for v in x)], Fraction, special))


def enclose(
    program: Program, theta: Sequence[Fraction], x: Sequence[Any], precision: int
) -> list[tuple[Fraction, Fraction]] | None:
    """Intervals that contain the entries of f(θ, X) as real numbers.

    Parameters
    ----------
    precision
        Bits of the interval arithmetic; more of them give narrower intervals.

    Returns
    -------
    list of (low, high) or None
        None if a denominator or the argument of a root cannot be told from 0 with this precision.
    """
    context = importlib.import_module("mpmath.ctx_iv").MPIntervalContext()
    context.prec = precision

    def number(value: Any) -> Any:
        return context.mpf(value.numerator) / value.denominator

    def special(op: str) -> Callable[[Any], Any]:
        return context.exp if op == "exp" else context.sqrt  # type: ignore[no-any-return]

    try:
        found = _output(program, [number(Fraction(v)) for v in (*theta, *x)], number, special)
    except (ZeroDivisionError, ValueError):  # the root of an interval that reaches below 0 is a ValueError
        return None
    ends = [(_dyadic(v.a), _dyadic(v.b)) for v in found]
    return None if any(low is None or high is None for low, high in ends) else ends  # type: ignore[return-value]


def _dyadic(end: Any) -> Fraction | None:
    """An end of an interval as the fraction that it is; None if it is infinite."""
    sign, mantissa, exponent, _ = end._mpi_[0]
    if not mantissa and exponent:
        return None
    return Fraction(-int(mantissa) if sign else int(mantissa)) * Fraction(2) ** int(exponent)


def _output(
    program: Program, leaves: list[Any], number: Callable[[Any], Any], special: Callable[[str], Callable[[Any], Any]]
) -> list[Any]:
    arrays, at = [], 0
    for shape in program.shapes[: program.first_instruction]:
        arrays.append(_array(leaves[at : at + prod(shape)], shape))
        at += prod(shape)

    def meaning(instruction: Instruction, operands: list[Numbers]) -> Numbers:
        return np.asarray(_result(instruction, operands, number, special), dtype=object)

    return list(interpret(program, arrays, meaning)[program.output].flat)


def _array(entries: Sequence[Any], shape: tuple[int, ...]) -> Numbers:
    out = np.empty(len(entries), dtype=object)
    for i, entry in enumerate(entries):
        out[i] = entry
    return out.reshape(shape)


def _result(
    instruction: Instruction,
    operands: list[Numbers],
    number: Callable[[Any], Any],
    special: Callable[[str], Callable[[Any], Any]],
) -> Any:
    a, attribute = operands[0] if operands else None, instruction.attribute
    match instruction.op, a:
        case "const", _:
            shape, values = attribute
            return _array([number(Fraction(v)) for v in values], shape)
        case "concat", _:
            return np.concatenate(operands, axis=attribute)
        case "add", _:
            return operands[0] + operands[1]
        case "mul", _:
            return operands[0] * operands[1]
        case "matmul", _:
            return operands[0] @ operands[1]
        case (("neg" | "pow" | "recip" | "exp" | "sqrt" as op), np.ndarray()):
            return _array([_entrywise(op, x, attribute, special) for x in a.flat], a.shape)
        case "sum", np.ndarray():
            return a.sum(axis=attribute)
        case "reshape", np.ndarray():
            return a.reshape(attribute)
        case "transpose", np.ndarray():
            return a.transpose(attribute)
        case "slice", np.ndarray():
            return a[tuple(slice(*t) for t in attribute)]
        case "broadcast", np.ndarray():
            return np.broadcast_to(a, attribute)
    raise AssertionError(f"no meaning for {instruction.op}")


def _entrywise(op: str, x: Any, k: Any, special: Callable[[str], Callable[[Any], Any]]) -> Any:
    if op == "neg":
        return -x
    if op == "pow":
        return x**k
    return 1 / x if op == "recip" else special(op)(x)
