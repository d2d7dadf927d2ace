"""The independent checker of ffrank's certificates: one file, standard library only.

    python -I checker.py CERT... [--full] [--json] [--max-work N]

Exit status 0: every certificate is valid; 1: one is invalid; 2: one is malformed or unusable. As a library: `check`.

`FORMAT.md` beside this file is the specification, and its sections are meant below. What a certificate claims is
rebuilt here from the architecture (or the user's program), the prime and the seed. Only pivots and witnesses are taken
from the prover, and the witnesses are tested: if the minor J of the Jacobian at the pivots were singular, J w = b could
hold for a random vector b with probability at most 1/p. So J w is all that is computed, and that is one derivative of
the network, along w in parameter space.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from math import comb, isqrt, prod
from operator import mul
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MAX_WORK = 20_000_000_000  # multiplications that are done without asking
ENTRY_WORK, INSTRUCTION_WORK = 1_000, 100_000  # what a stored number and an instruction count as, to bound memory
NODE_WORK = 50  # what visiting an instruction counts as
MAX_AXES = 32
MAX_BYTES = 2**26
MAX_DEGREE = 2**4096
LARGEST = 10**25 - 1

Vector = list[int]
Shape = tuple[int, ...]
Object = dict[str, Any]


# ---- Verdicts ----


class CheckError(Exception):
    """The certificate was not accepted."""


class Invalid(CheckError):  # noqa: N818
    """The certificate is well-formed, and says something that is false or not proven."""


class Malformed(CheckError):  # noqa: N818
    """Not a certificate, or one that this checker cannot read or may not spend the work on."""


@dataclass(frozen=True)
class Report:
    """A valid certificate: what it says (`dimension` as in the certificate), and what that rests on."""

    parameters: int
    dimension: Object
    verified: tuple[str, ...]
    trusted: tuple[str, ...]


def _require(condition: object, reason: str) -> None:
    if not condition:
        raise Invalid(reason)


def _well_formed(condition: object, reason: str) -> None:
    if not condition:
        raise Malformed(reason)


def _show(x: object) -> str:
    try:
        text = ascii(x)
    except RecursionError:
        text = "something nested too deeply"
    return text if len(text) <= 60 else text[:57] + "..."


# ---- Section 1: reading, canonical form, streams ----


def digest(x: object) -> str:
    """Return the SHA-256 of the canonical JSON of x."""
    return hashlib.sha256(json.dumps(x, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read(source: bytes | str | Object) -> Any:
    """Read strict JSON: UTF-8, no key twice, only integers, of bounded length. gzip is undone."""
    try:
        if isinstance(source, dict):
            source = json.dumps(source)
        if isinstance(source, bytes):
            if source[:2] == b"\x1f\x8b":
                inflate = zlib.decompressobj(wbits=31)
                source = inflate.decompress(source, MAX_BYTES + 1)
                complete = inflate.eof and not inflate.unused_data
                _well_formed(complete or len(source) > MAX_BYTES, "a truncated or continued gzip file")
            _well_formed(len(source) <= MAX_BYTES, f"larger than {MAX_BYTES} bytes")
            source = source.decode("utf-8")
        hooks = dict.fromkeys(("parse_int", "parse_float", "parse_constant"), _integer)
        return json.loads(source, object_pairs_hook=_no_duplicates, **hooks)  # type: ignore[arg-type]
    except RecursionError:
        raise Malformed("not JSON that can be read: nested too deeply") from None
    except (ValueError, TypeError, zlib.error) as error:  # errors of decoding are ValueErrors
        raise Malformed(f"not JSON: {_show(str(error))}") from None


def _no_duplicates(pairs: list[tuple[str, Any]]) -> Object:
    result = dict(pairs)
    _well_formed(len(result) == len(pairs), "an object has a key twice")
    return result


def _integer(literal: str) -> int:
    digits = literal.removeprefix("-")
    _well_formed(digits.isdigit() and len(digits) <= 25, f"not an integer of at most 25 digits: {_show(literal)}")
    return int(literal)


def bits(x: int) -> int:
    """Return ceil(log2 x), and 0 for x = 0."""
    return (x - 1).bit_length() if x else 0


def words(message: str) -> Iterator[int]:
    """Yield the 8-byte words of SHAKE-256 of a message, for ever."""
    shake, done, size = hashlib.shake_256(message.encode()), 0, 64
    while True:
        yield from struct.unpack(f"<{size}Q", shake.digest(8 * size))[done:]
        done, size = size, 2 * size


def stream(message: str, p: int, count: int) -> Vector:
    """Return the first values of Stream(message, p)."""
    mask = (1 << p.bit_length()) - 1
    return list(islice((value for word in words(message) if (value := word & mask) < p), count))


def is_prime(n: int) -> bool:
    """Decide primality of n < 3,215,031,751, where Miller and Rabin's test with these bases makes no error."""
    if n < 2 or any(n % q == 0 for q in (2, 3, 5, 7)):
        return n in (2, 3, 5, 7)
    twos = ((n - 1) & (1 - n)).bit_length() - 1
    for base in (2, 3, 5, 7):
        x = pow(base, (n - 1) >> twos, n)
        if x != 1 and all(pow(x, 1 << i, n) != n - 1 for i in range(twos)):
            return False
    return True


# ---- Forms: the keys and types of all objects ----

INDEX, SIZE = range(LARGEST + 1), range(1, LARGEST + 1)
WHOLE, NEGATIVE = range(-LARGEST, LARGEST + 1), range(-LARGEST, 0)
ACTIVATIONS = {"identity": 1, "square": 2, "cube": 3}
PIVOTS = {"rows": [INDEX], "columns": [INDEX], "witness": [[INDEX]]}
FAMILY = {"rule": str, "layer": SIZE, "head": (None, SIZE), "dimension": SIZE}
DIMENSION = {"lower": INDEX, "upper": INDEX, "value": (None, INDEX), "status": str, "error": (None, NEGATIVE)}
EXPECTED = {"value": WHOLE, "formula": str, "status": str, "source": str}
EXPECTED |= {"hypotheses": [{"statement": str, "holds": bool}], "holds": bool}
THEOREMS: Object = {
    "parameters": {"kind": str, "value": INDEX},
    "ambient": {"kind": str, "value": INDEX, "rule": {"degrees", "tokens"}},
    "composition": {"kind": str, "value": INDEX},
    "symmetry": {"kind": str, "value": INDEX, "generators": [FAMILY]} | PIVOTS,
}
MONTE_CARLO = {"kind": str, "value": INDEX, "error": NEGATIVE, "inputs": INDEX, "degree": INDEX, "norm_bits": INDEX}
MONTE_CARLO |= {"trials": [{"prime": INDEX, "rank": INDEX}], "theorem": THEOREMS}
CERTIFICATE = {"schema": {"ffrank-certificate/1"}, "program_digest": str, "prime": range(3, 2**31)}
CERTIFICATE |= {"seed": range(2**64), "method": {"point": {"random"}, "error": (None, NEGATIVE)}}
CERTIFICATE |= {"parameters": INDEX, "dimension": DIMENSION}
CERTIFICATE |= {"expected": (None, EXPECTED), "defect": (None, WHOLE), "lower_bound": {"inputs": INDEX} | PIVOTS}
CERTIFICATE |= {"upper_bound": THEOREMS | {"monte-carlo": MONTE_CARLO}, "assumptions": [str]}
CERTIFICATE |= {"versions": {"ffrank": str}, "digest": str}
PROGRAM = {"format": {"ffrank-program/1"}, "parameters": [list], "inputs": [list], "instructions": [list]}
PROGRAM |= {"output": INDEX}
ATTENTION = {"kind": str, "widths": [SIZE], "attention_dims": [SIZE], "tokens": SIZE, "score": {"lightning"}}
ATTENTION |= {"heads": SIZE, "value_dim": (None, SIZE), "causal": bool, "residual": bool, "norm": {"none"}}
ATTENTION |= {"mlp_width": (None, SIZE), "activation": set(ACTIVATIONS), "qk_bias": bool}
MLP = {"kind": str, "widths": [SIZE], "activation": set(ACTIVATIONS), "bias": bool}
ARGUMENTS: Object = {"const": [[SIZE], [WHOLE]], "pow": [INDEX, SIZE], "neg": [INDEX], "sum": [INDEX, INDEX]}
ARGUMENTS |= {"add": [INDEX, INDEX], "mul": [INDEX, INDEX], "matmul": [INDEX, INDEX]}
ARGUMENTS |= {"reshape": [INDEX, [SIZE]], "broadcast": [INDEX, [SIZE]], "transpose": [INDEX, [INDEX]]}
ARGUMENTS |= {"slice": [INDEX, [[INDEX]]], "concat": []}
OPERANDS = {"const": 0, "add": 2, "mul": 2, "matmul": 2}  # the other instructions have one, concat as many as it likes


