"""A program read by SymPy: formulas that a person can check, and expansions that tests compare with."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ffrank.errors import ResourceError
from ffrank.program.ir import Instruction, Program, interpret

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Symbolic = NDArray[np.object_]

__all__ = ["symbolic", "symbols"]

_LIMIT = 10_000


def symbols(program: Program) -> list[Symbolic]:
    """One array of SymPy symbols for every parameter and input, such as ``W[1, 2]``."""
    import sympy

    def named(name: str, shape: tuple[int, ...]) -> Symbolic:
        entries = [sympy.Symbol(f"{name}[{', '.join(map(str, at))}]") for at in np.ndindex(shape)]
        return np.array(entries, dtype=object).reshape(shape)

    return [named(name, shape) for name, shape in program.parameters + program.inputs]


def symbolic(
    program: Program, leaves: list[Symbolic] | None = None, exponential: Callable[[Any], Any] | None = None
) -> Symbolic:
    """The output of the program at symbolic leaves, unexpanded.

    ``exponential`` gives the value of exp at an expression; SymPy's if absent.

    Raises
    ------
    ResourceError
        If the program has more than 10,000 entries in all nodes together.
    """
    if sum(program.sizes) > _LIMIT:
        raise ResourceError(f"expected at most {_LIMIT} entries for symbols, got {sum(program.sizes)}")
    meaning = partial(_meaning, exponential)
    values = interpret(program, symbols(program) if leaves is None else leaves, meaning)
    return values[program.output]


def _meaning(exponential: Callable[[Any], Any] | None, instruction: Instruction, operands: list[Symbolic]) -> Symbolic:
    import sympy

    if instruction.op in ("exp", "sqrt", "recip"):
        functions = {"exp": exponential or sympy.exp, "sqrt": sympy.sqrt, "recip": lambda x: 1 / x}
        entries = [functions[instruction.op](x) for x in operands[0].flat]
        return np.array(entries, dtype=object).reshape(operands[0].shape)
    # NumPy turns results without axes into bare objects; asarray turns them back.
    return np.asarray(_result(instruction, operands), dtype=object)


def _result(instruction: Instruction, operands: list[Any]) -> Any:
    import sympy

    attribute = instruction.attribute
    match instruction.op:
        case "const":
            shape, values = attribute
            return np.array([sympy.Integer(v) for v in values], dtype=object).reshape(shape)
        case "add":
            return operands[0] + operands[1]
        case "mul":
            return operands[0] * operands[1]
        case "neg":
            return -operands[0]
        case "pow":
            return operands[0] ** attribute
        case "matmul":
            return operands[0] @ operands[1]
        case "sum":
            return operands[0].sum(axis=attribute)
        case "reshape":
            return operands[0].reshape(attribute)
        case "transpose":
            return operands[0].transpose(attribute)
        case "slice":
            return operands[0][tuple(slice(*t) for t in attribute)]
        case "broadcast":
            return np.broadcast_to(operands[0], attribute)
        case "concat":
            return np.concatenate(operands, axis=attribute)
    raise AssertionError(f"no meaning for {instruction.op}")
