"""Programs: a parametrized map f(θ, X) as a list of instructions in static single assignment.

A program is written once, by a :class:`Builder`, and read by interpreters. Nodes are numbered: the
parameters, then the inputs, then the instructions. The meaning and the canonical JSON of every
instruction are fixed in ``certificate/FORMAT.md``, section 2.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ffrank.errors import ProgramError, ShapeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["FORMAT", "Builder", "Instruction", "Program", "Shape", "canonical_json", "digest", "interpret"]

FORMAT = "ffrank-program/1"
_LARGEST = 10**25  # what a certificate's integers stay below
_MOST_AXES = 32

Shape: TypeAlias = tuple[int, ...]
Named: TypeAlias = tuple[str, Shape]
T = TypeVar("T")


def canonical_json(value: Any) -> str:
    """Write ``value`` with sorted keys, no spaces and ASCII only: equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON of ``value``, in hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Instruction:
    """One operation: its name, the nodes it reads, and what else it needs (a shape, an exponent, …)."""

    op: str
    operands: tuple[int, ...]
    attribute: Any = None

    def to_json(self) -> list[Any]:
        """The instruction as in FORMAT.md."""
        if self.op == "const":
            shape, values = self.attribute
            return ["const", list(shape), list(values)]
        if self.op == "concat":
            return ["concat", self.attribute, *self.operands]
        if self.attribute is None:
            return [self.op, *self.operands]
        return [self.op, *self.operands, _listed(self.attribute)]