def fit(x: Any, form: Any, where: str) -> Any:
    """
    Return x if it has this form, else raise Malformed. A bool is not an integer.

    A form is a range of integers, a set of strings, a type (strings are not empty), a one-element list for lists of any
    length, a pair (None, form), or a dict: with exactly these keys, or a choice of forms by their key `kind`.
    """
    if isinstance(form, range):
        bounds = f"an integer from {form[0]} to {form[-1]}"
        _well_formed(type(x) is int and x in form, f"{where}: expected {bounds}, got {_show(x)}")
    elif isinstance(form, set):
        _well_formed(type(x) is str and x in form, f"{where}: expected {' or '.join(sorted(form))}, got {_show(x)}")
    elif isinstance(form, type):
        _well_formed(type(x) is form and x != "", f"{where}: expected a {form.__name__}, got {_show(x)}")
    elif isinstance(form, tuple):
        return x if x is None else fit(x, form[1], where)
    elif isinstance(form, list):
        for y in fit(x, list, where):
            fit(y, form[0], where)
    else:
        fit(x, dict, where)
        if all(type(y) is dict and "kind" in y for y in form.values()):
            return fit(x, form[fit(x.get("kind"), set(form), f"{where}: kind")], where)
        for key, inner in form.items():
            _well_formed(key in x, f"{where}: the key {key} is missing")
            fit(x[key], inner, f"{where}: {key}")
        _well_formed(len(x) == len(form), f"{where}: unknown key {_show(next((k for k in x if k not in form), None))}")
    return x


# ---- Section 2: programs ----


class Program:
    """A program that grows node by node, with the shape of each, and refuses to when the budget is spent."""

    def __init__(self, budget: int) -> None:
        self.budget, self.spent = budget, 0
        self.parameters, self.inputs = list[list[Any]](), list[list[Any]]()
        self.first = 0  # the node of the first instruction
        self.made, self.operands = (
            list[list[Any]](),
            list[Vector](),
        )  # the instruction of each node, or []; its operands
        self.shapes, self.sizes, self.work = list[Shape](), Vector(), Vector()  # work: the multiplications it takes

    def declare(self, name: str, shape: Sequence[int], table: list[list[Any]]) -> int:
        """Add a parameter or an input: `table` is self.parameters or self.inputs. The instructions come later."""
        table.append([name, list(shape)])
        self.first += 1
        return self._node(tuple(shape), [], [])

    def add(self, *instruction: Any) -> int:
        """Add an instruction and return its node."""
        op, *rest = instruction
        where = f"instruction {len(self.shapes) - self.first}"
        forms = ARGUMENTS[fit(op, set(ARGUMENTS), where)] or [INDEX] * max(2, len(rest))
        _well_formed(len(rest) == len(forms), f"{where}: {op} takes {len(forms)} arguments")
        for x, form in zip(rest, forms, strict=True):
            fit(x, form, where)
        operands = rest[1:] if op == "concat" else rest[: OPERANDS.get(op, 1)]
        _well_formed(all(a < len(self.shapes) for a in operands), f"{where}: an operand is not an earlier node")
        shape = self._shape(op, rest, [self.shapes[a] for a in operands])
        if shape is None:
            raise Malformed(f"{where}: {op} does not fit the shapes {_show([self.shapes[a] for a in operands])}")
        return self._node(shape, operands, list(instruction))

    def _shape(self, op: str, rest: list[Any], shapes: list[Shape]) -> Shape | None:
        """Return the shape of the result, or None if section 2 does not allow the instruction."""
        a = shapes[0] if shapes else ()
        shape, fits = a, True
        if op == "const":
            shape = tuple(rest[0])
            fits = self.size(shape) == len(rest[1])
        elif op in ("add", "mul"):
            fits = a == shapes[1]
        elif op == "matmul":
            b = shapes[1]
            fits = min(len(a), len(b)) >= 2 and a[:-2] == b[:-2] and a[-1] == b[-2]
            shape = (*a[:-1], *b[-1:])
        elif op == "sum":
            fits = rest[1] < len(a)
            shape = a[: rest[1]] + a[rest[1] + 1 :] if fits else a
        elif op == "reshape":
            shape = tuple(rest[1])
            fits = self.size(shape) == self.size(a)
        elif op == "transpose":
            fits = sorted(rest[1]) == list(range(len(a)))
            shape = tuple(a[i] for i in rest[1]) if fits else a
        elif op == "slice":
            fits = len(rest[1]) == len(a) and all(len(x) == 3 for x in rest[1])
            fits = fits and all(x[0] < x[1] <= n and x[2] >= 1 for x, n in zip(rest[1], a, strict=True))
            shape = tuple(len(range(*x)) for x in rest[1]) if fits else a
        elif op == "broadcast":
            shape = tuple(rest[1])
            pairs = zip(a[::-1], shape[::-1], strict=False)
            fits = len(shape) >= len(a) and all(old in (1, new) for old, new in pairs)
        elif op == "concat":
            axis = rest[0]
            fits = axis < len(a) and all(len(s) == len(a) for s in shapes)
            fits = fits and all(s[:axis] + s[axis + 1 :] == a[:axis] + a[axis + 1 :] for s in shapes)
            shape = (*a[:axis], sum(s[axis] for s in shapes), *a[axis + 1 :]) if fits else a
        return shape if fits else None

    def size(self, shape: Sequence[int]) -> int:
        """Return the number of entries of a shape, if the budget allows for it."""
        size = 1
        for n in shape:
            size *= n
            _afford(self.spent + size * ENTRY_WORK, self.budget)
        return size

    def _node(self, shape: Shape, operands: Vector, instruction: list[Any]) -> int:
        _well_formed(len(shape) <= MAX_AXES, f"program: more than {MAX_AXES} axes")
        size = self.size(shape)
        work = NODE_WORK + max([size, *(self.sizes[a] for a in operands)])
        if instruction and instruction[0] in ("matmul", "pow"):
            factor = self.shapes[operands[0]][-1] if instruction[0] == "matmul" else 2 * instruction[2].bit_length()
            work += size * factor
        self.spent += size * ENTRY_WORK + work + INSTRUCTION_WORK
        _afford(self.spent, self.budget)
        self.made.append(instruction)
        self.shapes.append(shape)
        self.sizes.append(size)
        self.operands.append(operands)
        self.work.append(work)
        return len(self.shapes) - 1

    def finish(self, output: int) -> Program:
        """Set the output, and the numbers P of parameter, n of input and m of output entries."""
        _well_formed(output < len(self.shapes), "program: the output is not a node")
        self.output, self.m, parameters = output, self.sizes[output], len(self.parameters)
        self.P, self.n = sum(self.sizes[:parameters]), sum(self.sizes[parameters : self.first])
        return self

    def document(self) -> Object:
        """Return the JSON object of the program."""
        document = {"format": "ffrank-program/1", "parameters": self.parameters, "inputs": self.inputs}
        return document | {"instructions": self.made[self.first :], "output": self.output}


