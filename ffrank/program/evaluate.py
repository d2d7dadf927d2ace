"""Evaluation mod p of a program at many inputs at once, and the rows of its Jacobian by reverse mode.

An exponential has a *formal* value: it is drawn with the point, whatever its exponent, and its derivative is
dE = E·du (FORMAT.md, section 3.1, says why that gives true ranks).

Exact for every odd prime p < 2^31; :mod:`ffrank.program.kernels` states why. Work is cut into chunks of
inputs and outputs, so that memory stays near ``workspace`` bytes whatever the number of rows.
"""

from __future__ import annotations

import sys
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ffrank.program.adjoints import Product, moved_back

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ffrank.program.ir import Instruction, Program

    Residues: TypeAlias = NDArray[np.int64]
    Draws: TypeAlias = Sequence[Residues]

__all__ = ["Evaluator"]

# Entries of all nodes in all lanes below which NumPy finishes before numba is loaded: 2·10^6 take about 0.1 s.
_COLD_WORK = 2_000_000
_LANES = 512  # lanes of a kernel call: long enough to vectorise, short enough for the cache


class Evaluator:
    """A program at one θ of F_p.

    Parameters
    ----------
    program : Program
    p : int
        An odd prime below 2^31; not checked here.
    theta : ndarray of shape (P,), or of shape (N, P)
        Residues mod p; in the second form one θ for each of the N inputs, for values only.
    workspace : int
        Bytes that the values and adjoints of one chunk may take.
    kernels : module, optional
        :mod:`ffrank.program.kernels` or :mod:`ffrank.program.plain`; chosen by the amount of work if absent.
    """

    def __init__(
        self, program: Program, p: int, theta: Residues, *, workspace: int = 2**27, kernels: Any = None
    ) -> None:
        self.program, self.p = program, p
        self._field: tuple[int, float] = (p, 1.0 / p)
        self._kernels = kernels
        self._workspace = workspace
        self._theta = np.ascontiguousarray(self._balance(np.atleast_2d(np.asarray(theta, np.int64))).T)
        self._needs_theta = self._dependent(range(program.first_input))
        self._varies = self._dependent(range(program.first_input, program.first_instruction))

    def _choose_kernels(self, lanes: int) -> None:
        """Compiled kernels, unless loading numba would take longer than the whole work in NumPy.

        Roots are slow in NumPy, and searched for in many rounds.
        """
        if self._kernels is not None:
            return
        cold = "numba" not in sys.modules and not any(i.op == "sqrt" for i in self.program.instructions)
        small = len(self.program.instructions) * 2000 + sum(self.program.sizes) * lanes <= _COLD_WORK
        self._kernels = import_module(f"ffrank.program.{'plain' if cold and small else 'kernels'}")

    def _dependent(self, sources: range) -> list[bool]:
        found = [n in sources for n in range(self.program.first_instruction)]
        for instruction in self.program.instructions:
            found.append(any(found[a] for a in instruction.operands))
        return found

    def _balance(self, x: Residues) -> Residues:
        return np.where(x > self.p // 2, x - self.p, x)

    # ------------------------------------------------------------------------------------------ values

    def values(self, inputs: Residues, draws: Draws = (), node: int | None = None) -> Residues:
        """f(θ, X), or the value of another node, for every input.

        Parameters
        ----------
        inputs : ndarray of shape (N, n)
        draws : sequence of ndarray of shape (N, size)
            The formal value of every exponential of the program, in order.
        node : int, optional
            The output if absent.

        Returns
        -------
        ndarray of shape (N, m)
            Residues 0 … p-1.
        """
        self._choose_kernels(len(inputs))
        node = self.program.output if node is None else node
        wanted = self._forward(inputs, draws)[node] % self.p
        return np.broadcast_to(wanted.T, (len(inputs), self.program.sizes[node]))

    def undefined(self, inputs: Residues, draws: Draws, wanted: Sequence[int] | None = None) -> NDArray[np.int64]:
        """For every input the first node that has no value there, or -1.

        A square root has none at 0 and at non-residues, a reciprocal at 0. With ``wanted`` only what these nodes need
        counts, and their own values must not be 0.
        """
        self._choose_kernels(len(inputs))
        values, program = self._forward(inputs, draws), self.program
        needed = set(wanted or ()) or {program.output}
        first = np.full(len(inputs), -1)
        for node, instruction in reversed(program.steps()):
            if node not in needed:
                continue
            needed.update(instruction.operands)
            if instruction.op in ("sqrt", "recip") or node in (wanted or ()):
                first[(values[node] % self.p == 0).any(axis=0) & np.ones(len(inputs), bool)] = node
        return first

    def _forward(self, inputs: Residues, draws: Draws) -> list[Residues]:
        """The value of every node, (size, lanes); one lane for nodes that no input reaches."""
        program = self.program
        columns = np.ascontiguousarray(self._balance(inputs).T)
        values = _split(self._theta, program.sizes[: program.first_input])
        values += _split(columns, program.sizes[program.first_input : program.first_instruction])
        formal = iter(draws)
        for node, instruction in program.steps():
            if instruction.op == "exp":
                values.append(np.ascontiguousarray(self._balance(next(formal)).T))
            else:
                values.append(self._value(node, instruction, [values[a] for a in instruction.operands]))
        return values

    def _value(self, node: int, instruction: Instruction, operands: list[Residues]) -> Residues:
        shapes, kernels = self.program.shapes, self._kernels
        match instruction.op:
            case "const":
                _, values = instruction.attribute
                return self._balance(np.array([v % self.p for v in values], np.int64))[:, None]
            case "add":
                left, right = np.broadcast_arrays(*operands)
                total = np.array(left)
                kernels.add(total.reshape(-1), np.ascontiguousarray(right).reshape(-1), *self._field)
                return total
            case "neg":
                return -operands[0]
            case "mul":
                narrow, wide = sorted(operands, key=lambda x: x.shape[1])
                out = np.zeros_like(wide)
                kernels.multiply_add(out[:, None], narrow, wide[:, None], *self._field)
                return out
            case "pow":
                return self._power(operands[0], instruction.attribute)
            case "recip":
                return self._inverse(operands[0])
            case "sqrt":
                return self._root(operands[0])
            case "matmul":
                out = np.zeros((self.program.sizes[node], max(x.shape[1] for x in operands)), np.int64)
                product = Product.forward(*(shapes[n] for n in instruction.operands))
                self._contract(out[:, None], operands[0], operands[1][:, None], product)
                return out
            case _:
                shaped = [
                    x.reshape(*shapes[n], x.shape[1]) for x, n in zip(operands, instruction.operands, strict=True)
                ]
                moved = self._move(instruction, shaped, shapes[node])
                return np.ascontiguousarray(moved).reshape(self.program.sizes[node], -1)

    def _move(self, instruction: Instruction, operands: list[Residues], shape: tuple[int, ...]) -> Residues:
        """The operations that only move or add entries, on arrays (*shape, lanes)."""
        a = operands[0]
        match instruction.op:
            case "reshape":
                return a.reshape(*shape, a.shape[-1])
            case "transpose":
                return a.transpose(*instruction.attribute, a.ndim - 1)
            case "slice":
                return a[tuple(slice(*t) for t in instruction.attribute)]
            case "broadcast":
                return np.broadcast_to(a, (*shape, a.shape[-1]))
            case "sum":
                # fewer than 2^31 balanced residues below 2^31 add up to less than 2^62
                return self._reduced(a.sum(axis=instruction.attribute))
            case "concat":
                lanes = max(x.shape[-1] for x in operands)
                wide = [np.broadcast_to(x, (*x.shape[:-1], lanes)) for x in operands]
                return np.concatenate(wide, axis=instruction.attribute)
        raise AssertionError(f"no meaning for {instruction.op}")

    def _power(self, x: Residues, k: int) -> Residues:
        flat: Residues = self._kernels.power(x.reshape(-1), k, *self._field)
        return flat.reshape(x.shape)

    def _root(self, x: Residues) -> Residues:
        flat: Residues = self._kernels.root_all(x.reshape(-1), *self._field, self._non_residue)
        return flat.reshape(x.shape)

    def _inverse(self, x: Residues) -> Residues:
        flat: Residues = self._kernels.inverse_all(x.reshape(-1), *self._field)
        return flat.reshape(x.shape)

    @cached_property
    def _non_residue(self) -> int:
        return next(z for z in range(2, self.p) if pow(z, (self.p - 1) // 2, self.p) == self.p - 1)

    def _reduced(self, x: Residues) -> Residues:
        return self._balance(np.ascontiguousarray(x) % self.p)

    def _contract(self, out: Residues, x: Residues, y: Residues, product: Product) -> None:
        """``out += x·y`` summed as ``product`` says; x is (size, lanes), out and y are (size, outputs, lanes)."""
        kernels = self._kernels
        sizes, x_steps, y_steps = product.sizes, product.x_steps, product.y_steps
        if x.shape[1] > 1 and y.shape[1] == 1 and y.shape[2] == 1:  # forward mode: swap to fix the single lane
            x, y, x_steps, y_steps = y[:, 0], x[:, None], y_steps, x_steps
        if x.shape[1] == 1:
            kernels.contract_fixed(
                out.reshape(len(out), -1), x[:, 0].copy(), np.ascontiguousarray(y).reshape(len(y), -1),
                sizes, x_steps, y_steps, *self._field, self._kernels.terms(self.p),
            )  # fmt: skip
        else:
            kernels.contract_varying(out, x, y, sizes, x_steps, y_steps, *self._field, self._kernels.terms(self.p))

    # ---------------------------------------------------------------------------------------- Jacobian

    def jacobian(self, inputs: Residues, draws: Draws = (), out: Residues | None = None) -> Residues:
        """The rows ∂f(θ, X_i)_o/∂θ for all inputs i and outputs o.

        Parameters
        ----------
        inputs : ndarray of shape (N, n)
            Residues mod p.
        draws : sequence of ndarray of shape (N, size)
            The formal value of every exponential of the program, in order.
        out : ndarray of shape (N·m, P), optional
            Where to write; C-contiguous int64.

        Returns
        -------
        ndarray of shape (N·m, P)
            Residues 0 … p-1; row i·m + o.
        """
        program, inputs = self.program, np.asarray(inputs, np.int64)
        m = program.output_count
        if out is None:
            out = np.empty((len(inputs) * m, program.parameter_count), np.int64)
        self._choose_kernels(len(inputs) * m)
        lanes, outputs = self._chunk(len(inputs))
        for start in range(0, len(inputs), lanes):
            part = slice(start, start + lanes)
            values = self._forward(inputs[part], [d[part] for d in draws])
            for first in range(0, m, outputs):
                self._reverse(values, out, start, first, min(m, first + outputs))
        return out

    def _chunk(self, inputs: int) -> tuple[int, int]:
        """How many inputs and outputs to take at once."""
        entries = max(1, self._workspace // (8 * sum(self.program.sizes)))
        lanes = max(1, min(inputs, _LANES, entries)) if self.program.inputs else 1
        return lanes, max(1, min(self.program.output_count, entries // lanes, max(1, _LANES // lanes)))

    def _reverse(self, values: list[Residues], out: Residues, start: int, first: int, stop: int) -> None:
        program = self.program
        lanes = values[program.first_input].shape[1] if program.inputs else 1
        adjoints: list[Residues | None] = [None] * len(program.shapes)
        seed = np.zeros((program.output_count, stop - first, lanes), np.int64)
        seed[np.arange(first, stop), np.arange(stop - first)] = 1
        adjoints[program.output] = seed
        for node, instruction in reversed(program.steps()):
            adjoint, adjoints[node] = adjoints[node], None
            if adjoint is not None and self._needs_theta[node]:
                self._pull(node, instruction, adjoint, values, adjoints)
        column = 0
        for node, size in enumerate(program.sizes[: program.first_input]):
            adjoint = adjoints[node]
            if adjoint is None:
                adjoint = np.zeros((size, stop - first, lanes), np.int64)
            m = program.output_count
            self._kernels.to_rows(out, start * m, m, first, column, adjoint, self.p)
            column += size

    def _pull(
        self,
        node: int,
        instruction: Instruction,
        adjoint: Residues,
        values: list[Residues],
        adjoints: list[Residues | None],
    ) -> None:
        """Add what ``adjoint``, of the instruction's value, contributes to the adjoints of its operands."""
        shapes, kernels = self.program.shapes, self._kernels
        operands = instruction.operands

        def target(n: int) -> Residues:
            array = adjoints[n]
            if array is None:
                array = adjoints[n] = np.zeros((self.program.sizes[n], *adjoint.shape[1:]), np.int64)
            return array

        def give(n: int, x: Residues) -> None:
            if adjoints[n] is None:
                adjoints[n] = np.array(x, order="C").reshape(self.program.sizes[n], *adjoint.shape[1:])
            else:
                kernels.add(target(n).reshape(-1), np.ascontiguousarray(x).reshape(-1), *self._field)

        wanted = [at for at, n in enumerate(operands) if self._needs_theta[n]]
        match instruction.op:
            case "add":
                for at in wanted:
                    give(operands[at], adjoint)
            case "neg":
                give(operands[0], -adjoint)
            case "mul":
                for at in wanted:
                    kernels.multiply_add(target(operands[at]), values[operands[1 - at]], adjoint, *self._field)
            case "exp":
                kernels.multiply_add(target(operands[0]), values[node], adjoint, *self._field)
            case "recip":
                slope = self._reduced(-values[node] * values[node])
                kernels.multiply_add(target(operands[0]), slope, adjoint, *self._field)
            case "sqrt":
                slope = self._inverse(self._reduced(2 * values[node]))
                kernels.multiply_add(target(operands[0]), slope, adjoint, *self._field)
            case "pow":
                k = instruction.attribute
                slope = self._reduced(self._power(values[operands[0]], k - 1) * (k % self.p))
                kernels.multiply_add(target(operands[0]), slope, adjoint, *self._field)
            case "matmul":
                factors = [shapes[n] for n in operands]
                for at in wanted:
                    product = Product.left(*factors) if at == 0 else Product.right(*factors)
                    self._contract(target(operands[at]), values[operands[1 - at]], adjoint, product)
            case _:
                back = moved_back(instruction, adjoint, [shapes[n] for n in operands])
                for at in wanted:
                    give(operands[at], self._reduced(back[at]) if instruction.op == "broadcast" else back[at])


def _split(stacked: Residues, sizes: tuple[int, ...]) -> list[Residues]:
    starts = np.cumsum((0, *sizes))
    return [stacked[s : s + n] for s, n in zip(starts, sizes, strict=False)]