def _listed(value: Any) -> Any:
    return [_listed(v) for v in value] if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Program:
    """A map f(θ, X) -> Y with its parameters, inputs, instructions and output node.

    Attributes
    ----------
    parameters, inputs : tuple of (name, shape)
    instructions : tuple of Instruction
    shapes : tuple of Shape
        The shape of every node.
    output : int
        The node that holds f(θ, X).
    """

    parameters: tuple[Named, ...]
    inputs: tuple[Named, ...]
    instructions: tuple[Instruction, ...]
    shapes: tuple[Shape, ...]
    output: int

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of entries of every node."""
        return tuple(prod(s) for s in self.shapes)

    @property
    def first_input(self) -> int:
        """The node of the first input."""
        return len(self.parameters)

    @property
    def first_instruction(self) -> int:
        """The node of the first instruction."""
        return len(self.parameters) + len(self.inputs)

    @cached_property
    def parameter_count(self) -> int:
        """P, the number of parameter entries."""
        return sum(self.sizes[: self.first_input])

    @cached_property
    def input_count(self) -> int:
        """The number of entries of one input X."""
        return sum(self.sizes[self.first_input : self.first_instruction])

    @property
    def output_count(self) -> int:
        """The number of entries of f(θ, X)."""
        return self.sizes[self.output]

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Where each parameter starts in θ."""
        starts, at = {}, 0
        for name, shape in self.parameters:
            starts[name] = at
            at += prod(shape)
        return starts

    def steps(self) -> list[tuple[int, Instruction]]:
        """The instructions with the nodes that they define, in order."""
        return list(enumerate(self.instructions, self.first_instruction))

    def to_json(self) -> dict[str, Any]:
        """The canonical object of FORMAT.md."""
        return {
            "format": FORMAT,
            "parameters": [[name, list(shape)] for name, shape in self.parameters],
            "inputs": [[name, list(shape)] for name, shape in self.inputs],
            "instructions": [i.to_json() for i in self.instructions],
            "output": self.output,
        }

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON: the name of this map in certificates."""
        return digest(self.to_json())


class Builder:
    """Write a program instruction by instruction; every method checks shapes and returns the new node.

    Parameters
    ----------
    parameters, inputs : sequence of (name, shape)
        In the order of θ and X. Sizes are at least 1; names are all different.

    Raises
    ------
    ProgramError, ShapeError
        At the first name, shape or operand that does not fit.
    """

    def __init__(self, parameters: Sequence[Named], inputs: Sequence[Named]) -> None:
        self.parameters = tuple((name, tuple(shape)) for name, shape in parameters)
        self.inputs = tuple((name, tuple(shape)) for name, shape in inputs)
        names = [name for name, _ in self.parameters + self.inputs]
        for name in names:
            if not isinstance(name, str) or not name:
                raise ProgramError(f"expected names as non-empty strings, got {name!r}")
        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise ProgramError(f"expected different names for parameters and inputs, got {twice!r} twice")
        self.shapes: list[Shape] = [_sizes(shape) for _, shape in self.parameters + self.inputs]
        self.instructions: list[Instruction] = []

    def _emit(self, op: str, operands: tuple[int, ...], shape: Shape, attribute: Any = None) -> int:
        self.instructions.append(Instruction(op, operands, attribute))
        self.shapes.append(shape)
        return len(self.shapes) - 1

    def const(self, shape: Sequence[int], values: Sequence[int]) -> int:
        """Fixed integers, row-major."""
        shape = _sizes(shape)
        if len(values) != prod(shape):
            raise ShapeError(f"expected {prod(shape)} constants for shape {shape}, got {len(values)}")
        integers = tuple(int(v) for v in values)
        if any(abs(v) >= _LARGEST for v in integers):
            raise ProgramError("expected constants of at most 25 digits; multiply smaller ones inside the map")
        return self._emit("const", (), shape, (shape, integers))

    def _entrywise(self, op: str, a: int, b: int) -> int:
        if self.shapes[a] != self.shapes[b]:
            raise ShapeError(f"{op}: expected equal shapes, got {self.shapes[a]} and {self.shapes[b]}")
        return self._emit(op, (a, b), self.shapes[a])

    def add(self, a: int, b: int) -> int:
        """Entrywise sum."""
        return self._entrywise("add", a, b)

    def mul(self, a: int, b: int) -> int:
        """Entrywise product."""
        return self._entrywise("mul", a, b)

    def neg(self, a: int) -> int:
        """Minus a."""
        return self._emit("neg", (a,), self.shapes[a])

    def pow(self, a: int, k: int) -> int:
        """Entrywise k-th power, k ≥ 1."""
        if not 1 <= k < _LARGEST:
            raise ProgramError(f"expected an exponent from 1 to 10^25, got {k}")
        return self._emit("pow", (a,), self.shapes[a], k)

    def exp(self, a: int) -> int:
        """Entrywise exponential."""
        return self._emit("exp", (a,), self.shapes[a])

    def sqrt(self, a: int) -> int:
        """Entrywise square root."""
        return self._emit("sqrt", (a,), self.shapes[a])

    def recip(self, a: int) -> int:
        """Entrywise 1/a."""
        return self._emit("recip", (a,), self.shapes[a])

    def matmul(self, a: int, b: int) -> int:
        """Matrix product over the last two axes; the leading axes are equal."""
        left, right = self.shapes[a], self.shapes[b]
        fits = len(left) >= 2 and len(right) >= 2 and left[-1] == right[-2] and left[:-2] == right[:-2]
        if not fits:
            raise ShapeError(f"matmul: expected (… n×k)·(… k×m), got {left} and {right}")
        return self._emit("matmul", (a, b), (*left[:-1], right[-1]))

    def sum(self, a: int, axis: int) -> int:
        """Sum over one axis, which disappears."""
        shape = self.shapes[a]
        self._check_axis("sum", axis, shape)
        return self._emit("sum", (a,), shape[:axis] + shape[axis + 1 :], axis)

    def reshape(self, a: int, shape: Sequence[int]) -> int:
        """The same entries, row-major, in another shape."""
        shape = _sizes(shape)
        if prod(shape) != prod(self.shapes[a]):
            raise ShapeError(f"reshape: {self.shapes[a]} does not have the size of {shape}")
        return self._emit("reshape", (a,), shape, shape)

    def transpose(self, a: int, perm: Sequence[int]) -> int:
        """Axis i of the result is axis perm[i] of a."""
        perm, shape = tuple(perm), self.shapes[a]
        if sorted(perm) != list(range(len(shape))):
            raise ShapeError(f"transpose: {perm} is not a permutation of the axes of {shape}")
        return self._emit("transpose", (a,), tuple(shape[i] for i in perm), perm)

    def slice(self, a: int, triples: Sequence[tuple[int, int, int]]) -> int:
        """Every step-th entry from start to before stop, one triple an axis."""
        triples, shape = tuple((start, stop, step) for start, stop, step in triples), self.shapes[a]
        fits = len(triples) == len(shape) and all(
            0 <= start < stop <= size and step >= 1 for (start, stop, step), size in zip(triples, shape, strict=True)
        )
        if not fits:
            raise ShapeError(f"slice: {triples} does not fit the shape {shape}")
        return self._emit("slice", (a,), tuple(len(range(*t)) for t in triples), triples)

    def broadcast(self, a: int, shape: Sequence[int]) -> int:
        """Repeat axes of size 1, and new leading axes, to reach ``shape``."""
        shape, old = _sizes(shape), self.shapes[a]
        tail = shape[len(shape) - len(old) :]
        fits = len(old) <= len(shape) and all(o in (1, n) for o, n in zip(old, tail, strict=True))
        if not fits:
            raise ShapeError(f"broadcast: {old} cannot become {shape}")
        return self._emit("broadcast", (a,), shape, shape)

    def concat(self, axis: int, nodes: Sequence[int]) -> int:
        """Join along one axis; the other axes are equal."""
        if not nodes:
            raise ShapeError("concat: expected at least one operand")
        shapes = [self.shapes[a] for a in nodes]
        self._check_axis("concat", axis, shapes[0])
        rest = {s[:axis] + s[axis + 1 :] for s in shapes}
        if len({len(s) for s in shapes}) > 1 or len(rest) > 1:
            raise ShapeError(f"concat along axis {axis}: shapes {shapes} do not fit together")
        shape = (*shapes[0][:axis], sum(s[axis] for s in shapes), *shapes[0][axis + 1 :])
        return self._emit("concat", tuple(nodes), shape, axis)

    def _check_axis(self, op: str, axis: int, shape: Shape) -> None:
        if not 0 <= axis < len(shape):
            raise ShapeError(f"{op}: axis {axis} is not one of the shape {shape}")

    def finish(self, output: int) -> Program:
        """The program whose value is node ``output``; instructions that it does not use are dropped."""
        first = len(self.parameters) + len(self.inputs)
        used = {output}
        for node in range(len(self.shapes) - 1, first - 1, -1):
            if node in used:
                used.update(self.instructions[node - first].operands)
        kept = [n for n in range(len(self.shapes)) if n < first or n in used]
        new = {old: at for at, old in enumerate(kept)}
        instructions = (self.instructions[n - first] for n in kept if n >= first)
        return Program(
            self.parameters,
            self.inputs,
            tuple(Instruction(i.op, tuple(new[a] for a in i.operands), i.attribute) for i in instructions),
            tuple(self.shapes[n] for n in kept),
            new[output],
        )


def _sizes(shape: Sequence[int]) -> Shape:
    result = tuple(shape)
    if len(result) > _MOST_AXES:
        raise ShapeError(f"expected at most {_MOST_AXES} axes, got {len(result)}")
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in result):
        raise ShapeError(f"expected a shape of integers of at least 1, got {result}")
    return result


def interpret(program: Program, leaves: Sequence[T], meaning: Callable[[Instruction, list[T]], T]) -> list[T]:
    """Give every node a value: the ``leaves`` are those of parameters and inputs, ``meaning`` does the rest."""
    values = list(leaves)
    for instruction in program.instructions:
        values.append(meaning(instruction, [values[a] for a in instruction.operands]))
    return values