def _afford(work: int, budget: int) -> None:
    _well_formed(
        work <= budget,
        f"needs an estimated {work} multiplications or more (a stored number counts as {ENTRY_WORK}, an instruction as"
        f" {INSTRUCTION_WORK}), but {budget} are allowed; --max-work raises the limit",
    )


def user_program(x: Object, program: Program) -> Program:
    """Return the program of a JSON object."""
    document, names = fit(x, PROGRAM, "program"), set()
    for kind, table in (("parameters", program.parameters), ("inputs", program.inputs)):
        for item in document[kind]:
            _well_formed(len(item) == 2, f"program: {kind}: expected [name, shape]")
            name = fit(item[0], str, f"program: {kind}: name")
            _well_formed(name not in names, f"program: two parameters or inputs have the name {_show(name)}")
            names.add(name)
            program.declare(name, fit(item[1], [SIZE], f"program: {kind}: shape"), table)
    for instruction in document["instructions"]:
        _well_formed(instruction, "program: an instruction is empty")
        program.add(*instruction)
    return program.finish(document["output"])


# ---- Section 2.1: the program of an architecture ----


def architecture(x: Any) -> Object:
    """Return x if it is a full and consistent architecture."""
    activation = x.get("activation") if type(x) is dict else None
    forms: list[Object] = [MLP, ATTENTION]
    if type(activation) is dict:
        forms = [form | {"activation": {"power": range(4, 1001)}} for form in forms]
    spec: Object = fit(x, dict(zip(("mlp", "attention"), forms, strict=True)), "architecture")
    widths = spec["widths"]
    _well_formed(len(widths) >= 2, "architecture: expected at least two widths")
    if spec["kind"] == "attention":
        dims = len(spec["attention_dims"])
        _well_formed(dims == len(widths) - 1, "architecture: expected one width more than attention_dims")
        _well_formed(not spec["residual"] or len(set(widths)) == 1, "architecture: residual needs equal widths")
        plain = spec["mlp_width"] is None and activation != "square"
        _well_formed(not plain, "architecture: without mlp_width the activation is written square")
    return spec


def power(spec: Object) -> int:
    """Return the power that the activation takes."""
    name: Any = spec["activation"]
    return int(ACTIVATIONS[name] if type(name) is str else name["power"])


def mlp_program(spec: Object, program: Program) -> Program:
    """Return the program of kind mlp."""
    d, k = spec["widths"], power(spec)
    weights = []
    for i in range(1, len(d)):
        W = program.declare(f"layer{i}.W", [d[i], d[i - 1]], program.parameters)
        weights.append((W, program.declare(f"layer{i}.b", [d[i]], program.parameters) if spec["bias"] else None))
    z = program.declare("x", [d[0], 1], program.inputs)
    for i, (W, b) in enumerate(weights, 1):
        z = program.add("matmul", W, z)
        if b is not None:
            z = program.add("add", z, program.add("reshape", b, [d[i], 1]))
        if i < len(weights) and k >= 2:
            z = program.add("pow", z, k)
    return program.finish(z)


def attention_program(spec: Object, program: Program) -> Program:
    """Return the program of kind attention."""
    d, t, v, w, k = spec["widths"], spec["tokens"], spec["value_dim"], spec["mlp_width"], power(spec)
    node: dict[str, int] = {}
    for i, a in enumerate(spec["attention_dims"], 1):
        shapes = {"Q": [a, d[i - 1]], "K": [a, d[i - 1]]}
        shapes |= {"V": [d[i], d[i - 1]]} if v is None else {"U": [v, d[i - 1]], "O": [d[i], v]}
        shapes |= {"b_q": [a], "b_k": [a]} if spec["qk_bias"] else {}
        for h in range(1, spec["heads"] + 1):
            for letter, shape in shapes.items():
                name = f"layer{i}.head{h}.{letter}"
                node[name] = program.declare(name, shape, program.parameters)
        for name, shape in ((f"layer{i}.W1", [w, d[i]]), (f"layer{i}.W2", [d[i], w])) if w else ():
            node[name] = program.declare(name, shape, program.parameters)
    z = program.declare("X", [d[0], t], program.inputs)
    add = program.add

    def scored(weight: str, bias: str, a: int) -> int:
        y = add("matmul", node[weight], z)
        column = add("reshape", node[bias], [a, 1]) if spec["qk_bias"] else None
        return y if column is None else add("add", y, add("broadcast", column, [a, t]))

    for i, a in enumerate(spec["attention_dims"], 1):
        total = -1
        for h in range(1, spec["heads"] + 1):
            head = f"layer{i}.head{h}."
            q, key = scored(head + "Q", head + "b_q", a), scored(head + "K", head + "b_k", a)
            s = add("matmul", add("transpose", key, [1, 0]), q)
            if spec["causal"]:
                program.size([t, t])
                mask = [int(row <= column) for row in range(t) for column in range(t)]
                s = add("mul", s, add("const", [t, t], mask))
            y = add("matmul", add("matmul", node[head + ("V" if v is None else "U")], z), s)
            y = y if v is None else add("matmul", node[head + "O"], y)
            total = y if total < 0 else add("add", total, y)
        z = add("add", z, total) if spec["residual"] else total
        if w is not None:
            hidden = add("matmul", node[f"layer{i}.W1"], z)
            hidden = add("pow", hidden, k) if k >= 2 else hidden
            hidden = add("matmul", node[f"layer{i}.W2"], hidden)
            z = add("add", z, hidden) if spec["residual"] else hidden
    return program.finish(z)


# ---- Section 3: the Jacobian at the points, one direction or one row at a time ----


def _matmul(A: Vector, B: Vector, sides: tuple[int, int, int, int], p: int) -> Vector:
    """Multiply `batch` pairs of matrices, n×k by k×m, stored row-major one after the other."""
    batch, n, k, m = sides
    out: Vector = []
    for i in range(batch):
        columns = [B[i * k * m + j : (i + 1) * k * m : m] for j in range(m)]
        for start in range(i * n * k, (i + 1) * n * k, k):
            row = A[start : start + k]
            out += [sum(map(mul, row, column)) % p for column in columns]
    return out


def _sum(A: Vector, B: Vector, p: int) -> Vector:
    return [(x + y) % p for x, y in zip(A, B, strict=True)]


def _flip(rows: list[Vector]) -> list[Vector]:
    return [list(column) for column in zip(*rows, strict=True)]


