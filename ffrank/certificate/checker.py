"""The independent checker of ffrank's certificates: one file, standard library only.

    python -I checker.py CERT... [--full] [--json] [--max-work N] [--matrix FILE]

Exit status 0: every certificate is valid; 1: one is invalid; 2: one is malformed or unusable. As a library: `check`.
Sections are those of the specification, `FORMAT.md` beside this file. What a certificate claims is rebuilt from the
architecture or program, the prime and the seed. Only pivots, redraws and witnesses are taken from the prover, and all
are tested: if a minor J were singular, J w = b could hold for a random b with probability at most 1/p. So J w is all
that is computed: one derivative of the network, along w.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import sys
import zlib
from fractions import Fraction
from functools import partial, reduce
from itertools import accumulate, chain, groupby, islice, pairwise
from math import comb, isqrt, prod
from operator import mul
from re import fullmatch
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["Invalid", "Malformed", "Report", "check", "main"]

MAX_WORK = 20_000_000_000  # multiplications that are done without asking
ENTRY_WORK, INSTRUCTION_WORK, NODE_WORK = 1_000, 100_000, 50  # what an entry, an instruction and a visit of it count as
MAX_AXES, MAX_BYTES, MAX_DEGREE, LARGEST = 32, 2**26, 2**4096, 10**25 - 1

Vector = list[int]
Matrix = list[Vector]
Shape = tuple[int, ...]
Object = dict[str, Any]


# ---- Verdicts ----
class Invalid(Exception):  # noqa: N818
    """The certificate is well-formed, and says something that is false or not proven."""


class Malformed(Exception):  # noqa: N818
    """Not a certificate, or one that this checker cannot read or may not spend the work on."""


class Report(NamedTuple):
    """A valid certificate: what it says, and what that rests on. `parameters` is None for the rank of a matrix."""

    summary: str
    parameters: int | None
    dimension: Object
    verified: tuple[str, ...]
    trusted: tuple[str, ...]


def _require(condition: object, reason: str, verdict: type[Exception] = Invalid) -> None:
    if not condition:
        raise verdict(reason)


_well_formed = partial(_require, verdict=Malformed)


def _afford(work: int, budget: int) -> None:
    needed = f"needs an estimated {_show(work)} multiplications or more"
    _well_formed(work <= budget, f"{needed}, but {budget} are allowed; --max-work raises the limit")


def _compare(block: Object, claims: Object, where: str) -> None:
    for key, claim in claims.items():
        _require(block[key] == claim, f"{where}: {key}: expected {_show(claim)}, got {_show(block[key])}")


def _show(x: object) -> str:
    return text if len(text := ascii(x)) <= 60 else text[:57] + "..."


# ---- Section 1: reading, canonical form, streams ----
def digest(x: object) -> str:  # the SHA-256 of the canonical JSON of x
    return hashlib.sha256(json.dumps(x, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read(source: bytes | str | Object) -> Any:  # strict JSON: UTF-8, no key twice, integers of at most 25 digits; gzip
    def pairs(listed: list[tuple[str, Any]]) -> Object:
        _well_formed(len(dict(listed)) == len(listed), "an object has a key twice")
        return dict(listed)

    def integer(x: str) -> int:
        _well_formed(x.removeprefix("-").isdigit() and len(x) <= 25 + (x[0] == "-"), f"not an integer: {_show(x)}")
        return int(x)

    try:
        source = json.dumps(source) if isinstance(source, dict) else source
        if isinstance(source, bytes):
            if source[:2] == b"\x1f\x8b":
                gzip = zlib.decompressobj(wbits=31)
                source = gzip.decompress(source, MAX_BYTES + 1)
                whole = len(source) > MAX_BYTES or (gzip.eof and not gzip.unused_data)
                _well_formed(whole, "a truncated or continued gzip file")
            _well_formed(len(source) <= MAX_BYTES, f"larger than {MAX_BYTES} bytes")
            source = source.decode("utf-8")
        hooks: Any = dict.fromkeys(("parse_int", "parse_float", "parse_constant"), integer)
        return json.loads(source, object_pairs_hook=pairs, **hooks)
    except RecursionError:
        raise Malformed("not JSON that can be read: nested too deeply") from None
    except (ValueError, TypeError, zlib.error) as error:  # errors of decoding are ValueErrors
        raise Malformed(f"not JSON: {_show(str(error))}") from None


def bits(x: int) -> int:  # ceil(log2 x), and 0 for x = 0
    return (x - 1).bit_length() if x else 0


def words(message: str) -> Iterator[int]:  # the 8-byte words of SHAKE-256 of a message, for ever
    shake, done, size = hashlib.shake_256(message.encode()), 0, 64
    while True:
        yield from struct.unpack(f"<{size}Q", shake.digest(8 * size))[done:]
        done, size = size, 2 * size


def stream(message: str, p: int, count: int, least: int = 0) -> Vector:  # of Stream(message, p), values >= least
    mask = (1 << p.bit_length()) - 1
    return list(islice((value for word in words(message) if least <= (value := word & mask) < p), count))


def is_prime(n: int) -> bool:  # Miller and Rabin's test, which makes no error with these bases below 3 * 10^24
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    if n < 2 or any(n % q == 0 for q in bases):
        return n in bases
    twos = ((n - 1) & (1 - n)).bit_length() - 1
    powers = ([pow(base, (n - 1) >> (twos - i), n) for i in range(twos)] for base in bases)
    return all(x[0] == 1 or n - 1 in x for x in powers)


# ---- Forms: the keys and types of all objects ----
INDEX, SIZE = range(LARGEST + 1), range(1, LARGEST + 1)
WHOLE, NEGATIVE = range(-LARGEST, LARGEST + 1), range(-LARGEST, 0)
ACTIVATIONS = {"identity": 1, "square": 2, "cube": 3, "tanh": 0, "sigmoid": 0, "silu": 0}  # the power, or 0
ACTIVATION: Any = (set(ACTIVATIONS), {"power": range(4, 1001)})
PIVOTS: Object = {"rows": [INDEX], "columns": [INDEX], "witness": [[INDEX]]}
REDRAWS: Any = [[range(2**32)]]
FAMILY: Object = {"rule": str, "layer": SIZE, "head": (None, SIZE), "dimension": SIZE}
DIMENSION = {"lower": INDEX, "upper": INDEX, "value": (None, INDEX), "status": str, "error": (None, NEGATIVE)}
EXPECTED = {"value": WHOLE, "formula": str, "status": str, "source": str}
EXPECTED |= {"hypotheses": [{"statement": str, "holds": bool}], "holds": bool}
EXPONENTS: Object = {"count": INDEX, "redraws": [REDRAWS]} | PIVOTS
ROOTS = [{"count": INDEX, "rows": [INDEX], "redraws": REDRAWS}]
THEOREMS: Object = {x: {"kind": str, "value": INDEX} for x in ("parameters", "ambient", "composition", "symmetry")}
THEOREMS["ambient"] |= {"rule": {"degrees", "tokens"}}
THEOREMS["symmetry"] |= {"generators": [FAMILY]} | PIVOTS
MONTE_CARLO: Object = {"kind": str, "error": NEGATIVE, "trials": [{"prime": INDEX, "rank": INDEX}]}
MONTE_CARLO |= {"value": INDEX, "inputs": INDEX, "degree": INDEX, "norm_bits": INDEX, "theorem": THEOREMS}
CERTIFICATE = {"schema": {"ffrank-certificate/1"}, "program_digest": str, "prime": range(3, 2**31)}
CERTIFICATE |= {"seed": range(2**64), "method": {"point": {"random"}, "error": (None, NEGATIVE)}}
CERTIFICATE |= {"parameters": INDEX, "dimension": DIMENSION, "expected": (None, EXPECTED), "defect": (None, WHOLE)}
CERTIFICATE |= {"lower_bound": {"inputs": INDEX, "redraws": REDRAWS} | PIVOTS, "assumptions": [str]}
CERTIFICATE |= {"hypotheses": {"exponents": (None, dict), "roots": (None, ROOTS)}, "digest": str}
CERTIFICATE |= {"upper_bound": THEOREMS | {"monte-carlo": MONTE_CARLO}, "versions": {"ffrank": str}}
RANK = {"schema": str, "prime": range(2, 2**61), "shape": [INDEX, INDEX], "matrix": str, "rank": INDEX, "digest": str}
RANK |= {"rows": [INDEX], "columns": [INDEX], "lower": [[INDEX]], "versions": {"ffrank": str}}
OVER_Q = "ffrank-rational-rank/1"
RANKS: Object = {"ffrank-rank/1": RANK | {"upper": [[INDEX]]}, OVER_Q: RANK | {"relations": [[str]]}}
ATTENTION = {"kind": str, "widths": [SIZE], "attention_dims": [SIZE], "tokens": SIZE, "heads": SIZE, "causal": bool}
ATTENTION |= {"score": {"lightning", "softmax", "normalized"}, "norm": {"none", "rms", "layer"}, "residual": bool}
ATTENTION |= {"value_dim": (None, SIZE), "mlp_width": (None, SIZE), "qk_bias": bool, "activation": ACTIVATION}
MLP = {"kind": str, "widths": [SIZE], "activation": ACTIVATION, "bias": bool}
PROGRAM = {"format": {"ffrank-program/1"}, "instructions": [list], "output": INDEX}
PROGRAM |= {"parameters": [[str, [SIZE]]], "inputs": [[str, [SIZE]]]}


def fit(x: Any, form: Any, where: str) -> Any:
    # Return x if it has this form, else raise Malformed: a range of integers (a bool is none), a set of strings, a type
    # (strings are not empty), a list of one form for lists of any length, of more forms for lists of just these, a pair
    # (None, form) or (form, dict), or a dict: with exactly these keys, or a choice by the key `kind`.
    if isinstance(form, type):
        _well_formed(type(x) is form and x != "", f"{where}: expected a {form.__name__}, got {_show(x)}")
    elif isinstance(form, range | set):
        good = type(x) is (int if isinstance(form, range) else str) and x in form
        _well_formed(good, f"{where}: expected one of {_show(form)}, got {_show(x)}")
    elif isinstance(form, tuple):
        if form[0] is not None or x is not None:
            fit(x, form[form[0] is None or type(x) is dict], where)
    elif isinstance(form, list):
        _well_formed(type(x) is list and len(form) in (1, len(x)), f"{where}: not a list of the right length")
        for i, y in enumerate(x):
            fit(y, form[i % len(form)], where)
    elif all(type(y) is dict and "kind" in y for y in form.values()):
        fit(x, form[fit(fit(x, dict, where).get("kind"), set(form), f"{where}: kind")], where)
    else:
        _well_formed(set(fit(x, dict, where)) == set(form), f"{where}: expected the keys {', '.join(sorted(form))}")
        for key, inner in form.items():
            fit(x[key], inner, f"{where}: {key}")
    return x


def sealed(c: Object, forms: Object) -> int:  # checks the form of a certificate, its digest and its prime; returns that
    fit(c, forms, "certificate")
    own = digest({key: value for key, value in c.items() if key not in ("digest", "versions")})
    _require(c["digest"] == own, "the digest is not that of the content")
    _require(is_prime(c["prime"]), f"{c['prime']} is not a prime")
    return int(c["prime"])


# ---- Section 2: programs ----
# of each instruction its arguments, the shape of the result, and if the operands' shapes allow for it
INSTRUCTIONS: dict[str, tuple[list[Any], Callable[..., tuple[Any, Any]]]] = {
    "const": ([[SIZE], [WHOLE]], lambda shape, entries: (shape, prod(shape) == len(entries))),
    "add": ([INDEX, INDEX], lambda a, b: (a, a == b)),
    "neg": ([INDEX], lambda a: (a, True)),
    "pow": ([INDEX, SIZE], lambda a, _: (a, True)),
    "matmul": ([INDEX, INDEX], lambda a, b: ((*a[:-1], *b[-1:]), len(a) > 1 < len(b) and a[:-2] + a[-1:] == b[:-1])),
    "sum": ([INDEX, INDEX], lambda a, axis: (a[:axis] + a[axis + 1 :], axis < len(a))),
    "reshape": ([INDEX, [SIZE]], lambda a, new: (new, prod(new) == prod(a))),
    "transpose": ([INDEX, [INDEX]], lambda a, to: ([a[i] for i in to if i < len(a)], sorted(to) == [*range(len(a))])),
    "slice": ([INDEX, [[INDEX, SIZE, SIZE]]], lambda a, cuts: ([-((i - j) // k) for i, j, k in cuts], _cut(a, cuts))),
    "broadcast": ([INDEX, [SIZE]], lambda a, new: (new, _grown(a, new) == new)),
    "concat": ([], lambda axis, *some: _joined(axis, some)),
}
INSTRUCTIONS |= {"mul": INSTRUCTIONS["add"], **dict.fromkeys(("exp", "sqrt", "recip"), INSTRUCTIONS["neg"])}


def _grown(a: Sequence[int], new: Vector) -> Vector:
    start = len(new) - len(a)
    return new[:start] + [y if x == 1 else x for x, y in zip(a, new[start:], strict=True)] if start >= 0 else []


def _cut(a: Shape, cuts: list[Vector]) -> bool:
    return len(cuts) == len(a) and all(start < stop <= n for (start, stop, _), n in zip(cuts, a, strict=True))


def _joined(axis: int, some: Sequence[Shape]) -> tuple[Shape, bool]:
    same = axis < len(some[0]) and len({(len(a), a[:axis], a[axis + 1 :]) for a in some}) == 1
    return (*some[0][:axis], sum(sum(a[axis : axis + 1]) for a in some), *some[0][axis + 1 :]), same


def architecture(x: Any) -> Object:  # x if it is a full and consistent architecture
    spec: Object = fit(x, {"mlp": MLP, "attention": ATTENTION}, "architecture")
    widths, dims = spec["widths"], spec.get("attention_dims")
    _well_formed(len(widths) >= 2, "architecture: expected at least two widths")
    if dims is not None:
        _well_formed(len(dims) == len(widths) - 1, "architecture: expected one width more than attention_dims")
        _well_formed(not spec["residual"] or len(set(widths)) == 1, "architecture: residual needs equal widths")
        plain = spec["mlp_width"] is None and spec["activation"] != "square"
        _well_formed(not plain, "architecture: without mlp_width the activation is written square")
    name = spec["activation"]
    return spec | {"power": ACTIVATIONS[name] if type(name) is str else name["power"]}  # 0 if it is none


class Program:  # grows node by node, with the shape of each, and refuses to when the budget is spent
    def __init__(self, budget: int) -> None:
        self.budget, self.spent = budget, 0
        self.parameters, self.inputs = list[list[Any]](), list[list[Any]]()
        self.first = 0  # the node of the first instruction
        self.made, self.operands = list[list[Any]](), list[Vector]()  # each node's instruction, or []; its operands
        self.shapes, self.sizes, self.work = list[Shape](), Vector(), Vector()  # work: the multiplications it takes

    def declare(self, name: str, shape: Sequence[int], table: list[list[Any]]) -> int:  # adds a parameter or an input
        table.append([name, list(shape)])
        self.first += 1
        return self._node(tuple(shape), [], [])

    def add(self, *instruction: Any) -> int:  # adds an instruction and returns its node
        where = f"instruction {len(self.shapes) - self.first}"
        op = fit(instruction[0] if instruction else None, set(INSTRUCTIONS), where)
        form, shape_of = INSTRUCTIONS[op]
        rest = fit(list(instruction[1:]), form or [INDEX] * max(2, len(instruction) - 1), where)
        operands = {"const": [], "concat": rest[1:]}.get(op, rest[: 2 if op in ("add", "mul", "matmul") else 1])
        _well_formed(all(a < len(self.shapes) for a in operands), f"{where}: an operand is not an earlier node")
        shapes, how = [self.shapes[a] for a in operands], rest[0] if op == "const" else rest[-1]
        _well_formed(type(how) is int or len(how) <= MAX_AXES, f"{where}: more than {MAX_AXES} axes")
        shape, allowed = shape_of(*([rest[0], *shapes] if op == "concat" else [*shapes, *rest[len(shapes) :]]))
        _well_formed(allowed, f"{where}: {op} does not fit the shapes {_show(shapes)}")
        return self._node(tuple(shape), operands, list(instruction))

    def _node(self, shape: Shape, operands: Vector, instruction: list[Any]) -> int:
        _well_formed(len(shape) <= MAX_AXES, f"program: more than {MAX_AXES} axes")
        size, op = prod(shape), instruction[0] if instruction else ""
        factor = self.shapes[operands[0]][-1] if op == "matmul" else 100 if op in ("sqrt", "recip") else 0
        factor = 2 * instruction[2].bit_length() if op == "pow" else factor
        self.work.append(NODE_WORK + max([size, *(self.sizes[a] for a in operands)]) + size * factor)
        self.spent += size * ENTRY_WORK + self.work[-1] + INSTRUCTION_WORK
        _afford(self.spent, self.budget)
        self.made.append(instruction)
        self.shapes.append(shape)
        self.sizes.append(size)
        self.operands.append(operands)
        return len(self.shapes) - 1

    def finish(self, output: int) -> Program:  # sets P, n and m, the exponentials, and the arguments of roots by stages
        _well_formed(output < len(self.shapes), "program: the output is not a node")
        parameters, instructions = len(self.parameters), range(self.first, len(self.shapes))
        self.output, self.m, self.P = output, self.sizes[output], sum(self.sizes[:parameters])
        self.n, self.once = sum(self.sizes[parameters : self.first]), sum(self.work) + sum(self.sizes[: self.first])
        moving, stage, self.arguments = set(range(parameters, self.first)), [0] * self.first, list[Vector]()
        ops, self.constant = {node: self.made[node][0] for node in instructions}, False
        for node, op in ops.items():
            operands = self.operands[node]
            moving.update(() if moving.isdisjoint(operands) else (node,))
            self.constant |= op in ("exp", "sqrt") and node not in moving
            stage.append(max((stage[a] for a in operands), default=0) + (op == "sqrt"))
            if op == "sqrt":
                self.arguments += [[] for _ in range(stage[node] - len(self.arguments))]
                under = self.arguments[stage[node] - 1]  # the nodes under the roots of this stage
                under += [a for a in operands if a not in under]
        self.exponentials = {node: e for e, node in enumerate((x for x in ops if ops[x] == "exp"), 1)}
        self.polynomial = not {"exp", "sqrt", "recip"} & set(ops.values())
        return self

    def document(self) -> Object:
        document = {"format": "ffrank-program/1", "parameters": self.parameters, "inputs": self.inputs}
        return document | {"instructions": self.made[self.first :], "output": self.output}

    def user(self, x: Object) -> Program:
        document = fit(x, PROGRAM, "program")
        listed = document["parameters"] + document["inputs"]
        _well_formed(len({name for name, _ in listed}) == len(listed), "program: two names are equal")
        for table, listed in ((self.parameters, document["parameters"]), (self.inputs, document["inputs"])):
            for name, shape in listed:
                self.declare(name, shape, table)
        for instruction in document["instructions"]:
            self.add(*instruction)
        return self.finish(document["output"])

    def build(self, spec: Object) -> Program:  # of an architecture (section 2.1), and so all below
        return self.finish(self._mlp(spec) if spec["kind"] == "mlp" else self._attention(spec))

    def _constant(self, value: int, x: int) -> int:
        return self.add("broadcast", self.add("const", [], [value]), list(self.shapes[x]))

    def _activated(self, spec: Object, x: int) -> int:
        add, name, k = self.add, spec["activation"], spec["power"]
        if k:
            return x if k == 1 else add("pow", x, k)
        e = add("exp", add("add", x, x) if name == "tanh" else add("neg", x))
        r = add("recip", add("add", self._constant(1, x), e))
        if name == "tanh":
            return add("add", self._constant(1, x), add("mul", self._constant(-2, x), r))
        return r if name == "sigmoid" else add("mul", x, r)

    def _normed(self, norm: str, z: int) -> int:
        add, shape = self.add, list(self.shapes[z])
        if norm == "layer":
            scaled = add("mul", self._constant(shape[0], z), z)
            z = add("add", scaled, add("broadcast", add("neg", add("sum", z, 0)), shape))
        r = add("sqrt", add("sum", add("mul", z, z), 0)) if norm != "none" else z
        return add("mul", z, add("broadcast", add("recip", r), shape)) if norm != "none" else z

    def _mlp(self, spec: Object) -> int:
        d, add, node = spec["widths"], self.add, dict[str, int]()
        for i in range(1, len(d)):
            for name, shape in [("W", [d[i], d[i - 1]]), ("b", [d[i]])][: 1 + spec["bias"]]:
                node[f"{name}{i}"] = self.declare(f"layer{i}.{name}", shape, self.parameters)
        z = self.declare("x", [d[0], 1], self.inputs)
        for i in range(1, len(d)):
            z = add("matmul", node[f"W{i}"], z)
            z = add("add", z, add("reshape", node[f"b{i}"], [d[i], 1])) if spec["bias"] else z
            z = self._activated(spec, z) if i < len(d) - 1 else z
        return z

    def _attention(self, spec: Object) -> int:
        d, t, v, w, score = (spec[key] for key in ("widths", "tokens", "value_dim", "mlp_width", "score"))
        node, add, norm, biased = dict[str, int](), self.add, spec["norm"], spec["qk_bias"]
        for i, a in enumerate(spec["attention_dims"], 1):
            shapes = {"Q": [a, d[i - 1]], "K": [a, d[i - 1]]}
            shapes |= {"V": [d[i], d[i - 1]]} if v is None else {"U": [v, d[i - 1]], "O": [d[i], v]}
            shapes |= {"b_q": [a], "b_k": [a]} if biased else {}
            heads = ((f"head{h}.{x}", shape) for h in range(1, spec["heads"] + 1) for x, shape in shapes.items())
            for name, shape in chain(heads, [("W1", [w, d[i]]), ("W2", [d[i], w])] if w else []):  # stops when too many
                node[f"layer{i}.{name}"] = self.declare(f"layer{i}.{name}", shape, self.parameters)
        z = self.declare("X", [d[0], t], self.inputs)

        def scored(weight: str, bias: str, y: int) -> int:
            x = add("matmul", node[weight], y)
            a = self.shapes[x][0]
            return add("add", x, add("broadcast", add("reshape", node[bias], [a, 1]), [a, t])) if biased else x

        for i in range(1, len(d)):
            y, total = self._normed(norm, z), -1
            for head in (f"layer{i}.head{h}." for h in range(1, spec["heads"] + 1)):
                q, k = scored(head + "Q", head + "b_q", y), scored(head + "K", head + "b_k", y)
                s = add("matmul", add("transpose", k, [1, 0]), q)
                s = add("exp", s) if score == "softmax" else s
                if spec["causal"]:
                    _afford(self.spent + t * t * ENTRY_WORK, self.budget)
                    s = add("mul", s, add("const", [t, t], [int(i <= j) for i in range(t) for j in range(t)]))
                if score != "lightning":
                    s = add("mul", s, add("broadcast", add("recip", add("sum", s, 0)), [t, t]))
                o = add("matmul", add("matmul", node[head + ("V" if v is None else "U")], y), s)
                o = o if v is None else add("matmul", node[head + "O"], o)
                total = o if total < 0 else add("add", total, o)
            z = add("add", z, total) if spec["residual"] else total
            if w is not None:
                hidden = self._activated(spec, add("matmul", node[f"layer{i}.W1"], self._normed(norm, z)))
                hidden = add("matmul", node[f"layer{i}.W2"], hidden)
                z = add("add", z, hidden) if spec["residual"] else hidden
        return z


# ---- Linear algebra mod p ----
def _flip(rows: Iterable[Vector]) -> Matrix:
    return [list(column) for column in zip(*rows, strict=True)]


def _apply(rows: Iterable[Vector], w: Vector, p: int) -> Vector:
    return [sum(map(mul, row, w)) % p for row in rows]


def rank(rows: Iterable[Vector], p: int, enough: int) -> int:  # by elimination; `enough` if it is at least that
    echelon: list[tuple[int, Vector]] = []  # (pivot column, the row from there on, beginning with 1)
    for row in rows:
        for column, pivot in echelon:
            if factor := row[column]:
                row = row[:column] + [(x - factor * y) % p for x, y in zip(row[column:], pivot, strict=True)]  # noqa: PLW2901
        lead = next((j for j, x in enumerate(row) if x), None)
        if lead is not None:
            unit = pow(row[lead], -1, p)
            echelon.append((lead, [x * unit % p for x in row[lead:]]))
        if len(echelon) >= enough:
            break
    return min(len(echelon), enough)


def inverse(A: Matrix, p: int) -> Matrix | None:  # None if it is singular
    n = len(A)
    rows = [row + [int(i == j) for j in range(n)] for i, row in enumerate(A)]
    for j in range(n):
        i = next((i for i in range(j, n) if rows[i][j]), None)
        if i is None:
            return None
        unit = pow(rows[i][j], -1, p)
        rows[i], rows[j] = rows[j], [x * unit % p for x in rows[i]]
        reduced = ([(x - row[j] * y) % p for x, y in zip(row, rows[j], strict=True)] for row in rows)
        rows = [rows[j] if i == j else row for i, row in enumerate(reduced)]
    return [row[n:] for row in rows]


def root(x: int, p: int) -> int:  # in 1 … (p − 1)/2, as Tonelli and Shanks find it; a ValueError if there is none
    twos, half = ((p - 1) & (1 - p)).bit_length() - 1, (p - 1) // 2
    if pow(x, half, p) != 1:
        raise ValueError
    odd = (p - 1) >> twos
    s, rest = pow(x, (odd + 1) // 2, p), pow(x, odd, p)  # s² = x · rest, and rest has order a power of 2
    unit = pow(next(z for z in range(2, p) if pow(z, half, p) != 1), odd, p)
    for i in range(twos - 2, -1, -1):
        s, rest = (s, rest) if pow(rest, 1 << i, p) == 1 else (s * unit % p, rest * unit * unit % p)
        unit = unit * unit % p
    return min(s, p - s)


# ---- Section 3: the map and its derivatives at the points ----
# the value of an entrywise instruction, and its derivative at x where the value is y; the others are (bi)linear
ENTRYWISE: dict[str, tuple[Any, Any]] = {
    "add": (lambda _, x, y: x + y, None),
    "mul": (lambda _, x, y: x * y, None),
    "neg": (lambda _, x: -x, None),
    "exp": (None, lambda _, __, y: y),
    "pow": (lambda p, x, k: pow(x, k, p), lambda p, x, _, k: k * pow(x, k - 1, p)),
    "sqrt": (lambda p, x: root(x, p), lambda p, _, y: pow(2 * y, -1, p)),
    "recip": (lambda p, x: pow(x, -1, p), lambda _, __, y: -y * y),
}


class Points:  # the points of a program mod p, and what it is there; the Jacobian is never formed as a whole
    def __init__(self, program: Program, program_digest: str, p: int, seed: int) -> None:
        self.program, self.p = program, p
        self.message = f"ffrank point 1\n{program_digest}\n{p}\n{seed}\n"
        self.movers: dict[int, Vector] = {}  # of instructions that only move entries, where they come from

    def theta(self, label: str = "0") -> Vector:
        return stream(self.message + label, self.p, self.program.P)

    def at(self, theta: Vector, label: str, redraws: Vector, nodes: Any = None, ws: Any = ()) -> tuple[Matrix, Any]:
        """Return the values of the nodes (or only of some), and their derivatives along vectors w; [] is zero."""
        program, p, base = self.program, self.p, self.message + label
        X = stream(f"{base}\n{redraws[0]}" if redraws[0] else base, p, program.n)
        sizes = [(f"{base}\nexp {e}\n{redraws[e]}", program.sizes[node]) for node, e in program.exponentials.items()]
        formal = list(chain(*(stream(message, p, size, 1) for message, size in sizes)))
        values, entries = self._by_node(theta + X), iter(formal)
        tangents = [[part if any(part) else [] for part in self._by_node(w + [0] * program.n)] for w in ws]
        for node in program.exponentials:
            values[node] = list(islice(entries, program.sizes[node]))
        for node in range(program.first, len(program.shapes)) if nodes is None else nodes:
            args = [values[a] for a in program.operands[node]]
            try:
                values[node] = values[node] or self._value(node, args)
            except ValueError:
                raise Invalid("a point is no point: a root or a reciprocal has no value there") from None
            for tangent in tangents:
                parts = [tangent[a] for a in program.operands[node]]
                tangent[node] = self._tangent(node, values[node], args, parts) if any(parts) else []
        return values, tangents

    def _by_node(self, entries: Vector) -> Matrix:
        ends = pairwise(accumulate(self.program.sizes[: self.program.first], initial=0))
        return [entries[i:j] for i, j in ends] + [[] for _ in self.program.shapes[self.program.first :]]

    def _value(self, node: int, args: Matrix) -> Vector:
        p, (op, *rest), shapes = self.p, self.program.made[node], self.program.shapes
        if op in ENTRYWISE:
            rule, more = ENTRYWISE[op][0], rest[len(args) :]
            return [rule(p, *xs, *more) % p for xs in zip(*args, strict=True)]
        if op in ("const", "reshape"):
            return args[0] if args else [x % p for x in rest[1]]
        if op == "matmul":
            (*lead, n, k), m, out = shapes[rest[0]], shapes[rest[1]][-1], Vector()
            for i in range(prod(lead)):
                rows = (args[0][start : start + k] for start in range(i * n * k, (i + 1) * n * k, k))
                columns = [args[1][i * k * m + j : (i + 1) * k * m : m] for j in range(m)]
                out += [sum(map(mul, row, column)) % p for row in rows for column in columns]
            return out
        if op == "sum":
            block, inner = (prod(shapes[rest[0]][axis:]) for axis in (rest[1], rest[1] + 1))
            blocks = (args[0][i : i + block] for i in range(0, len(args[0]), block))
            return [sum(entries[j::inner]) % p for entries in blocks for j in range(inner)]
        if op == "concat":
            parts = [(arg, prod(shapes[a][rest[0] :])) for arg, a in zip(args, rest[1:], strict=True)]
            outer = range(prod(shapes[node][: rest[0]]))
            return [x for o in outer for arg, n in parts for x in arg[o * n : (o + 1) * n]]
        if node not in self.movers:  # transpose, slice or broadcast: places are sums over what each axis adds
            shape, how = shapes[rest[0]], rest[1]
            axes = [[i * prod(shape[axis + 1 :]) for i in range(n)] for axis, n in enumerate(shape)]
            if op == "broadcast":
                axes = [[0]] * (len(how) - len(shape)) + axes
                axes = [axis if len(axis) == n else [0] * n for axis, n in zip(axes, how, strict=True)]
            else:
                pairs = zip(axes, how, strict=True)
                axes = [axis[slice(*x)] if op == "slice" else axes[x] for axis, x in pairs]
            self.movers[node] = reduce(lambda places, axis: [i + j for i in places for j in axis], axes, [0])
        return [args[0][i] for i in self.movers[node]]

    def _tangent(self, node: int, value: Vector, args: Matrix, parts: Matrix) -> Vector:
        p, (op, *rest) = self.p, self.program.made[node]
        if op in ("mul", "matmul"):  # the product rule
            (a, b), (da, db) = args, parts
            both = ([self._value(node, [da, b])] if da else []) + ([self._value(node, [a, db])] if db else [])
            return [sum(xs) % p for xs in zip(*both, strict=True)]
        full = [part or [0] * len(arg) for arg, part in zip(args, parts, strict=True)]
        if rule := ENTRYWISE.get(op, (None, None))[1]:
            slopes = (rule(p, x, y, *rest[1:]) for x, y in zip(args[0], value, strict=True))
            return [slope * dx % p for slope, dx in zip(slopes, full[0], strict=True)]
        return self._value(node, full)  # the other instructions are linear

    def products(self, rows: Sequence[int], directions: Sequence[Vector], redraws: Callable[[int], Vector]) -> Matrix:
        theta, m, out = self.theta(), self.program.m, [Vector() for _ in directions]  # rows of J times some vectors
        for i, group in groupby(rows, lambda row: row // m):
            tangents = self.at(theta, f"{i + 1}", redraws(i), None, directions)[1]
            entries = [row % m for row in group]
            for product, tangent in zip(out, tangents, strict=True):
                product += [(tangent[self.program.output] or [0] * m)[entry] for entry in entries]
        return out

    def redrawn(self, block: Sequence[Any], points: int, where: str) -> Callable[[int], Vector]:
        sources = 1 + len(self.program.exponentials)  # returns what gives the numbers of section 3.1 for each point
        good = not block or (any(map(any, block)) and len(block) == points and {len(x) for x in block} == {sources})
        _require(good, f"{where}: redraws: expected {points} lists of {sources} numbers, or nothing for zeros")
        return lambda i: block[i] if block else [0] * sources

    def check_exponents(self, exponents: Object, c: Object, full: bool) -> None:
        program, p, redraws = self.program, self.p, exponents["redraws"]
        operands, T = [program.operands[node][0] for node in program.exponentials], list[Vector]()
        good = (any(redraws) and len(redraws) == len(exponents["rows"])) or not redraws
        _require(good, "exponents: redraws: expected those of each row, or none")
        for position, i in enumerate(exponents["rows"]):
            theta = self.theta(f"exponents {i}")
            counts = self.redrawn(redraws[position] if redraws else [], 2, "exponents")
            both = (self.at(theta, f"exponents {i} {j}", counts(j - 1))[0] for j in (1, 2))
            z, other = ([x for node in operands for x in values[node]] for values in both)
            T.append([(x - y) % p for x, y in zip(z, other, strict=True)])
        shape = LARGEST, exponents["count"]
        check_witness("exponents", exponents, shape, lambda ws: [_apply(T, w, p) for w in ws], c, full)

    def check_roots(self, roots: list[Object]) -> None:  # characters of arguments, and 1, are independent
        program, theta = self.program, self.theta()
        for s, (stage, arguments) in enumerate(zip(roots, program.arguments, strict=True), 1):
            earlier = {x for stage in program.arguments[: s - 1] for x in stage}  # all their roots must exist
            needed = {x for x, made in enumerate(program.made) if made[:1] == ["sqrt"] and made[1] in earlier}
            where, needed, characters = f"roots of stage {s}", needed | set(arguments), list[Vector]()
            for node in range(len(program.shapes) - 1, -1, -1):
                needed.update(program.operands[node] if node in needed and node not in program.exponentials else ())
            nodes = [node for node in range(program.first, len(program.shapes)) if node in needed]
            redraws = self.redrawn(stage["redraws"], stage["count"] + 1, where)
            for position, i in enumerate(stage["rows"]):
                values, _ = self.at(theta, f"roots {s} {i}", redraws(position), nodes)
                entries = [x for node in arguments for x in values[node]]
                _require(all(entries), f"{where}: an argument is 0 in row {i}")
                characters.append([1, *(int(pow(x, (self.p - 1) // 2, self.p) != 1) for x in entries)])
            _require(rank(characters, 2, position + 2) > position, f"{where}: the characters are dependent over F_2")


# ---- Section 4: witnesses ----
def _check_pivots(where: str, block: Object, limits: tuple[int, int], solutions: Sequence[str], p: int) -> int:
    r, k = len(block["rows"]), next(k for k in range(1, 121) if p**k >= 2**120)
    _require(len(block["columns"]) == r, f"{where}: {r} rows, but {len(block['columns'])} columns")
    pairs = chain(*(pairwise([*block[x], limit]) for x, limit in zip(("rows", "columns"), limits, strict=True)))
    _require(all(i < j for i, j in pairs), f"{where}: rows or columns do not increase, or are out of range")
    for witness in (block[name] for name in solutions):
        _require(len(witness) == k, f"{where}: {len(witness)} solutions, but there are {k} challenges")
        good = all(len(w) == r and max(w, default=0) < p for w in witness)
        _require(good, f"{where}: a solution is not {r} numbers less than the prime")
    return k


def check_witness(purpose: str, block: Object, shape: Any, times: Any, c: Object, full: bool) -> None:
    rows, columns, p = block["rows"], block["columns"], c["prime"]  # `times` gives T[rows, :] times some vectors
    k = _check_pivots(f"{purpose} witness", block, shape, ["witness"], p)
    claim = {"claim": purpose, "program": c["program_digest"], "prime": p, "seed": c["seed"]}
    claim |= {"inputs": block.get("inputs", 0), "rows": rows, "columns": columns}
    claim |= {"redraws": block["redraws"]} if block.get("redraws") else {}
    message = f"ffrank challenge 1\n{digest(claim)}\n"
    targets = [stream(f"{message}{j}", p, len(rows)) for j in range(k)]

    entries = [dict(zip(columns, w, strict=True)) for w in block["witness"]]
    solved = times([[entry.get(j, 0) for j in range(shape[1])] for entry in entries]) == targets
    _require(solved, f"{purpose} witness: a challenge is not met, so the minor is not proven regular")
    if full:
        minor = times([[int(i == j) for i in range(shape[1])] for j in columns])
        _require(rank(minor, p, len(rows)) == len(rows), f"{purpose} witness: the minor is singular")


# ---- Section 6: symmetry generators ----
Key = Any  # the name of a parameter, or a function of the weights that gives a matrix
Action = tuple[str, int, tuple[Key, ...]]  # (W, c, factors): dW += c · their product; X is ξ, and XT is ξᵀ
Block = tuple[str, int, int, list[Action]]  # a matrix ξ and what it does: full n×m, or n×n: skew, centred, diagonal
DIMENSIONS: dict[str, Callable[[int, int], int]] = {"full": lambda n, m: n * m, "skew": lambda n, _: n * (n - 1) // 2}
DIMENSIONS |= {"diagonal": lambda n, _: n, "centred": lambda n, _: (n - 1) * (n - 2) // 2}
Reach = tuple[int, Key] | None  # a number of columns and the matrix, or all directions
X, XT = "ξ", "ξᵀ"


class Weights(dict[Key, Matrix]):  # the parameters as matrices, biases as columns; what is made of them is kept
    p: int

    def __missing__(self, key: Key) -> Matrix:
        self[key] = key(self)
        return self[key]

    def product(self, factors: Iterable[Any]) -> Matrix:  # of matrices, diagonals (tuples) and numbers (1×1)
        def times(A: Any, B: Any) -> Matrix:
            if isinstance(B, tuple):  # a diagonal behind a matrix
                return [[c * x % self.p for c, x in zip(B, row, strict=True)] for row in A]
            if isinstance(A, tuple) or len(A) == len(A[0]) == 1:
                scales = A if isinstance(A, tuple) else A[0] * len(B)
                return [[c * x % self.p for x in row] for c, row in zip(scales, B, strict=True)]
            columns = _flip(B)
            return [_apply(columns, row, self.p) for row in A]

        first, *rest = factors
        return reduce(times, rest, first)


class Symmetries:  # all families of generators of an architecture: the columns of T
    def __init__(self, spec: Object, program: Program) -> None:
        self.spec, self.k, self.families = spec, spec["power"], list[tuple[Object, list[Block]]]()
        self.sizes = {name: (*shape, 1)[:2] for name, shape in program.parameters}
        (self._mlp if spec["kind"] == "mlp" else self._attention)()

    def _add(self, rule: str, layer: int, head: int | None, *blocks: Block) -> None:
        kept = [(kind, n, m, [x for x in actions if x[0] in self.sizes]) for kind, n, m, actions in blocks]
        kept = [block for block in kept if block[3]]  # what would be done to parameters that there are not is left out
        if dimension := sum(DIMENSIONS[kind](n, m) for kind, n, m, _ in kept):
            self.families.append((dict(zip(FAMILY, (rule, layer, head, dimension), strict=True)), kept))

    def _each(self, rule: str, layer: int, head: int | None, names: Iterable[str], *right: Key, m: int = 0) -> None:
        sizes = {W: self.sizes[W] for W in names if W in self.sizes}  # dW = ξ · right for each, ξ of m or W's columns
        self._add(rule, layer, head, *(("full", n, m or c, [(W, 1, (X, *right))]) for W, (n, c) in sizes.items()))

    def _left(self, *names: str) -> list[Action]:
        return [(W, 1, (X, W)) for W in names]

    def _right(self, *names: str, c: int = -1) -> list[Action]:
        return [(W, c, (W, X)) for W in names]

    def _chain(self, *keys: Key) -> Key:
        return lambda W: W.product(W[key] for key in keys)

    def _ones(self, n: int, m: int) -> Key:
        return lambda _: [[1] * m] * n

    def _neurons(self, rule: str, i: int, n: int, incoming: list[str], outgoing: str) -> None:
        if self.k:
            rule, kind = ("neuron-scaling", "diagonal") if self.k > 1 else (rule, "full")
            self._add(rule, i, None, (kind, n, n, self._left(*incoming) + self._right(outgoing, c=-self.k)))

    def _mlp(self) -> None:
        for i, n in enumerate(self.spec["widths"][1:-1], 1):
            W, b, W_next, b_next = (f"layer{j}.{x}" for j in (i, i + 1) for x in "Wb")
            self._neurons("layer-basis", i, n, [W, b], W_next)
            if self.k == 1:
                self._add("translation", i, None, ("full", n, 1, [(b, 1, (X,)), (b_next, -1, (W_next, X))]))

    def _attention(self) -> None:
        spec, d, norm, last = self.spec, self.spec["widths"], self.spec["norm"], len(self.spec["widths"]) - 1
        v, w, H, bias, t = (spec[key] for key in ("value_dim", "mlp_width", "heads", "qk_bias", "tokens"))
        everywhere = spec["residual"] or norm == "layer"  # the reach
        passes = spec["score"] != "softmax" and norm == "none" and not everywhere and (w is None or self.k > 0)
        rank_one, R = t == 1 or (d[0] == 1 and not bias), None
        for i, a in enumerate(spec["attention_dims"], 1):
            W1, W2, heads = f"layer{i}.W1", f"layer{i}.W2", [f"layer{i}.head{h}." for h in range(1, H + 1)]
            for h, head in enumerate(heads, 1):
                self._head(i, h, head, rank_one)
            if spec["score"] == "lightning" and v is None and not bias and a >= d[i - 1]:
                pairs = ((h, j) for h in heads for j in heads if j != h)
                self._add("head-mixing", i, None, *(("full", 1, 1, self._mixing(h, j)) for h, j in pairs))
            if norm == "layer":
                self._each("layer-norm-input", i, None, [W1], self._ones(1, d[i]), m=1)
            incoming = [head + x for head in heads for x in "VO"]
            R = None if everywhere else self._behind_heads(i, heads, R)
            if w is not None:
                self._hidden("attention", i, R, incoming, [W1])
                self._neurons("neuron-basis", i, w, [W1], W2)
                narrow = (w, W2) if w < d[i] and not everywhere else None
                linear = self.k == 1 and R is not None and R[0] < min(w, d[i])
                R, incoming = (R[0], self._chain(W2, W1, R[1])) if R and linear else narrow, [W2]
            if i < last:
                after = [f"layer{i + 1}.head{h}.{x}" for h in range(1, H + 1) for x in "QKVU"]
                self._hidden("layer", i, R, incoming, after)
            rank_one = rank_one or w == 1 or (H == 1 and (v == 1 or (not spec["causal"] and a == 1)))
            rank_one = t == 1 or (not bias and (d[i] == 1 or (passes and rank_one)))

    def _head(self, i: int, h: int, head: str, rank_one: bool) -> None:
        spec, left, v, a = self.spec, self._left, self.spec["value_dim"], self.spec["attention_dims"][i - 1]
        Q, b_q, K, b_k, V, U, O = (head + x for x in ("Q", "b_q", "K", "b_k", "V", "U", "O"))  # noqa: E741
        score = spec["score"]
        if score != "lightning" and (spec["tokens"] == 1 or (score == "normalized" and rank_one)):
            self._each("unseen-scores", i, h, [Q, K, b_q, b_k])
            score = "unseen"
        elif rank_one:
            F = "full", a, a, [*left(K, b_k), (Q, -1, (XT, Q)), (b_q, -1, (XT, b_q))]
            G, H = [(K, 1, (X, Q)), (b_k, 1, (X, b_q))], [(Q, 1, (X, K)), (b_q, 1, (X, b_k))]
            self._add("split-orthogonal", i, h, F, ("skew", a, a, G), ("skew", a, a, H))
        else:
            E = [*left(Q, b_q), (K, -1, (XT, K)), (b_k, -1, (XT, b_k))]
            self._add("general-linear", i, h, ("full", a, a, E))
        if score == "lightning":
            self._add("rescaling", i, h, ("full", 1, 1, [*left(Q, b_q), (V, -1, (X, V)), (O, -1, (X, O))]))
        elif score == "normalized":
            self._add("score-scaling", i, h, ("full", 1, 1, left(Q, b_q)))
        elif score == "softmax":
            self._each("key-bias", i, h, [b_k])
        self._add("value-basis", i, h, ("full", v, v, left(U) + self._right(O)))
        if spec["norm"] == "layer":
            self._each("layer-norm-input", i, h, [Q, K, V, U], self._ones(1, spec["widths"][i - 1]), m=1)

    def _mixing(self, h: str, j: str) -> list[Action]:  # V_h += c V_j, Q_j −= c K_j (K_jᵀ K_j)^−1 K_hᵀ Q_h; or 0
        def middle(W: Weights) -> Matrix:
            K = W[j + "K"]
            return inverse(W.product([_flip(K), K]), W.p) or [[0] * len(K[0])] * len(K[0])

        def V(W: Weights) -> Matrix:
            return W[j + "V"] if any(W[middle][0]) else [[0] * len(row) for row in W[j + "V"]]

        Q = self._chain(j + "K", middle, lambda W: _flip(W[h + "K"]), h + "Q")
        return [(h + "V", 1, (X, V)), (j + "Q", -1, (X, Q))]

    def _behind_heads(self, i: int, heads: list[str], R: Reach) -> Reach:
        v, (columns, right) = self.spec["value_dim"], (R[0], [R[1]]) if R else (self.spec["widths"][i - 1], [])
        letters = "V" if v is None else "O" if v <= columns else "OU"
        columns, right = (v, []) if letters == "O" else (columns, right)
        blocks, width = [self._chain(*(head + x for x in letters), *right) for head in heads], len(heads) * columns
        beside: Key = lambda W: [list(chain(*rows)) for rows in zip(*(W[x] for x in blocks), strict=True)]  # noqa: E731
        return (width, beside) if width < self.spec["widths"][i] else None

    def _hidden(self, prefix: str, i: int, R: Reach, incoming: list[str], outgoing: list[str]) -> None:
        n, norm, left = self.spec["widths"][i], self.spec["norm"], self._left(*incoming)
        if self.spec["residual"]:
            return
        kind, rule = {"none": ("full", "basis"), "rms": ("skew", "rotation"), "layer": ("centred", "rotation")}[norm]
        self._add(f"{prefix}-{rule}", i, None, (kind, n, n, left + self._right(*outgoing)))
        if norm != "none":
            self._add(f"{prefix}-norm-scaling", i, None, ("full", 1, 1, left))
        if norm == "layer":
            columns, one = ((B, self.sizes[B][1]) for B in incoming if B in self.sizes), self._ones(n, 1)
            self._add(f"{prefix}-mean", i, None, *(("full", m, 1, [(B, 1, (one, XT))]) for B, m in columns))
        if R:
            self._each(f"{prefix}-unreached", i, None, outgoing, self._vanishing(n, *R), m=n - R[0])

    def _vanishing(self, n: int, c: int, R: Key) -> Key:  # the forms ν, (n − c)×n, that vanish on R, or 0
        def nu(W: Weights) -> Matrix:
            top = inverse(W[R][:c], W.p)
            left, one = W.product([W[R][c:], top or [[0] * c] * c]), int(top is not None)
            return [[-x for x in row] + [one * (i == j) for j in range(n - c)] for i, row in enumerate(left)]

        return nu

    def _matrix(self, kind: str, n: int, m: int, xi: Vector) -> Any:  # ξ: its rows, or the tuple of a diagonal
        if kind in ("full", "diagonal"):
            return tuple(xi) if kind == "diagonal" else [xi[i : i + m] for i in range(0, len(xi), m)]
        n -= kind == "centred"
        entry = dict(zip(((x, y) for x in range(n) for y in range(x + 1, n)), xi, strict=True))
        S = [[entry.get((x, y), -entry.get((y, x), 0)) for y in range(n)] for x in range(n)]
        for _ in range(2 if kind == "centred" else 0):  # multiply by the u_x from the left, then from the right
            S = [[x - y for x, y in zip([*column, 0], [0, *column], strict=True)] for column in _flip(S)]
        return S

    def combination(self, W: Weights, xi: Vector) -> Vector:  # T ξ
        total, start = {name: [0] * n * m for name, (n, m) in self.sizes.items()}, 0
        for kind, n, m, actions in chain(*(blocks for _, blocks in self.families)):
            part = xi[start : start + DIMENSIONS[kind](n, m)]
            start += len(part)
            for name, c, keys in actions if any(part) else ():
                matrix = self._matrix(kind, n, m, part)
                factors = (matrix if key == X else _flip(matrix) if key == XT else W[key] for key in keys)
                total[name] = [x + c * y for x, y in zip(total[name], chain(*W.product(factors)), strict=True)]
        return [x % W.p for x in chain(*total.values())]

    def check(self, points: Points, symmetry: Object, c: Object, full: bool) -> None:
        W, entries, count = Weights(), iter(points.theta()), sum(document["dimension"] for document, _ in self.families)
        W.p = points.p
        W.update({name: [list(islice(entries, m)) for _ in range(n)] for name, (n, m) in self.sizes.items()})

        def times(xis: Matrix) -> Matrix:
            tangents = (self.combination(W, xi) for xi in xis)
            return [[tangent[row] for row in symmetry["rows"]] for tangent in tangents]

        check_witness("symmetry", symmetry, (points.program.P, count), times, c, full)


# ---- Sections 7 and 8: the ambient space, and Monte Carlo ----
def growth(program: Program) -> list[Any]:  # of the output: lo and hi of section 7, then value and derivative:
    # the (n, d, u, v) of section 8.1, degrees and coefficients of a numerator and a denominator, or None for zero
    def both(A: Any, B: Any, k: int = 1) -> Any:
        return A and B and (A[0] + B[0], A[1] + B[1], A[2] + B[2] + bits(k), A[3] + B[3])

    def either(A: Any, B: Any, e: int) -> Any:
        if A is None or B is None:
            return A or B
        (n, d, u, v), (N, D, U, V) = A, B
        return max(n + D, N + d), d + D, max(u + V, U + v) + e, v + V

    one, flat, nodes = (1, 0, 0, 0), (0, 0, 0, 0), list[list[Any]]()
    nodes += [[0, 0, one, flat] for _ in program.parameters] + [[1, 1, one, None] for _ in program.inputs]
    for op, *rest in program.made[program.first :]:
        args = [nodes[a] for a in program.operands[len(nodes)]] or [[0, 0, flat, None]]
        lo, hi, value, slope = args[0]
        if op == "const":
            value = 0, 0, bits(max(1, *map(abs, rest[1]))), 0
        elif op in ("add", "concat"):
            for a, b, more, by in args[1:]:
                lo, hi, e = min(lo, a), max(hi, b), int(op == "add")
                value, slope = either(value, more, e), either(slope, by, e)
        elif op in ("mul", "matmul"):
            k, (a, b, other, by) = program.shapes[rest[0]][-1] if op == "matmul" else 1, args[1]
            slope = either(both(slope, other, k), both(value, by, k), 1)
            lo, hi, value = lo + a, hi + b, both(value, other, k)
        elif op == "sum":
            value, slope = (both(x, flat, program.shapes[rest[0]][rest[1]]) for x in (value, slope))
        elif op == "pow":
            k = rest[1]
            slope = both(both([(k - 1) * x for x in value], flat, k), slope)
            lo, hi, value = lo * k, hi * k, [k * x for x in value]
        elif op == "exp":
            value, slope = one, both(one, slope)
        elif op == "recip":
            (n, d, u, v), s = value, program.sizes[rest[0]]
            value = d + (s - 1) * n, s * n, v + (s - 1) * u, s * u
            slope = both([2 * x for x in value], slope)
        _well_formed(max(hi, *value, *(slope or one)) < MAX_DEGREE, "too much work: degrees are too large")
        nodes.append([lo, hi, value, slope])
    return nodes[program.output]


def _binomial(a: int, b: int) -> int | None:
    return comb(a, b) if min(b, a - b) <= 84 else None  # C(168, 84) has more than 25 digits


def ambient_degrees(program: Program) -> int | None:  # rule `degrees`, or None if it has more than 25 digits
    _require(program.polynomial, "ambient: rule degrees is only for programs without exp, sqrt and recip")
    (lo, hi, *_), n, m = growth(program), program.n, program.m
    if n and _binomial(n - 1 + hi, n - 1) is None:  # the monomials of degree hi alone are too many
        return None
    return m * (comb(n + hi, n) - (comb(n + lo - 1, n) if lo and n else 0))


def ambient_tokens(spec: Object) -> int:  # rule `tokens`: the coefficients of one layer, symmetric in two indices
    plain = (spec.get("score"), spec.get("norm"), spec.get("mlp_width"), len(spec["widths"]))
    _require(plain == ("lightning", "none", None, 2), "ambient: rule tokens is only for one plain lightning layer")
    (d, out), bias = spec["widths"], int(spec["qk_bias"])
    pairs = d * (d + 1) // 2
    return int(out * (comb(d + 2, 3) + bias * (pairs + d) if spec["tokens"] == 1 else (d + bias) * (pairs + bias * d)))


def composition(spec: Object) -> int:  # section 7.1: cut the network, and count functions and not parameters
    fits = spec["kind"] == "mlp" and spec["power"] >= 2 and len(spec["widths"]) <= 101
    _require(fits, "composition: only for the kind mlp with a power >= 2 and at most 100 layers")
    d, k, bias, U = spec["widths"], spec["power"], int(spec["bias"]), dict[tuple[int, int], int]()
    for i, j in ((i, i + span) for span in range(1, len(d)) for i in range(len(d) - span)):
        D, f = k ** (j - i - 1), d[i] - 1 + bias
        bounds = [(d[i] + bias) * d[j]] if j == i + 1 else [U[i, m] + U[m, j] - d[m] for m in range(i + 1, j)]
        bounds += [d[j] * comb(f + D, f)] if j > i + 1 and min(f, D) <= 64 else []
        bounds += [_symmetric(min(d[i], d[i + 1]), d[i])] if j == i + 2 and k == 2 and d[j] == 1 and not bias else []
        U[i, j] = min(bounds)
    return U[0, len(d) - 1]


def trials_needed(degree: int, norm_bits: int, asked: int) -> tuple[int, int]:  # least K with x^K <= 2^-e, e >= asked
    pool = 50697473  # the primes between 2^30 and 2^31, less the 64 that may have been used before
    numerator, denominator = (degree + 1) * pool + (norm_bits // 30) * 2**30, 2**30 * pool
    errors = ((K, (denominator**K // numerator**K).bit_length() - 1) for K in range(1, 65))
    found = next(((K, e) for K, e in errors if e >= asked), (0, 0))
    _require(found[0], "monte-carlo: 64 trials do not reach the error that the method asks for")
    return found


def check_monte_carlo(block: Object, c: Object, program: Program) -> None:  # all but the ranks of the trials
    r, asked = len(c["lower_bound"]["rows"]), c["method"]["error"]
    _require(asked is not None and not program.arguments, "monte-carlo: not asked for, or not for programs with sqrt")
    _, _, (deg, _, h, _), slope = growth(program)
    deg, _, h, _ = (max(deg - 1, 0), 0, h + bits(max(deg, 1)), 0) if program.polynomial else slope or (0, 0, 0, 0)
    degree, norm_bits, used = (r + 1) * deg, (r + 1) * (bits(r + 1) + h), [c["prime"]]  # of an (r+1)-minor
    K, e = trials_needed(degree, norm_bits, -asked)
    for j in range(1, K + 1):
        draws = words(f"ffrank trial 1\n{c['program_digest']}\n{c['seed']}\n{j}")
        used.append(next(q for x in draws if (q := x % 2**30 + 2**30) not in used and is_prime(q)))
    claims = {"value": r, "error": -e, "inputs": c["lower_bound"]["inputs"] + 1, "degree": degree}
    _compare(block, claims | {"norm_bits": norm_bits}, "monte-carlo")
    _require([trial["prime"] for trial in block["trials"]] == used[1:], "monte-carlo: the trials' primes are not those")
    good = all(trial["rank"] <= r for trial in block["trials"]) and block["theorem"]["value"] > r
    _require(good, f"monte-carlo: the rank of a trial, or the value of the theorem, is not as to {r}")


# ---- Section 9: the expected dimension ----
HMK = "Henry, Marchetti, Kohn: Geometry of Lightning Self-Attention (ICLR 2025)"
POLYNOMIAL = "Kileel, Trager, Bruna: On the Expressive Power of Deep Polynomial Neural Networks (NeurIPS 2019)"
KONDA = "; proof claimed by Konda (2026)"
RANK_TWO = "token matrices entering later layers have rank >= 2: min(delta, a_1, ..., a_{l-1}) >= 2"


def _formula(name: str, status: str, source: str, value: int, *hypotheses: tuple[str, bool]) -> Object:
    result = {"value": value, "formula": name, "status": status, "source": source}
    listed = [{"statement": statement, "holds": holds} for statement, holds in hypotheses]
    return result | {"hypotheses": listed, "holds": all(holds for _, holds in hypotheses)}


def _determinantal(rank: int, d: int) -> int:  # the dimension of the d×d matrices of at most a rank
    return 2 * min(rank, d) * d - min(rank, d) ** 2


def _symmetric(rank: int, d: int) -> int:  # and of the symmetric ones
    return rank * d - rank * (rank - 1) // 2


def expected_dimension(spec: Object, P: int) -> Object | None:  # the closed formula with its hypotheses, or None
    d = spec["widths"]
    if spec["kind"] == "mlp":
        degree = min(spec["power"] ** (len(d) - 2), P)  # more than P forms have the degree P, unless d_0 = 1
        value, forms = P - sum(d[1:-1]), _binomial(d[0] - 1 + degree, degree)
        value = value if forms is None else min(value, d[-1] * forms)
        formula = _formula("polynomial-network", "parameter count", POLYNOMIAL, value)
        return formula if spec["power"] > 1 and len(d) > 2 and not spec["bias"] else None
    a, t, H, v = (spec[key] for key in ("attention_dims", "tokens", "heads", "value_dim"))
    softmax, single, hidden, in_out = spec["score"] == "softmax", len(a) == 1, d[1:-1], d[0] + d[-1]
    plain = not any(spec[key] for key in ("causal", "residual", "qk_bias", "mlp_width")) and spec["norm"] == "none"
    if not plain or spec["score"] == "normalized" or (softmax and t == 1):
        return None
    scores = [_determinantal(rank, width) for rank, width in zip(a, d, strict=False)]
    if H > 1 or v is not None:
        inner = min(d[0], d[-1], v or d[0])  # the rank of O U, and matrices of rank min(d, d') are all matrices
        value, source = H * (scores[0] + in_out * inner - inner**2), "sum over heads"
        if not single or t == 1 or softmax:
            return _formula("multi-head-softmax", "parameter count", source, value) if single and softmax else None
        value, source = min(value - H, ambient_tokens(spec)), source + ", capped by the ambient space"
        return _formula("multi-head", "parameter count", source, value)
    if len(set(hidden)) <= 1:
        value = sum(scores) + (hidden[0] * in_out - hidden[0] ** 2 if hidden else d[0] * d[-1])
        narrow = [(f"hidden widths delta <= d_{x}", max(hidden, default=0) <= d[y]) for x, y in (("0", 0), ("l", -1))]
        if softmax:
            return _formula("softmax", "conjecture", HMK + KONDA, value, *([] if single else narrow))
        if single and t == 1:
            value = _symmetric(min(2 * a[0], d[0]), d[0]) + d[0] * d[1] - 1
            return _formula("single-layer-one-token", "theorem", "symmetric forms of bounded rank", value)
        if single:
            return _formula("single-layer", "theorem", HMK, value - 1, ("t >= 2", True))
        hypotheses = [*narrow, ("t >= 2", t >= 2), (RANK_TWO, min(hidden[0], *a[:-1]) >= 2)]
        return _formula("deep-bottleneck", "theorem", HMK, value - len(a), *hypotheses)
    value = d[0] * d[-1] - len(a)
    for i, x in enumerate(a):
        value += _determinantal(x, d[0]) if min(t, d[0], *a[:i]) >= 2 else _symmetric(min(2 * x, d[0]), d[0])
    formula = _formula("deep-wide", "conjecture", "ffrank, agreed with exact ranks on random architectures", value)
    return formula if min(hidden) >= d[0] and not softmax else None


# ---- Section 5: the whole certificate ----
SHAKE = "The SHAKE-256 challenges behave as random: a false rank witness passes with probability at most 2^-120."
TRIALS = "The trial primes and points drawn by SHAKE-256 behave as random: the upper bound fails with probability at"
AX = "J. Ax, On Schanuel's conjectures, Annals of Mathematics 93 (1971): exponentials of functions that are linearly"
AX += " independent over Q modulo constants are algebraically independent over the functions' field."


def check(certificate: Any, full: bool = False, max_work: int = MAX_WORK, matrix: bytes | None = None) -> Report:
    """
    Check a certificate, a file's bytes (gzip allowed), its text, or the object that it holds. Return what is proven.

    With `full` the ranks of minors and trials are computed as well. `matrix` is the content of a matrix's file. Raises
    `Invalid` if something is false or unproven; `Malformed` if it cannot be read, or takes more than `max_work`.
    """
    c = read(certificate)
    if type(c) is dict and c.get("schema") in list(RANKS):
        return check_rank(c, full, max_work, matrix)
    p = sealed(c, CERTIFICATE | {"program" if type(c) is dict and "program" in c else "architecture": dict})
    spec = architecture(c["architecture"]) if "architecture" in c else None
    program = Program(max_work).build(spec) if spec else Program(max_work).user(c["program"])
    upper, lower = c["upper_bound"], c["lower_bound"]
    _require(c["program_digest"] == digest(program.document()), "the program digest is not that of the map")
    theorem = upper["theorem"] if upper["kind"] == "monte-carlo" else upper
    exponents, roots = check_hypotheses(c, program)
    check_claims(c, spec, program, theorem)
    trials = upper["trials"] if full and upper["kind"] == "monte-carlo" else []
    r, s, k, P = len(lower["rows"]), len(exponents.get("rows", ())), 120 // (p.bit_length() - 1) + 1, program.P
    points = len({row // program.m for row in lower["rows"]}) * (1 + 2 * k + 2 * r * full) + 2 * s
    points += sum(stage["count"] + 1 for stage in roots) + sum(upper["inputs"] * (1 + 2 * P) for _ in trials)
    work = points * program.once + sum(stage["count"] ** 3 for stage in roots) + s * s * (k + s * full) + r**3 * full
    symmetries = Symmetries(spec, program) if spec and theorem["kind"] == "symmetry" else None
    if spec and symmetries:
        documents, s = [document for document, _ in symmetries.families], len(theorem["rows"])
        _compare(theorem, {"generators": documents}, "symmetry")
        mixing = max(spec["widths"]) * any(x["rule"] == "head-mixing" for x in documents)
        work += (k + s * full) * sum(2 * (isqrt(x["dimension"]) + mixing + 1) * P for x in documents) + s**3 * full
    _afford(work, max_work)

    here = Points(program, c["program_digest"], p, c["seed"])
    redraws = here.redrawn(lower["redraws"], lower["inputs"], "lower_bound")
    check_witness("lower", lower, (LARGEST, P), lambda ws: here.products(lower["rows"], ws, redraws), c, full)
    if exponents:
        here.check_exponents(exponents, c, full)
    here.check_roots(roots)
    if symmetries:
        symmetries.check(here, theorem, c, full)
    units = [[int(i == j) for j in range(P)] for i in range(P)] if trials else []
    for q, claimed in ((trial["prime"], trial["rank"]) for trial in trials):
        there = Points(program, c["program_digest"], q, c["seed"])
        columns = there.products(range(program.m * upper["inputs"]), units, there.redrawn([], 0, "trials"))
        _require(rank(columns, q, r + 1) == claimed, f"monte-carlo: the trial with the prime {q} has another rank")
    return _report(c, theorem, full)


def check_hypotheses(c: Object, program: Program) -> tuple[Object, list[Object]]:  # all but what is independent
    exponents, roots = c["hypotheses"]["exponents"], c["hypotheses"]["roots"]
    _require(not program.constant, "an exp or sqrt depends on no input: there is no certificate")
    M = sum(program.sizes[node] for node in program.exponentials)
    counts = [sum(program.sizes[node] for node in stage) for stage in program.arguments]
    given = (exponents is not None, None if roots is None else [stage["count"] for stage in roots])
    _require(given == (M > 0, counts or None), "hypotheses: not the exponents or roots of the map")
    for rows, count in ((stage["rows"], stage["count"]) for stage in roots or ()):
        good = len(rows) == count + 1 and all(i < j for i, j in pairwise(rows))
        _require(good, f"roots: expected {count + 1} increasing rows")
    if exponents is not None:
        fit(exponents, EXPONENTS, "exponents")
        good = exponents["count"] == M and exponents["columns"] == list(range(M))
        _require(good, "exponents: not all of them are there")
    return exponents or {}, roots or []


def check_claims(c: Object, spec: Object | None, program: Program, theorem: Object) -> None:
    rows, upper, exponents = c["lower_bound"]["rows"], c["upper_bound"], c["hypotheses"]["exponents"]
    r, monte_carlo = len(rows), upper["kind"] == "monte-carlo"  # all that follows from other fields is checked here
    _compare(c["lower_bound"], {"inputs": rows[-1] // program.m + 1 if rows else 0}, "lower_bound")
    bounds: dict[str, Callable[[Any], int | None]] = {"parameters": lambda _: program.P, "composition": composition}
    bounds |= {"symmetry": lambda _: program.P - len(theorem["rows"]), "tokens": ambient_tokens}
    bounds["degrees"] = lambda _: ambient_degrees(program)
    kind = str(theorem.get("rule", theorem["kind"]))
    _require(spec or kind in ("parameters", "degrees"), f"{kind}: not for a user's own program")
    _compare(theorem, {"value": bounds[kind](spec)}, f"upper_bound: {kind}")
    if monte_carlo:
        check_monte_carlo(upper, c, program)
    _require(r <= upper["value"], "the lower bound is larger than the upper bound")
    exact, error = upper["value"] == r, upper["error"] if monte_carlo else None
    status = ("exact-with-probability" if monte_carlo else "exact") if exact else "bounds"
    dimension = {"lower": r, "upper": upper["value"], "value": r if exact else None, "status": status, "error": error}
    _compare(c["dimension"], dimension, "dimension")
    expected = expected_dimension(spec, program.P) if spec else None
    assumptions = [SHAKE] + [f"{TRIALS} most 2^{error}."] * monte_carlo + [AX] * bool(exponents)
    claims = {"parameters": program.P, "expected": expected, "assumptions": assumptions}
    _compare(c, claims | {"defect": expected["value"] - r if expected and exact else None}, "certificate")


def _report(c: Object, theorem: Object, full: bool) -> Report:  # in words what was verified and what was taken on trust
    upper, hypotheses, p, kind = c["upper_bound"], c["hypotheses"], c["prime"], theorem["kind"]
    lower, most, value, status, error = (c["dimension"][key] for key in DIMENSION)
    subject = "architecture" if "architecture" in c else "program"
    how = "witness and elimination" if full else "witness"
    said = [f"map, points and challenges are those of the {subject}, the prime {p} (it is one), the seed {c['seed']}"]
    said += [f"the dimension is at least {lower}: a minor of that size of the Jacobian is regular mod {p}, by {how}"]
    rule = f"{len(theorem['rows'])} symmetries, by {how}" if kind == "symmetry" else f"rule {theorem.get('rule', kind)}"
    said += [f"the dimension is at most {theorem['value']}: {rule}"]
    if hypotheses["exponents"]:
        said += [f"{len(hypotheses['exponents']['rows'])} exponents of an input are independent, by {how}"]
    text = "the {} arguments of roots of stage {} are independent modulo constants and squares"
    said += [text.format(stage["count"], s) for s, stage in enumerate(hypotheses["roots"] or (), 1)]
    trusted = [x for x in c["assumptions"] if not (full and x == SHAKE)]
    if upper["kind"] == "monte-carlo":
        said += [f"primes, number, degree and coefficients of the trials give the error 2^{error}"]
        ranks = f"the ranks of the {len(upper['trials'])} Monte-Carlo trials, at most {lower}"
        (said if full else trusted).append(ranks + (", were computed" if full else " (--full computes them)"))
    value, error = f"between {lower} and {most}" if value is None else value, f", error 2^{error}" if error else ""
    summary = f"dimension {value} ({status}{error}), {c['parameters']} parameters"
    return Report(summary, c["parameters"], c["dimension"], tuple(said), tuple(trusted))


# ---- Section 10: the rank of a given matrix ----
def read_matrix(source: bytes, max_work: int) -> tuple[Matrix, int]:  # the entries, and the number of columns
    lines = [line for line in (line.replace(b",", b" ").split() for line in source.splitlines()) if line]
    sparse = len(lines) > 1 and lines[0][2:] == [b"M"]
    try:
        rows: list[Any] = [[Fraction(x.decode()) if b"/" in x else int(x) for x in line] for line in lines[sparse:]]
        m, n = map(int, lines[0][:2]) if sparse else (len(rows), len(rows[0]) if rows else 0)
        entries = {(i, j): x for i, j, x in rows[:-1]} if sparse else {}
    except (ValueError, ZeroDivisionError):
        expected = "expected CSV or SMS: integers or fractions a/b of up to 4300 digits, no header line"
        raise Malformed(f"the matrix: {expected}") from None
    _afford(m * n * ENTRY_WORK, max_work)
    if sparse:
        good = rows.pop() == [0, 0, 0] and len(entries) == len(rows) and m >= 0 <= n
        good = good and all(i in range(1, m + 1) and j in range(1, n + 1) for i, j in entries)
        _well_formed(good, "the matrix: expected m n M, lines i j value with all places different, 0 0 0")
        rows = [[entries.get((i, j), 0) for j in range(1, n + 1)] for i in range(1, m + 1)]
    _well_formed(all(len(row) == n for row in rows), "the matrix: its rows have different lengths")
    return rows, n


def check_rank(c: Object, full: bool, max_work: int, source: bytes | None) -> Report:
    p, over_q = sealed(c, RANKS[c["schema"]]), c["schema"] == OVER_Q
    _well_formed(source is not None, "a certificate of a matrix's rank is checked with the matrix: --matrix FILE")
    given, n = read_matrix(source or b"", max_work)
    m, r, field = len(given), len(c["rows"]), "over Q" if over_q else f"mod {p}"
    _well_formed(all(x.denominator % p for row in given for x in row), f"the matrix: {p} divides a denominator")
    A = [[x % p if type(x) is int else x.numerator * pow(x.denominator, -1, p) % p for x in row] for row in given]
    text = "".join(" ".join(map(str, row)) + "\n" for row in [[m, n], *given]) if over_q else ""
    entries = text.encode() or struct.pack("<3Q", m, n, p) + b"".join(struct.pack(f"<{n}Q", *row) for row in A)
    _compare(c, {"shape": [m, n], "matrix": hashlib.sha256(entries).hexdigest(), "rank": r}, "certificate")
    k = _check_pivots("rank", c, (m, n), ["lower"] if over_q else ["lower", "upper"], p)
    _afford(m * (n + r) * (k + r * full), max_work)
    claim = digest({"claim": "rank"} | {key: c[key] for key in ("matrix", "prime", "shape", "rows", "columns")})
    columns = [[row[j] for j in c["columns"]] for row in A]
    minor = [columns[i] for i in c["rows"]]
    for j, w in enumerate(c["lower"]):
        solved = _apply(minor, w, p) == stream(f"ffrank rank lower 1\n{claim}\n{j}", p, r)
        _require(solved, "lower witness: a challenge is not met, so the minor is not proven regular")
    for j, u in enumerate(c.get("upper", ())):
        spanned = _apply(columns, u, p) == _apply(A, stream(f"ffrank rank upper 1\n{claim}\n{j}", p, n), p)
        _require(spanned, "upper witness: the columns of the pivots are not proven to span all")
    _require(not full or rank(minor if over_q else A, p, r + 1) == rank(minor, p, r) == r, f"the rank is not {r}")
    if over_q:
        _check_relations(c, *((_flip(given), c["rows"]) if m < n else (given, c["columns"])), max_work)
    said = f"the matrix is that of the certificate, {m} x {n}", f"its rank {field} is {r}; {p} is prime"
    dimension = dict(zip(DIMENSION, (r, r, r, "exact", None), strict=True))
    return Report(f"rank {r} of a {m} x {n} matrix {field}", None, dimension, said, () if full else (SHAKE,))


def _check_relations(c: Object, A: Matrix, pivots: Vector, max_work: int) -> None:  # so that the rank over Q is <= r
    relations, lines, r = c["relations"], sorted(set(range(min(c["shape"]))) - set(pivots)), len(pivots)
    good = len(relations) == len(lines) and all(len(relation) == r + 1 for relation in relations)
    _well_formed(good, f"relations: expected {len(lines)} of {r + 1} coefficients")
    _well_formed(
        all(fullmatch("-?[0-9a-f]+", x) for x in chain(*relations)), "relations: expected hexadecimal integers"
    )
    _afford((1 + max(map(len, chain(*relations)), default=0) // 16) * len(A) * (r + 1) * len(lines), max_work)
    for j, (scale, *combination) in zip(lines, ([int(x, 16) for x in relation] for relation in relations), strict=True):
        holds = all(sum(map(mul, combination, (row[i] for i in pivots))) == scale * row[j] for row in A)
        _require(scale and holds, f"relations: the one for row or column {j} does not hold")


# ---- Command line ----
def _check_file(path: str, options: argparse.Namespace) -> Object:
    result: Object = {"file": path, "verdict": "valid", "reason": None, **dict.fromkeys(Report.__annotations__)}
    try:
        with open(path, "rb") as file, open(options.matrix or path, "rb") as other:  # noqa: PTH123
            matrix = other.read() if options.matrix else None
            return result | check(file.read(MAX_BYTES + 1), options.full, options.max_work, matrix)._asdict()
    except (Invalid, Malformed, OSError, MemoryError, ValueError) as error:
        result |= {"verdict": "invalid" if isinstance(error, Invalid) else "malformed", "verified": (), "trusted": ()}
        return result | {"reason": str(error) or type(error).__name__}


def main(arguments: list[str] | None = None) -> int:
    """Check files and return the worst exit status of all."""
    parser = argparse.ArgumentParser(prog="checker.py", description="Check certificates of ffrank.", allow_abbrev=False)
    parser.add_argument("files", nargs="+", metavar="CERT", help="a certificate, .json or .json.gz")
    parser.add_argument("--full", action="store_true", help="compute the ranks of minors and Monte-Carlo trials too")
    parser.add_argument("--json", action="store_true", help="print a JSON list with one object a file")
    parser.add_argument("--max-work", type=int, default=MAX_WORK, metavar="N", help="allow N multiplications")
    parser.add_argument("--matrix", metavar="FILE", help="the matrix of a certificate of rank, CSV or SMS")
    options = parser.parse_args(arguments)
    results = [_check_file(path, options) for path in options.files]
    for result in [] if options.json else results:
        lines = [f"{result['file']}: {result['verdict']}: {result['reason'] or result['summary']}"]
        lines += [f"  verified: {x}" for x in result["verified"]] + [f"  on trust: {x}" for x in result["trusted"]]
        text = "\n".join([*lines, ""]).encode("ascii", "backslashreplace").decode()
        (sys.stdout if result["verdict"] == "valid" else sys.stderr).write(text)
    sys.stdout.write(json.dumps(results, indent=2) + "\n" if options.json else "")
    return max(("valid", "invalid", "malformed").index(result["verdict"]) for result in results)


if __name__ == "__main__":
    sys.exit(main())