class Jacobian:
    """The Jacobian of a program at the points of section 3; it is never formed as a whole."""

    def __init__(self, program: Program, program_digest: str, p: int, seed: int) -> None:
        self.program, self.p = program, p
        self.message = f"ffrank point 1\n{program_digest}\n{p}\n{seed}\n"
        self.theta = stream(self.message + "0", p, program.P)
        self._sources: dict[int, Vector] = {}
        parameters, instructions = len(program.parameters), range(program.first, len(program.shapes))
        moving = set(range(parameters, program.first))  # the nodes that depend on the inputs
        for node in instructions:
            if not moving.isdisjoint(program.operands[node]):
                moving.add(node)
        self.moving = [node for node in instructions if node in moving]
        self.fixed = [node for node in instructions if node not in moving]  # computed only once
        self.values: list[Vector] = [[] for _ in program.shapes]
        self.values[:parameters] = self._by_node(self.theta, 0, parameters)
        self._evaluate(self.fixed, self.values)

    def at(self, i: int) -> list[Vector]:
        """Return the values of all nodes at the input X_i."""
        program, values = self.program, list(self.values)
        first, parameters = program.first, len(program.parameters)
        X = stream(f"{self.message}{i}", self.p, program.n)
        values[parameters:first] = self._by_node(X, parameters, first)
        self._evaluate(self.moving, values)
        return values

    def _by_node(self, entries: Vector, start: int, stop: int) -> list[Vector]:
        ends = accumulate(self.program.sizes[start:stop], initial=0)
        return [entries[i:j] for i, j in pairwise(ends)]

    def _evaluate(self, nodes: Vector, values: list[Vector]) -> None:
        for node in nodes:
            values[node] = self._apply(node, [values[a] for a in self.program.operands[node]])

    def _apply(self, node: int, args: list[Vector]) -> Vector:
        """Return what the instruction makes of its operands' entries."""
        p = self.p
        op, *rest = self.program.made[node]
        if op == "matmul":
            a, b = (self.program.shapes[x] for x in rest)
            return _matmul(args[0], args[1], (prod(a[:-2]), a[-2], a[-1], b[-1]), p)
        if op == "add":
            return _sum(args[0], args[1], p)
        if op == "mul":
            return [x * y % p for x, y in zip(args[0], args[1], strict=True)]
        if op == "pow":
            return [pow(x, rest[1], p) for x in args[0]]
        if op in ("neg", "const"):
            return [-x % p for x in args[0]] if op == "neg" else [x % p for x in rest[1]]
        if op == "sum":
            block, inner = (prod(self.program.shapes[rest[0]][axis:]) for axis in (rest[1], rest[1] + 1))
            blocks = (args[0][i : i + block] for i in range(0, len(args[0]), block))
            return [sum(entries[j::inner]) % p for entries in blocks for j in range(inner)]
        if op == "reshape":
            return args[0]
        if node not in self._sources:
            self._sources[node] = _sources(self.program, node)
        entries = args[0] if len(args) == 1 else [x for arg in args for x in arg]
        return [entries[i] for i in self._sources[node]]

    def tangents(self, direction: Vector) -> list[Vector | None]:
        """Return the derivatives of the nodes without inputs along a direction in parameter space; None is zero."""
        tangents: list[Vector | None] = [None] * len(self.program.shapes)
        for node, part in enumerate(self._by_node(direction, 0, len(self.program.parameters))):
            tangents[node] = part if any(part) else None
        self._push(self.fixed, self.values, tangents)
        return tangents

    def derivative(self, values: list[Vector], tangents: list[Vector | None]) -> Vector:
        """Return the derivatives of the output entries from the values at an input and from `tangents`."""
        tangents = list(tangents)
        self._push(self.moving, values, tangents)
        return tangents[self.program.output] or [0] * self.program.m

    def block(self, i: int, columns: Iterable[int]) -> list[Vector]:
        """Return all rows of input i, in these columns, one derivative a column (only for --full)."""
        values, P = self.at(i), self.program.P
        units = ([int(j == column) for j in range(P)] for column in columns)
        return _flip([self.derivative(values, self.tangents(unit)) for unit in units])

    def _push(self, nodes: Vector, values: list[Vector], tangents: list[Vector | None]) -> None:
        for node in nodes:
            parts = [tangents[a] for a in self.program.operands[node]]
            if any(part is not None for part in parts):
                tangents[node] = self._tangent(node, [values[a] for a in self.program.operands[node]], parts)

    def _tangent(self, node: int, args: list[Vector], parts: list[Vector | None]) -> Vector:
        op, *rest = self.program.made[node]
        if op in ("mul", "matmul"):  # the product rule
            (a, b), (da, db) = args, parts
            left = None if da is None else self._apply(node, [da, b])
            right = None if db is None else self._apply(node, [a, db])
            return left or right or [] if left is None or right is None else _sum(left, right, self.p)
        full = [[0] * len(arg) if part is None else part for arg, part in zip(args, parts, strict=True)]
        if op == "pow":
            return [rest[1] * pow(x, rest[1] - 1, self.p) * dx % self.p for x, dx in zip(args[0], full[0], strict=True)]
        return self._apply(node, full)  # the other instructions are linear


def _sources(program: Program, node: int) -> Vector:
    """Return, for an instruction that only moves entries, from where each entry of the result comes."""
    op, how = program.made[node][0], program.made[node][-1]
    result, shapes = program.shapes[node], [program.shapes[a] for a in program.operands[node]]
    if op == "concat":
        axis = program.made[node][1]
        starts = accumulate(map(prod, shapes), initial=0)
        blocks = [(start, prod(shape[axis:])) for start, shape in zip(starts, shapes, strict=False)]
        return [start + o * n + i for o in range(prod(result[:axis])) for start, n in blocks for i in range(n)]
    shape = shapes[0]
    strides, offset = [prod(shape[axis + 1 :]) for axis in range(len(shape))], 0
    if op == "transpose":
        strides = [strides[axis] for axis in how]
    elif op == "slice":
        offset = sum(start * stride for (start, _, _), stride in zip(how, strides, strict=True))
        strides = [step * stride for (_, _, step), stride in zip(how, strides, strict=True)]
    else:  # broadcast
        strides = [0 if size == 1 else stride for size, stride in zip(shape, strides, strict=True)]
        strides = [0] * (len(result) - len(shape)) + strides
    indices = [offset]
    for size, stride in zip(result, strides, strict=True):
        indices = [i + stride * j for i in indices for j in range(size)] if size > 1 else indices
    return indices


def rank(rows: Iterable[Vector], p: int, enough: int) -> int:
    """Return the rank of a matrix mod p by elimination, or `enough` if it is at least that."""
    echelon: list[tuple[int, Vector]] = []  # (pivot column, the row from there on, beginning with 1)
    for row in rows:
        if len(echelon) == enough:
            break
        for column, pivot in echelon:
            if factor := row[column]:
                row = row[:column] + [(x - factor * y) % p for x, y in zip(row[column:], pivot, strict=True)]  # noqa: PLW2901
        lead = next((j for j, x in enumerate(row) if x), None)
        if lead is not None:
            inverse = pow(row[lead], -1, p)
            echelon.append((lead, [x * inverse % p for x in row[lead:]]))
    return len(echelon)


# ---- Section 4: witnesses ----


def challenges(purpose: str, block: Object, limits: tuple[int, int], c: Object) -> list[Vector]:
    """Check the form of a witness and draw its challenges from everything that is claimed."""
    rows, columns, witness, p = block["rows"], block["columns"], block["witness"], c["prime"]
    r, k = len(rows), next(k for k in range(1, 121) if p**k >= 2**120)
    _require(len(columns) == r, f"{purpose} witness: {r} rows, but {len(columns)} columns")
    for name, indices, limit in (("rows", rows, limits[0]), ("columns", columns, limits[1])):
        _require(all(i < j for i, j in pairwise(indices)), f"{purpose} witness: the {name} do not increase")
        _require(not indices or indices[-1] < limit, f"{purpose} witness: the {name} are out of range")
    _require(len(witness) == k, f"{purpose} witness: {len(witness)} solutions, but there are {k} challenges")
    _require(all(len(w) == r for w in witness), f"{purpose} witness: a solution has not the length {r}")
    _require(all(x < p for w in witness for x in w), f"{purpose} witness: a residue is not less than the prime")
    claim = {"claim": purpose, "program": c["program_digest"], "prime": p, "seed": c["seed"]}
    claim |= {"inputs": block.get("inputs", 0), "rows": rows, "columns": columns}
    return [stream(f"ffrank challenge 1\n{digest(claim)}\n{j}", p, r) for j in range(k)]


def _direction(columns: Vector, w: Vector, length: int) -> Vector:
    entries = dict(zip(columns, w, strict=True))
    return [entries.get(column, 0) for column in range(length)]


def check_lower(jacobian: Jacobian, lower: Object, targets: list[Vector], full: bool) -> None:
    """Check J[rows, columns] w = b: one derivative of the network at each input that has a row."""
    program, rows, columns = jacobian.program, lower["rows"], lower["columns"]
    starts = [jacobian.tangents(_direction(columns, w, program.P)) for w in lower["witness"]]
    by_input: dict[int, list[tuple[int, int]]] = {}  # of each input that has a row, (position in rows, output entry)
    for position, row in enumerate(rows):
        by_input.setdefault(row // program.m + 1, []).append((position, row % program.m))
    for i, entries in by_input.items():
        values = jacobian.at(i)
        for start, target in zip(starts, targets, strict=True):
            derivative = jacobian.derivative(values, start)
            good = all(derivative[entry] == target[position] for position, entry in entries)
            _require(good, "lower witness: J w = b fails, so the minor is not proven regular")
    if full:
        blocks = ((jacobian.block(i, columns), entries) for i, entries in by_input.items())
        minor = (block[entry] for block, entries in blocks for _, entry in entries)
        _require(rank(minor, jacobian.p, len(rows)) == len(rows), "lower witness: the minor is singular")


# ---- Section 6: symmetry generators ----


@dataclass(frozen=True)
class Matrix:
    """A matrix mod p."""

    rows: list[Vector]
    p: int

    def __matmul__(self, other: Matrix) -> Matrix:
        columns = list(zip(*other.rows, strict=True))
        return Matrix([[sum(map(mul, row, column)) % self.p for column in columns] for row in self.rows], self.p)

    def __add__(self, other: Matrix) -> Matrix:
        return Matrix([_sum(a, b, self.p) for a, b in zip(self.rows, other.rows, strict=True)], self.p)

    def __neg__(self) -> Matrix:
        return Matrix([[-x % self.p for x in row] for row in self.rows], self.p)

    @property
    def T(self) -> Matrix:
        """The transpose."""
        return Matrix(_flip(self.rows), self.p)

    def scaled(self, factors: Sequence[int]) -> Matrix:
        """Multiply row j by the j-th factor, or all rows by the only factor."""
        factors = factors if len(factors) > 1 else [*factors] * len(self.rows)
        return Matrix([[c * x % self.p for x in row] for c, row in zip(factors, self.rows, strict=True)], self.p)


Weights = dict[str, Matrix]  # biases are columns
Act = Callable[[Weights, Vector, int], Weights]  # (weights, ξ, p) to dW for each weight that moves
Listed = tuple[str, int, int | None, tuple[int, Act]]  # rule, layer, head, (dimension, what it does)
Family = tuple[Object, Act]  # the entry of `generators`, and what it does


def _matrix(entries: Vector, columns: int, p: int) -> Matrix:
    return Matrix([entries[i : i + columns] for i in range(0, len(entries), columns)], p)


def _skew(xi: Vector, d: int, p: int) -> Matrix:
    entry = dict(zip(((x, y) for x in range(d) for y in range(x + 1, d)), xi, strict=True))
    return Matrix([[entry.get((x, y), -entry.get((y, x), 0)) for y in range(d)] for x in range(d)], p)


def _basis(d: int, left: list[str], right: Sequence[str] = (), dual: Sequence[str] = ()) -> tuple[int, Act]:
    """Change a basis by C (d×d): dW = C W for `left`, −W C for `right`, −Cᵀ W for `dual`."""

    def act(W: Weights, xi: Vector, p: int) -> Weights:
        C = _matrix(xi, d, p)
        change = {x: C @ W[x] for x in left}
        return change | {x: -(W[x] @ C) for x in right} | {x: -(C.T @ W[x]) for x in dual}

    return d * d, act


def _scaling(d: int, k: int, left: list[str], right: str) -> tuple[int, Act]:
    """Scale row j of `left` by c_j and column j of `right` by −k c_j; if d = 1, all of both."""

    def act(W: Weights, xi: Vector, _: int) -> Weights:
        return {x: W[x].scaled(xi) for x in left} | {right: W[right].T.scaled([-k * c for c in xi]).T}

    return d, act


def _split_orthogonal(a: int, queries: list[str], keys: list[str]) -> tuple[int, Act]:
    """Act on each Q and its K, and on their biases: dK = F K + G Q, dQ = H K − Fᵀ Q, with skew G and H."""
    above = a * (a - 1) // 2

    def act(W: Weights, xi: Vector, p: int) -> Weights:
        F, G, H = _matrix(xi[: a * a], a, p), _skew(xi[a * a : a * a + above], a, p), _skew(xi[a * a + above :], a, p)
        pairs = list(zip(queries, keys, strict=True))
        dK = {K: F @ W[K] + G @ W[Q] for Q, K in pairs}
        return dK | {Q: H @ W[K] + -(F.T @ W[Q]) for Q, K in pairs}

    return a * a + 2 * above, act


def _translation(d: int, weight: str, bias: str, next_bias: str) -> tuple[int, Act]:
    """Move the bias of a linear layer by s, and the next one by −W s."""

    def act(W: Weights, xi: Vector, p: int) -> Weights:
        s = _matrix(xi, 1, p)
        return {bias: s, next_bias: -(W[weight] @ s)}

    return d, act


def _rank_one_tokens(spec: Object) -> list[bool]:
    """Return for each layer whether the token matrix that enters it has rank at most 1, whatever θ and X."""
    d, a, one_head = spec["widths"], spec["attention_dims"], spec["heads"] == 1
    if spec["tokens"] == 1 or spec["qk_bias"]:
        return [spec["tokens"] == 1] * len(a)
    rho = [d[0] == 1]
    for i in range(1, len(a)):
        narrow = rho[-1] or spec["mlp_width"] == 1
        narrow = narrow or (one_head and (spec["value_dim"] == 1 or (not spec["causal"] and a[i - 1] == 1)))
        rho.append(d[i] == 1 or (narrow and not spec["residual"]))
    return rho


def families(spec: Object) -> list[Family]:
    """Return all families of generators: the columns of T."""
    listed = (_mlp_families if spec["kind"] == "mlp" else _attention_families)(spec)
    return [(dict(zip(FAMILY, (*label, size), strict=True)), act) for *label, (size, act) in listed]


def _mlp_families(spec: Object) -> Iterator[Listed]:
    k, letters = power(spec), ("W", "b") if spec["bias"] else ("W",)
    for i, d in enumerate(spec["widths"][1:-1], 1):
        here, W, b = [f"layer{i}.{x}" for x in letters], f"layer{i + 1}.W", f"layer{i + 1}.b"
        if k >= 2:
            yield "neuron-scaling", i, None, _scaling(d, k, here, W)
        else:
            yield "layer-basis", i, None, _basis(d, here, [W])
        if k == 1 and spec["bias"]:
            yield "translation", i, None, _translation(d, W, here[1], b)


def _attention_families(spec: Object) -> Iterator[Listed]:
    d, w, v, k = spec["widths"], spec["mlp_width"], spec["value_dim"], power(spec)
    value, out = ("V", "V") if v is None else ("U", "O")

    def heads(i: int, letters: str) -> list[str]:
        return [f"layer{i}.head{h}.{x}" for h in range(1, spec["heads"] + 1) for x in letters]

    for i, (a, rank_one) in enumerate(zip(spec["attention_dims"], _rank_one_tokens(spec), strict=True), 1):
        W1, W2 = f"layer{i}.W1", f"layer{i}.W2"
        for h in range(1, spec["heads"] + 1):
            head = f"layer{i}.head{h}."
            queries, keys = ([head + x for x in names[: 1 + spec["qk_bias"]]] for names in (("Q", "b_q"), ("K", "b_k")))
            if rank_one:
                yield "split-orthogonal", i, h, _split_orthogonal(a, queries, keys)
            else:
                yield "general-linear", i, h, _basis(a, queries, dual=keys)
            yield "rescaling", i, h, _scaling(1, 1, queries, head + out)
            if v is not None:
                yield "value-basis", i, h, _basis(v, [head + "U"], [head + "O"])
        if w is not None and not spec["residual"]:
            yield "attention-basis", i, None, _basis(d[i], heads(i, out), [W1])
        if w is not None and k == 1:
            yield "neuron-basis", i, None, _basis(w, [W1], [W2])
        if w is not None and k >= 2:
            yield "neuron-scaling", i, None, _scaling(w, k, [W1], W2)
        if i < len(d) - 1 and not spec["residual"]:
            here = heads(i, out) if w is None else [W2]
            yield "layer-basis", i, None, _basis(d[i], here, heads(i + 1, "QK" + value))


def combination(generators: list[Family], program: Program, theta: Vector, xi: Vector, p: int) -> Vector:
    """Return T ξ."""
    ends = accumulate((prod(shape) for _, shape in program.parameters), initial=0)
    place = {name: start for (name, _), start in zip(program.parameters, ends, strict=False)}
    weights = {
        name: _matrix(theta[place[name] :][: prod(shape)], (*shape, 1)[1], p) for name, shape in program.parameters
    }
    total, start = [0] * len(theta), 0
    for document, act in generators:
        part = xi[start : start + document["dimension"]]
        start += len(part)
        for name, change in act(weights, part, p).items() if any(part) else ():
            for i, x in enumerate((x for row in change.rows for x in row), place[name]):
                total[i] += x
    return [x % p for x in total]


def check_symmetry(
    generators: list[Family], jacobian: Jacobian, symmetry: Object, targets: list[Vector], full: bool
) -> None:
    """Check T[rows, columns] w = b."""
    count = sum(document["dimension"] for document, _ in generators)
    rows, columns = symmetry["rows"], symmetry["columns"]

    def times(w: Vector, columns: Vector) -> Vector:
        xi = _direction(columns, w, count)
        tangent = combination(generators, jacobian.program, jacobian.theta, xi, jacobian.p)
        return [tangent[row] for row in rows]

    good = all(times(w, columns) == target for w, target in zip(symmetry["witness"], targets, strict=True))
    _require(good, "symmetry witness: T w = b fails, so the minor is not proven regular")
    if full:
        transposed = (times([1], [column]) for column in columns)
        _require(rank(transposed, jacobian.p, len(rows)) == len(rows), "symmetry witness: the minor is singular")


# ---- Section 7: the ambient space ----


def _binomial(a: int, b: int) -> int | None:
    return comb(a, b) if min(b, a - b) <= 84 else None  # C(168, 84) has more than 25 digits


def growth(program: Program) -> tuple[int, int, int, int]:
    """Return the bounds (lo, hi) of section 7 and (deg, h) of section 8 for the entries of the output."""
    bounds = [(0, 0, 1, 0)] * len(program.parameters) + [(1, 1, 1, 0)] * len(program.inputs)
    for node in range(program.first, len(program.shapes)):
        op, *rest = program.made[node]
        args = [bounds[a] for a in program.operands[node]] or [(0, 0, 0, 0)]
        lo, hi, deg, h = min(x[0] for x in args), *(max(x[i] for x in args) for i in (1, 2, 3))
        if op == "const":
            h = bits(max(1, *map(abs, rest[1])))
        elif op in ("mul", "matmul"):
            lo, hi, deg, h = map(sum, zip(*args, strict=True))
            h += bits(program.shapes[rest[0]][-1]) if op == "matmul" else 0
        elif op == "pow":
            lo, hi, deg, h = (rest[1] * x for x in args[0])
        elif op in ("add", "sum"):
            h += 1 if op == "add" else bits(program.shapes[rest[0]][rest[1]])
        _well_formed(max(hi, deg, h) < MAX_DEGREE, "degrees or coefficients are too large: too much work")
        bounds.append((lo, hi, deg, h))
    return bounds[program.output]


def ambient_degrees(program: Program) -> int | None:
    """Return the bound of rule `degrees`, or None if it has more than 25 digits."""
    (lo, hi, _, _), n, m = growth(program), program.n, program.m
    if n == 0:
        return m
    if _binomial(n - 1 + hi, n - 1) is None:  # the monomials of degree hi alone are too many
        return None
    return m * (comb(n + hi, n) - (comb(n + lo - 1, n) if lo else 0))


def ambient_tokens(spec: Object) -> int:
    """Return the bound of rule `tokens`: the coefficients of one lightning layer, symmetric in two indices."""
    (d, out), bias = spec["widths"][:2], spec["qk_bias"]
    pairs = d * (d + 1) // 2
    if spec["tokens"] == 1:
        return int(out * (comb(d + 2, 3) + (pairs + d if bias else 0)))
    return int(out * ((d + 1) * (pairs + d) if bias else d * pairs))


def composition(spec: Object) -> int:
    """Return the bound of section 7.1: cut the network, and count functions and not parameters."""
    d, k, bias, U = spec["widths"], power(spec), int(spec["bias"]), dict[tuple[int, int], int]()
    for i, j in ((i, i + span) for span in range(1, len(d)) for i in range(len(d) - span)):
        D, f, r = k ** (j - i - 1), d[i] - 1 + bias, min(d[i], d[i + 1])
        bounds = [(d[i] + bias) * d[j]] if j == i + 1 else [U[i, m] + U[m, j] - d[m] for m in range(i + 1, j)]
        if j > i + 1 and min(f, D) <= 64:
            bounds.append(d[j] * comb(f + D, f))
        if j == i + 2 and k == 2 and d[j] == 1 and not bias:
            bounds.append(_symmetric(r, d[i]))
        U[i, j] = min(bounds)
    return U[0, len(d) - 1]


# ---- Section 8: the Monte-Carlo bound ----

TRIAL_PRIMES = 50697473  # the primes between 2^30 and 2^31, less the 64 that may have been used before


def trials_needed(degree: int, norm_bits: int, asked: int) -> tuple[int, int]:
    """Return (K, e): K trials miss a minor with probability x^K <= 2^-e, and K is the least with e >= asked."""
    numerator, denominator = (degree + 1) * TRIAL_PRIMES + (norm_bits // 30) * 2**30, 2**30 * TRIAL_PRIMES
    for K in range(1, 65):
        e = (denominator**K // numerator**K).bit_length() - 1
        if e >= asked:
            return K, e
    raise Invalid("monte-carlo: 64 trials do not reach the error that the method asks for")


def check_monte_carlo(block: Object, c: Object, program: Program) -> None:
    """Check all of a Monte-Carlo bound but the ranks of its trials."""
    r, asked = len(c["lower_bound"]["rows"]), c["method"]["error"]
    if asked is None:
        raise Invalid("monte-carlo: the method asks for no such bound")
    _, _, deg, h = growth(program)
    degree, norm_bits = (r + 1) * max(deg - 1, 0), (r + 1) * (bits(r + 1) + bits(max(deg, 1)) + h)  # of an (r+1)-minor
    K, e = trials_needed(degree, norm_bits, -asked)
    used = [c["prime"]]
    for j in range(1, K + 1):
        draws = words(f"ffrank trial 1\n{c['program_digest']}\n{c['seed']}\n{j}")
        numbers = ((word & (2**30 - 1)) + 2**30 for word in draws)
        used.append(next(q for q in numbers if q not in used and is_prime(q)))
    claims = {"value": r, "error": -e, "inputs": c["lower_bound"]["inputs"] + 1, "degree": degree}
    _compare(block, claims | {"norm_bits": norm_bits}, "monte-carlo")
    _require([trial["prime"] for trial in block["trials"]] == used[1:], "monte-carlo: the trials' primes are not those")
    _require(all(trial["rank"] <= r for trial in block["trials"]), f"monte-carlo: a trial has a rank larger than {r}")
    _require(block["theorem"]["value"] > r, "monte-carlo: the theorem alone gives the dimension")


# ---- Section 9: the expected dimension ----

LIGHTNING = "Henry, Marchetti, Kohn: Geometry of Lightning Self-Attention (ICLR 2025)"
POLYNOMIAL = "Kileel, Trager, Bruna: On the Expressive Power of Deep Polynomial Neural Networks (NeurIPS 2019)"
SUM = "sum over heads, capped by the ambient space"


def _formula(name: str, status: str, source: str, value: int, hypotheses: Sequence[tuple[str, bool]] = ()) -> Object:
    listed = [{"statement": statement, "holds": holds} for statement, holds in hypotheses]
    result = {"value": value, "formula": name, "status": status, "source": source, "hypotheses": listed}
    return result | {"holds": all(x["holds"] for x in listed)}


def _determinantal(rank: int, d: int) -> int:
    return 2 * rank * d - rank**2  # the dimension of the d×d matrices of a rank


def _symmetric(rank: int, d: int) -> int:
    return rank * d - rank * (rank - 1) // 2  # and of the symmetric ones


def expected_dimension(spec: Object, P: int) -> Object | None:
    """Return the closed formula for an architecture with its hypotheses, or None."""
    if spec["kind"] == "mlp":
        return _expected_mlp(spec["widths"], power(spec), P) if power(spec) > 1 and not spec["bias"] else None
    if spec["causal"] or spec["residual"] or spec["qk_bias"] or spec["mlp_width"] is not None:
        return None
    d, a, t, H, v = (spec[key] for key in ("widths", "attention_dims", "tokens", "heads", "value_dim"))
    scores, values = _determinantal(min(a[0], d[0]), d[0]), d[0] * d[-1]
    if H > 1 or v is not None:
        inner = min(d[0], d[-1], v or d[0])  # the rank of O U, and matrices of rank min(d, d') are all matrices
        value = H * (scores + (d[0] + d[-1]) * inner - inner**2 - 1)
        result = _formula("multi-head", "parameter count", SUM, min(value, ambient_tokens(spec)))
        return result if len(a) == 1 and t >= 2 else None
    if len(a) > 1:
        return _expected_deep(d, a, t)
    if t == 1:
        value = _symmetric(min(2 * a[0], d[0]), d[0]) + values - 1
        return _formula("single-layer-one-token", "theorem", "symmetric forms of bounded rank", value)
    return _formula("single-layer", "theorem", LIGHTNING, scores + values - 1, [("t >= 2", t >= 2)])


def _expected_deep(d: Vector, a: Vector, t: int) -> Object | None:
    layers, delta = len(a), d[1]
    if len(set(d[1:-1])) == 1:
        value = _determinantal(min(a[0], d[0]), d[0]) + delta * (d[0] + d[-1]) - delta**2 - layers
        value += sum(_determinantal(min(x, delta), delta) for x in a[1:])
        rank_two = "token matrices entering later layers have rank >= 2: min(delta, a_1, ..., a_{l-1}) >= 2"
        hypotheses = [("hidden widths delta <= d_0", delta <= d[0]), ("hidden widths delta <= d_l", delta <= d[-1])]
        hypotheses += [("t >= 2", t >= 2), (rank_two, min(delta, *a[:-1]) >= 2)]
        return _formula("deep-bottleneck", "theorem", LIGHTNING, value, hypotheses)
    value, thinnest = d[0] * d[-1] - layers, min(t, d[0])
    for x in a:
        alpha = min(x, d[0])
        value += _determinantal(alpha, d[0]) if thinnest >= 2 else _symmetric(min(2 * x, d[0]), d[0])
        thinnest = min(thinnest, alpha)
    source = "ffrank, agreed with exact ranks on random architectures"
    return _formula("deep-wide", "conjecture", source, value) if min(d[1:-1]) >= d[0] else None


def _expected_mlp(d: Vector, k: int, P: int) -> Object | None:
    value, degree = P - sum(d[1:-1]), 1
    for _ in d[2:]:  # k^(l − 1), as far as P: there are more than P forms of degree P, unless d_0 = 1
        degree = min(degree * k, P)
    forms = _binomial(d[0] - 1 + degree, degree)
    value = value if forms is None else min(value, d[-1] * forms)
    return _formula("polynomial-network", "parameter count", POLYNOMIAL, value) if len(d) > 2 else None


# ---- Section 5: the whole certificate ----

SHAKE = "The SHAKE-256 challenges behave as random: a false rank witness passes with probability at most 2^-120."
TRIALS = (
    "The trial primes and points drawn by SHAKE-256 behave as random: the upper bound fails with probability at most"
    " 2^{error}."
)


def check(certificate: bytes | str | Object, full: bool = False, max_work: int = MAX_WORK) -> Report:
    """
    Check a certificate: the file's bytes (gzip allowed), its text, or the object that it holds. Return what is proven.

    With `full` the ranks of the minors and of the Monte-Carlo trials are computed as well. Raises `Invalid` if it says
    something false or unproven; `Malformed` if it cannot be read, or takes more than `max_work` multiplications.
    """
    c = read(certificate)
    subject = "program" if type(c) is dict and "program" in c else "architecture"
    fit(c, CERTIFICATE | {subject: dict}, "certificate")
    own = digest({key: value for key, value in c.items() if key not in ("digest", "versions")})
    _require(c["digest"] == own, "the digest is not that of the content")
    p, upper, r = c["prime"], c["upper_bound"], len(c["lower_bound"]["rows"])
    _require(is_prime(p), f"{p} is not a prime")
    spec = architecture(c["architecture"]) if "architecture" in c else None
    build = user_program if spec is None else mlp_program if spec["kind"] == "mlp" else attention_program
    program = build(spec or c["program"], Program(max_work))
    _require(c["program_digest"] == digest(program.document()), "the program digest is not that of the map")
    theorem = upper["theorem"] if upper["kind"] == "monte-carlo" else upper
    check_claims(c, spec, program, theorem)
    targets = challenges("lower", c["lower_bound"], (LARGEST + 1, program.P), c)
    rows, k = c["lower_bound"]["rows"], len(targets)
    once, inputs = sum(program.work) + program.n, len({row // program.m for row in rows})
    work = (inputs + 1) * once * (1 + 2 * k) + (inputs * once * (1 + 2 * r) + r**3 // 2 if full else 0)
    generators: list[Family] = []
    if spec and theorem["kind"] == "symmetry":
        generators = families(spec)
        _compare(theorem, {"generators": [document for document, _ in generators]}, "symmetry")
        dimensions = [document["dimension"] for document, _ in generators]
        symmetries = challenges("symmetry", theorem, (program.P, sum(dimensions)), c)
        s = len(theorem["rows"])
        once = sum(2 * (isqrt(dimension) + 1) * program.P for dimension in dimensions)
        work += once * (k + (s if full else 0)) + (s**3 if full else 0)
    trials = upper["trials"] if full and upper["kind"] == "monte-carlo" else []
    one_input = (sum(program.work) + program.n) * (1 + 2 * program.P) + program.m * (r + 1) * program.P
    work += sum(upper["inputs"] * one_input for _ in trials)
    _afford(work, max_work)

    jacobian = Jacobian(program, c["program_digest"], p, c["seed"])
    check_lower(jacobian, c["lower_bound"], targets, full)
    if theorem["kind"] == "symmetry":
        check_symmetry(generators, jacobian, theorem, symmetries, full)
    for q, claimed in ((trial["prime"], trial["rank"]) for trial in trials):
        there = Jacobian(program, c["program_digest"], q, c["seed"])
        blocks = (there.block(i, range(program.P)) for i in range(1, upper["inputs"] + 1))
        again = rank((row for block in blocks for row in block), q, r + 1)
        _require(again == claimed, f"monte-carlo: the trial with the prime {q} has not the rank {claimed}")
    return _report(c, theorem, full)


def _compare(block: Object, claims: Object, where: str) -> None:
    for key, claim in claims.items():
        _require(block[key] == claim, f"{where}: {key}: expected {_show(claim)}, got {_show(block[key])}")


def check_claims(c: Object, spec: Object | None, program: Program, theorem: Object) -> None:
    """Check every field that follows from the others; what is left then are the ranks of the minors."""
    rows, upper = c["lower_bound"]["rows"], c["upper_bound"]
    r, monte_carlo = len(rows), upper["kind"] == "monte-carlo"
    _compare(c["lower_bound"], {"inputs": rows[-1] // program.m + 1 if rows else 0}, "lower_bound")
    bound: int | None = program.P
    kind, mlp = theorem["kind"], spec is not None and spec["kind"] == "mlp"
    if kind == "symmetry":
        _require(spec, "symmetry: a user's own program has no families")
        bound = program.P - len(theorem["rows"])
    elif kind == "ambient" and theorem["rule"] == "degrees":
        bound = ambient_degrees(program)
    elif kind == "ambient":
        single = spec and not mlp and len(spec["widths"]) == 2 and spec["mlp_width"] is None
        _require(single, "ambient: rule tokens is only for one lightning layer without mlp_width")
        bound = ambient_tokens(spec or {})
    elif kind == "composition":
        fits = spec and mlp and power(spec) >= 2 and len(spec["widths"]) <= 101
        _require(fits, "composition: only for the kind mlp with a power >= 2 and at most 100 layers")
        bound = composition(spec or {})
    _compare(theorem, {"value": bound}, f"upper_bound: {kind}")
    if monte_carlo:
        check_monte_carlo(upper, c, program)
    _require(r <= upper["value"], "the lower bound is larger than the upper bound")
    exact, error = upper["value"] == r, upper["error"] if monte_carlo else None
    status = ("exact-with-probability" if monte_carlo else "exact") if exact else "bounds"
    value = r if exact else None
    dimension = {"lower": r, "upper": upper["value"], "value": value, "status": status, "error": error}
    _compare(c["dimension"], dimension, "dimension")
    expected = expected_dimension(spec, program.P) if spec else None
    defect = expected["value"] - r if expected and exact else None
    assumptions = [SHAKE, TRIALS.format(error=error)] if monte_carlo else [SHAKE]
    claims = {"parameters": program.P, "expected": expected, "defect": defect, "assumptions": assumptions}
    _compare(c, claims, "certificate")


def _report(c: Object, theorem: Object, full: bool) -> Report:
    """Say in words what was verified and what was taken on trust."""
    p, seed, upper, r = c["prime"], c["seed"], c["upper_bound"], c["dimension"]["lower"]
    subject = "architecture" if "architecture" in c else "program in the certificate"
    how = "by its witness and by elimination" if full else "by its witness"
    reasons = {
        "parameters": "that is the number of parameters",
        "ambient": f"that is the dimension of the ambient space (rule {theorem.get('rule')})",
        "composition": "that is what functions and not parameters count to, cut by cut",
        "symmetry": f"{len(theorem.get('rows', []))} symmetries are independent at the point, {how}",
    }
    verified = [
        f"map, points and challenges were rebuilt from the {subject}, the prime {p} (it is one) and the seed {seed}",
        f"the dimension is at least {r}: a minor of that size of the Jacobian is regular mod {p}, {how}",
        f"the dimension is at most {theorem['value']}: {reasons[theorem['kind']]}",
    ]
    trusted = [] if full else [SHAKE]
    if upper["kind"] == "monte-carlo":
        count, error = len(upper["trials"]), upper["error"]
        verified.append(f"primes, number, degree and coefficients of the {count} trials give the error 2^{error}")
        ranks = f"the ranks of the {count} Monte-Carlo trials, at most {r}"
        (verified if full else trusted).append(ranks + (", were computed" if full else " (--full computes them)"))
        trusted.append(TRIALS.format(error=error))
    return Report(c["parameters"], c["dimension"], tuple(verified), tuple(trusted))


# ---- Command line ----


def _check_file(path: str, full: bool, max_work: int) -> Object:
    result: Object = {"file": path, "verdict": "valid", "reason": None, "dimension": None, "parameters": None}
    result |= {"verified": (), "trusted": ()}
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return result | vars(check(file.read(MAX_BYTES + 1), full, max_work))
    except (CheckError, OSError, MemoryError, ValueError) as error:
        verdict = "invalid" if isinstance(error, Invalid) else "malformed"
        return result | {"verdict": verdict, "reason": str(error) or type(error).__name__}


def _human(result: Object) -> str:
    if result["verdict"] != "valid":
        return f"{result['file']}: {result['verdict']}: {result['reason']}"
    lower, upper, value, status, error = (result["dimension"][key] for key in DIMENSION)
    value = f"between {lower} and {upper}" if value is None else value
    status += "" if error is None else f", error 2^{error}"
    lines = [f"{result['file']}: valid: dimension {value} ({status}), {result['parameters']} parameters"]
    lines += [f"  verified: {x}" for x in result["verified"]] + [f"  on trust: {x}" for x in result["trusted"]]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Check files and return the worst exit status of all."""
    import argparse

    parser = argparse.ArgumentParser(prog="checker.py", description="Check certificates of ffrank.", allow_abbrev=False)
    parser.add_argument("files", nargs="+", metavar="CERT", help="a certificate, .json or .json.gz")
    parser.add_argument("--full", action="store_true", help="compute the ranks of minors and Monte-Carlo trials too")
    parser.add_argument("--json", action="store_true", help="print a JSON list with one object a file")
    parser.add_argument("--max-work", type=int, default=MAX_WORK, metavar="N", help="allow N multiplications")
    options = parser.parse_args(arguments)
    results = [_check_file(path, options.full, options.max_work) for path in options.files]
    for result in [] if options.json else results:
        text = _human(result).encode("ascii", "backslashreplace").decode()
        (sys.stdout if result["verdict"] == "valid" else sys.stderr).write(text + "\n")
    sys.stdout.write(json.dumps(results, indent=2) + "\n" if options.json else "")
    return max(("valid", "invalid", "malformed").index(result["verdict"]) for result in results)


if __name__ == "__main__":
    sys.exit(main())
