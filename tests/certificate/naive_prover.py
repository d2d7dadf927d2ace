"""A slow, simple prover of certificates, written from FORMAT.md alone: the twin of the real one.

Tensors are dictionaries from index tuples to `Dual` numbers (a value and its whole gradient mod p), matrices are lists
of rows, and nothing is clever. Same subject, prime, seed and error: the same bytes as the real prover.
"""

import functools
import hashlib
import itertools
import json
import math
import operator
from fractions import Fraction

MC_POOL = 50697473
ATTEMPTS = 16384  # redraws of a point


class NoCertificateError(Exception):
    pass


class NoValueError(Exception):
    """An instruction (its node is the argument) has no value at a point."""


# -- conventions


def canonical(x):
    return json.dumps(x, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(x):
    return hashlib.sha256(canonical(x).encode("utf-8")).hexdigest()


def bits(x):
    return 0 if x == 0 else next(b for b in itertools.count() if 2**b >= x)


def words(message):
    """The 8-byte words of SHAKE-256, for ever."""
    size = 1024
    done = 0
    while True:
        data = hashlib.shake_256(message.encode("utf-8")).digest(size)
        while done < size:
            yield int.from_bytes(data[done : done + 8], "little")
            done += 8
        size *= 4


def stream(message, p, count):
    low = 2 ** p.bit_length()
    return list(itertools.islice((w % low for w in words(message) if w % low < p), count))


def is_prime(n):
    return n > 1 and all(n % q for q in range(2, math.isqrt(n) + 1))


# -- matrices mod p


def independent(rows, p):
    """Indices of the rows that are independent of all rows before them."""
    basis, found = [], []
    for index, row in enumerate(rows):
        if extend(basis, row, p):
            found.append(index)
    return found


def extend(basis, row, p):
    """Add a row to an echelon basis; say whether it was new."""
    row = [x % p for x in row]
    for lead, other in basis:
        if row[lead]:
            factor = row[lead]
            row = [(x - factor * y) % p for x, y in zip(row, other, strict=True)]
    for lead, x in enumerate(row):
        if x:
            inverse = pow(x, -1, p)
            basis.append((lead, [inverse * y % p for y in row]))
            return True
    return False


def transposed(rows):
    return [list(column) for column in zip(*rows, strict=True)]


def solve(A, b, p):
    """The solution of A w = b for a regular square matrix."""
    n = len(A)
    M = [[x % p for x in row] + [y] for row, y in zip(A, b, strict=True)]
    for j in range(n):
        i = next(i for i in range(j, n) if M[i][j])
        M[i], M[j] = M[j], M[i]
        inverse = pow(M[j][j], -1, p)
        M[j] = [inverse * x % p for x in M[j]]
        for i in range(n):
            if i != j and M[i][j]:
                factor = M[i][j]
                M[i] = [(x - factor * y) % p for x, y in zip(M[i], M[j], strict=True)]
    return [row[n] for row in M]


# -- programs of architectures


class Tape:
    def __init__(self):
        self.parameters, self.inputs, self.instructions = [], [], []

    def parameter(self, name, shape):
        self.parameters.append([name, shape])
        return ("parameter", len(self.parameters) - 1)

    def put(self, *instruction):
        self.instructions.append(list(instruction))
        return ("instruction", len(self.instructions) - 1)

    def program(self, output):
        def number(x):
            if isinstance(x, tuple):
                kind, index = x
                before = {"parameter": 0, "input": len(self.parameters)}
                return index + before.get(kind, len(self.parameters) + len(self.inputs))
            return x

        return {
            "format": "ffrank-program/1",
            "parameters": self.parameters,
            "inputs": self.inputs,
            "instructions": [[number(x) for x in instruction] for instruction in self.instructions],
            "output": number(output),
        }


def power(spec):
    names = {"identity": 1, "square": 2, "cube": 3, "tanh": 0, "sigmoid": 0, "silu": 0}
    return names[spec["activation"]] if isinstance(spec["activation"], str) else spec["activation"]["power"]


def full_spec(spec):
    """Fill in the defaults of a short spec."""
    if spec["kind"] == "mlp":
        return {"activation": "identity", "bias": False} | spec
    defaults = {
        "score": "lightning",
        "heads": 1,
        "value_dim": None,
        "causal": False,
        "residual": False,
        "norm": "none",
        "mlp_width": None,
        "activation": "square",
        "qk_bias": False,
    }
    return defaults | spec


def program_of(spec):
    return mlp_program(spec) if spec["kind"] == "mlp" else attention_program(spec)


def constant(tape, value, shape):
    return tape.put("broadcast", tape.put("const", [], [value]), shape)


def activated(tape, spec, x, shape):
    name = spec["activation"]
    if power(spec) == 1:
        return x
    if power(spec) > 1:
        return tape.put("pow", x, power(spec))
    if name == "tanh":
        e = tape.put("exp", tape.put("add", x, x))
        one = constant(tape, 1, shape)
        r = tape.put("recip", tape.put("add", one, e))
        one = constant(tape, 1, shape)
        two = constant(tape, -2, shape)
        return tape.put("add", one, tape.put("mul", two, r))
    e = tape.put("exp", tape.put("neg", x))
    one = constant(tape, 1, shape)
    r = tape.put("recip", tape.put("add", one, e))
    return r if name == "sigmoid" else tape.put("mul", x, r)


def normalized(tape, norm, z, d, t):
    if norm == "none":
        return z
    if norm == "layer":
        scaled = tape.put("mul", constant(tape, d, [d, t]), z)
        mean = tape.put("neg", tape.put("sum", z, 0))
        z = tape.put("add", scaled, tape.put("broadcast", mean, [d, t]))
    r = tape.put("sqrt", tape.put("sum", tape.put("mul", z, z), 0))
    r = tape.put("recip", r)
    return tape.put("mul", z, tape.put("broadcast", r, [d, t]))


def mlp_program(spec):
    tape, widths = Tape(), spec["widths"]
    last = len(widths) - 1
    W, b = {}, {}
    for i in range(1, last + 1):
        W[i] = tape.parameter(f"layer{i}.W", [widths[i], widths[i - 1]])
        if spec["bias"]:
            b[i] = tape.parameter(f"layer{i}.b", [widths[i]])
    tape.inputs.append(["x", [widths[0], 1]])
    z = ("input", 0)
    for i in range(1, last + 1):
        z = tape.put("matmul", W[i], z)
        if spec["bias"]:
            column = tape.put("reshape", b[i], [widths[i], 1])
            z = tape.put("add", z, column)
        if i < last:
            z = activated(tape, spec, z, [widths[i], 1])
    return tape.program(z)


def attention_program(spec):  # noqa: PLR0912
    tape, d, t, v, w = Tape(), spec["widths"], spec["tokens"], spec["value_dim"], spec["mlp_width"]
    weights = {}
    for i, a in enumerate(spec["attention_dims"], start=1):
        for h in range(1, spec["heads"] + 1):
            names = [("Q", [a, d[i - 1]]), ("K", [a, d[i - 1]])]
            if v is None:
                names.append(("V", [d[i], d[i - 1]]))
            else:
                names += [("U", [v, d[i - 1]]), ("O", [d[i], v])]
            if spec["qk_bias"]:
                names += [("b_q", [a]), ("b_k", [a])]
            for letter, shape in names:
                weights[i, h, letter] = tape.parameter(f"layer{i}.head{h}.{letter}", shape)
        if w:
            weights[i, "W1"] = tape.parameter(f"layer{i}.W1", [w, d[i]])
            weights[i, "W2"] = tape.parameter(f"layer{i}.W2", [d[i], w])
    tape.inputs.append(["X", [d[0], t]])
    z = ("input", 0)
    for i, a in enumerate(spec["attention_dims"], start=1):
        normed = normalized(tape, spec["norm"], z, d[i - 1], t)
        total = None
        for h in range(1, spec["heads"] + 1):
            q = tape.put("matmul", weights[i, h, "Q"], normed)
            if spec["qk_bias"]:
                column = tape.put("reshape", weights[i, h, "b_q"], [a, 1])
                q = tape.put("add", q, tape.put("broadcast", column, [a, t]))
            k = tape.put("matmul", weights[i, h, "K"], normed)
            if spec["qk_bias"]:
                column = tape.put("reshape", weights[i, h, "b_k"], [a, 1])
                k = tape.put("add", k, tape.put("broadcast", column, [a, t]))
            s = tape.put("matmul", tape.put("transpose", k, [1, 0]), q)
            if spec["score"] == "softmax":
                s = tape.put("exp", s)
            if spec["causal"]:
                mask = tape.put("const", [t, t], [1 if row <= col else 0 for row in range(t) for col in range(t)])
                s = tape.put("mul", s, mask)
            if spec["score"] in ("softmax", "normalized"):
                r = tape.put("recip", tape.put("sum", s, 0))
                s = tape.put("mul", s, tape.put("broadcast", r, [t, t]))
            if v is None:
                o = tape.put("matmul", tape.put("matmul", weights[i, h, "V"], normed), s)
            else:
                inner = tape.put("matmul", tape.put("matmul", weights[i, h, "U"], normed), s)
                o = tape.put("matmul", weights[i, h, "O"], inner)
            total = o if total is None else tape.put("add", total, o)
        if spec["residual"]:
            total = tape.put("add", z, total)
        z = total
        if w:
            hidden = tape.put("matmul", weights[i, "W1"], normalized(tape, spec["norm"], z, d[i], t))
            hidden = activated(tape, spec, hidden, [w, t])
            hidden = tape.put("matmul", weights[i, "W2"], hidden)
            z = tape.put("add", z, hidden) if spec["residual"] else hidden
    return tape.program(z)


# -- evaluating programs


class Dual:
    """A number mod p with its gradient; a gradient of None is zero."""

    def __init__(self, p, value, gradient=None):
        self.p, self.value, self.gradient = p, value % p, gradient

    def scaled(self, c):
        return None if self.gradient is None else [c * x % self.p for x in self.gradient]

    def __add__(self, other):
        if self.gradient is None or other.gradient is None:
            gradient = self.gradient or other.gradient
        else:
            gradient = [(x + y) % self.p for x, y in zip(self.gradient, other.gradient, strict=True)]
        return Dual(self.p, self.value + other.value, gradient)

    def __mul__(self, other):
        left = Dual(self.p, 0, self.scaled(other.value))
        right = Dual(self.p, 0, other.scaled(self.value))
        return Dual(self.p, self.value * other.value, (left + right).gradient)

    def __neg__(self):
        return Dual(self.p, -self.value, self.scaled(-1))

    def times(self, value, slope):
        """The dual number with this value, whose derivative is the slope times that of this one."""
        return Dual(self.p, value, self.scaled(slope))

    def power(self, k):
        return Dual(self.p, pow(self.value, k, self.p), self.scaled(k * pow(self.value, k - 1, self.p)))


def indices(shape):
    return itertools.product(*map(range, shape))


def tensor(shape, entries):
    return dict(zip(indices(shape), entries, strict=True))


def shapes_of(program):
    """The shapes of all nodes."""
    shapes = [shape for _, shape in program["parameters"] + program["inputs"]]
    for op, *rest in program["instructions"]:
        if op in ("const", "broadcast", "reshape"):
            shape = rest[0] if op == "const" else rest[1]
        elif op == "matmul":
            shape = shapes[rest[0]][:-1] + shapes[rest[1]][-1:]
        elif op == "sum":
            shape = [n for axis, n in enumerate(shapes[rest[0]]) if axis != rest[1]]
        elif op == "transpose":
            shape = [shapes[rest[0]][axis] for axis in rest[1]]
        elif op == "slice":
            shape = [len(range(*triple)) for triple in rest[1]]
        elif op == "concat":
            shape = list(shapes[rest[1]])
            shape[rest[0]] = sum(shapes[a][rest[0]] for a in rest[1:])
        else:
            shape = shapes[rest[0]]
        shapes.append(list(shape))
    return shapes


def is_square(x, p):
    return pow(x, (p - 1) // 2, p) == 1


def square_root(x, p):
    """The root in 1 ... (p - 1)/2 of a nonzero square, by Cipolla's method."""
    a = next(a for a in itertools.count() if not is_square((a * a - x) % p, p) and (a * a - x) % p)
    w = (a * a - x) % p

    def times(u, v):
        return ((u[0] * v[0] + u[1] * v[1] * w) % p, (u[0] * v[1] + u[1] * v[0]) % p)

    result, base, k = (1, 0), (a, 1), (p + 1) // 2
    while k:
        result = times(result, base) if k % 2 else result
        base, k = times(base, base), k // 2
    return min(result[0], p - result[0])


def evaluate(program, p, theta, X, formal=(), gradients=True, needed=None):  # noqa: PLR0912, PLR0915
    """The dual numbers of all nodes (or of those that are needed): a dictionary of index tuples for each."""
    shapes, P = shapes_of(program), len(theta)
    units = [[int(i == j) for j in range(P)] if gradients else None for i in range(P)]
    numbers = iter([Dual(p, x, unit) for x, unit in zip(theta, units, strict=True)] + [Dual(p, x) for x in X])
    nodes, formal = [], iter(formal)
    for _, shape in program["parameters"] + program["inputs"]:
        nodes.append({index: next(numbers) for index in indices(shape)})
    for op, *rest in program["instructions"]:
        shape = shapes[len(nodes)]
        values = [next(formal) for _ in indices(shape)] if op == "exp" else None
        if needed is not None and len(nodes) not in needed:
            nodes.append(None)
            continue
        a = nodes[rest[0]] if op not in ("const", "concat") else None
        b = nodes[rest[1]] if op in ("add", "mul", "matmul") else None
        result = {}
        if op == "exp":
            sources = a.values() if a else [Dual(p, 0)] * len(values)
            result = tensor(shape, [x.times(e, e) for x, e in zip(sources, values, strict=True)])
        elif op == "recip":
            if any(x.value == 0 for x in a.values()):
                raise NoValueError(len(nodes))
            inverses = [pow(x.value, -1, p) for x in a.values()]
            result = tensor(shape, [x.times(r, -r * r) for x, r in zip(a.values(), inverses, strict=True)])
        elif op == "sqrt":
            if not all(is_square(x.value, p) for x in a.values()):
                raise NoValueError(len(nodes))
            roots = [square_root(x.value, p) for x in a.values()]
            result = tensor(shape, [x.times(r, pow(2 * r, -1, p)) for x, r in zip(a.values(), roots, strict=True)])
        elif op in ("const", "reshape"):
            entries = [Dual(p, c) for c in rest[1]] if op == "const" else list(a.values())
            result = tensor(shape, entries)
        elif op == "concat":
            place = 0
            for operand in rest[1:]:
                for index, x in nodes[operand].items():
                    moved = list(index)
                    moved[rest[0]] += place
                    result[tuple(moved)] = x
                place += shapes[operand][rest[0]]
            result = {index: result[index] for index in indices(shape)}
        elif op == "sum":
            zero = Dual(p, 0)
            result = dict.fromkeys(indices(shape), zero)
            for index, x in a.items():
                short = index[: rest[1]] + index[rest[1] + 1 :]
                result[short] = result[short] + x
        else:
            for index in indices(shape):
                if op == "add":
                    x = a[index] + b[index]
                elif op == "mul":
                    x = a[index] * b[index]
                elif op == "neg":
                    x = -a[index]
                elif op == "pow":
                    x = a[index].power(rest[1])
                elif op == "matmul":
                    x = Dual(p, 0)
                    for j in range(shapes[rest[0]][-1]):
                        x = x + a[(*index[:-1], j)] * b[(*index[:-2], j, index[-1])]
                elif op == "transpose":
                    source = [0] * len(index)
                    for i, axis in enumerate(rest[1]):
                        source[axis] = index[i]
                    x = a[tuple(source)]
                elif op == "slice":
                    x = a[tuple(range(*triple)[i] for triple, i in zip(rest[1], index, strict=True))]
                elif op == "broadcast":
                    old = shapes[rest[0]]
                    tail = index[len(index) - len(old) :]
                    x = a[tuple(0 if n == 1 else i for n, i in zip(old, tail, strict=True))]
                result[index] = x
        nodes.append(result)
    return nodes


class Points:
    """A program with its points mod p."""

    strict = True

    def __init__(self, program, p, seed):
        self.program, self.p, self.seed, self.digest = program, p, seed, digest(program)
        self.P = sum(math.prod(shape) for _, shape in program["parameters"])
        self.n = sum(math.prod(shape) for _, shape in program["inputs"])
        self.m = math.prod(shapes_of(program)[program["output"]])
        self.first = len(program["parameters"]) + len(program["inputs"])
        self.shapes = shapes_of(program)
        self.exps = [self.first + i for i, (op, *_) in enumerate(program["instructions"]) if op == "exp"]
        self.theta = self.values(0, self.P)
        self.last_source = self.sources()

    def operands(self, node):
        op, *rest = self.program["instructions"][node - self.first]
        return rest[1:] if op == "concat" else rest[: {"const": 0, "add": 2, "mul": 2, "matmul": 2}.get(op, 1)]

    def sources(self):
        """The last source that each node depends on, -1 if it depends on none."""
        parameters = len(self.program["parameters"])
        last = [-1] * parameters + [0] * (self.first - parameters)
        moving = [False] * parameters + [True] * (self.first - parameters)
        for node in range(self.first, len(self.shapes)):
            moving.append(any(moving[a] for a in self.operands(node)))
            op = self.program["instructions"][node - self.first][0]
            if self.strict and op in ("exp", "sqrt") and not moving[-1]:
                raise NoCertificateError("an exp or sqrt depends on no input")
            exp = op == "exp"
            last.append(self.exps.index(node) + 1 if exp else max((last[a] for a in self.operands(node)), default=-1))
        return last

    def values(self, label, count):
        return stream(f"ffrank point 1\n{self.digest}\n{self.p}\n{self.seed}\n{label}", self.p, count)

    def formal(self, label, counts):
        entries = []
        for e, node in enumerate(self.exps, start=1):
            message = f"ffrank point 1\n{self.digest}\n{self.p}\n{self.seed}\n{label}\nexp {e}\n{counts[e]}"
            count, size = 0, math.prod(self.shapes[node])
            drawn = []
            while len(drawn) < size:
                count += size + 10
                drawn = [x for x in stream(message, self.p, count) if x]
            entries += drawn[:size]
        return entries

    def at(self, theta, label, counts, **options):
        X = self.values(label if counts[0] == 0 else f"{label}\n{counts[0]}", self.n)
        return evaluate(self.program, self.p, theta, X, self.formal(label, counts), **options)

    def redraws(self, theta, label, needed=None, nonzero=()):
        """The numbers of redraws at which everything that is needed has a value."""
        counts, raised = [0] * (1 + len(self.exps)), None
        for _ in range(ATTEMPTS):
            try:
                nodes = self.at(theta, label, counts, gradients=False, needed=needed)
                zero = [node for node in nonzero if any(x.value == 0 for x in nodes[node].values())]
                if not zero:
                    return counts
                source = self.last_source[zero[0]]
            except NoValueError as error:
                source = self.last_source[error.args[0]]
            if source < 0:
                raise NoCertificateError("an instruction has no value, whatever the inputs")
            if raised == source >= 1 and counts[source] % 256 == 0:
                source = 0
            counts[source] += 1
            raised = source
        raise NoCertificateError("no point found")

    def jacobian(self, i, counts=None):
        """The rows of input i."""
        counts = self.redraws(self.theta, i) if counts is None else counts
        output = self.at(self.theta, i, counts)[self.program["output"]].values()
        return [x.gradient or [0] * self.P for x in output]

    def witness(self, purpose, inputs, rows, columns, minor, redraws=()):
        claim = digest(
            ({"redraws": redraws} if redraws else {})
            | {
                "claim": purpose,
                "program": self.digest,
                "prime": self.p,
                "seed": self.seed,
                "inputs": inputs,
                "rows": rows,
                "columns": columns,
            }
        )
        k = next(k for k in itertools.count() if self.p**k >= 2**120)
        challenges = [stream(f"ffrank challenge 1\n{claim}\n{j}", self.p, len(rows)) for j in range(k)]
        return [solve(minor, b, self.p) for b in challenges]


# -- upper bounds


def generators(spec, points):  # noqa: PLR0912, PLR0915
    """The families as documents, and the columns of T."""
    p, theta = points.p, iter(points.theta)
    W = {}
    for name, shape in points.program["parameters"]:
        r, c = (*shape, 1)[:2]
        W[name] = [[next(theta) for _ in range(c)] for _ in range(r)]
    documents, columns = [], []

    def family(rule, layer, head, changes):
        if not changes:
            return
        documents.append({"rule": rule, "layer": layer, "head": head, "dimension": len(changes)})
        for change in changes:
            column = []
            for name, matrix in W.items():
                total = [0] * (len(matrix) * len(matrix[0]))
                for part in change.get(name, []):
                    flat = [x for row in part for x in row]
                    total = [(x + y) % p for x, y in zip(total, flat, strict=True)]
                column += total
            columns.append(column)

    def unit(d, x, y):
        return [[int((i, j) == (x, y)) for j in range(d)] for i in range(d)]

    def skew_unit(d, x, y):
        return [[int((i, j) == (x, y)) - int((i, j) == (y, x)) for j in range(d)] for i in range(d)]

    def centred_unit(d, x, y):
        u = [[int(i == k) - int(i == k + 1) for i in range(d)] for k in range(d)]
        return [[u[x][i] * u[y][j] - u[y][i] * u[x][j] for j in range(d)] for i in range(d)]

    def times(c, *factors):
        A = factors[0]
        for B in factors[1:]:
            A = [[sum(a * b for a, b in zip(row, col, strict=True)) % p for col in zip(*B, strict=True)] for row in A]
        return [[c * x % p for x in row] for row in A]

    def diagonal(d, j):
        return unit(d, j, j)

    def units(r, c):
        return [[[int((i, j) == (x, y)) for j in range(c)] for i in range(r)] for x, y in indices([r, c])]

    def free(names):
        """Arbitrary changes of some parameters, one after the other."""
        return [{x: [E]} for x in names for E in units(len(W[x]), len(W[x][0]))]

    def rows_equal(names):
        """dW = u 1^T for some parameters."""
        return [{x: [times(1, u, [[1] * len(W[x][0])])]} for x in names for u in units(len(W[x]), 1)]

    def inverse(A):
        try:
            return transposed([solve(A, list(column), p) for column in unit_matrix(len(A))])
        except StopIteration:
            return None

    def unit_matrix(n):
        return [[int(i == j) for j in range(n)] for i in range(n)]

    d, a_list, t, k = spec["widths"], spec.get("attention_dims"), spec.get("tokens"), power(spec)
    if spec["kind"] == "mlp":
        for i in range(1, len(d) - 1):
            here = [f"layer{i}.W"] + ([f"layer{i}.b"] if spec["bias"] else [])
            after = f"layer{i + 1}.W"
            if k >= 2:
                changes = []
                for j in range(d[i]):
                    c = diagonal(d[i], j)
                    changes.append({x: [times(1, c, W[x])] for x in here} | {after: [times(-k, W[after], c)]})
                family("neuron-scaling", i, None, changes)
            elif k == 1:
                changes = []
                for x, y in indices([d[i], d[i]]):
                    C = unit(d[i], x, y)
                    changes.append({x: [times(1, C, W[x])] for x in here} | {after: [times(-1, W[after], C)]})
                family("layer-basis", i, None, changes)
                if spec["bias"]:
                    changes = []
                    for j in range(d[i]):
                        s = [[int(x == j)] for x in range(d[i])]
                        changes.append({f"layer{i}.b": [s], f"layer{i + 1}.b": [times(-1, W[after], s)]})
                    family("translation", i, None, changes)
        return documents, columns
    H, v, w, last = spec["heads"], spec["value_dim"], spec["mlp_width"], len(a_list)
    score, norm, residual = spec["score"], spec["norm"], spec["residual"]
    output = "V" if v is None else "O"

    def hidden_space(prefix, i, incoming, outgoing, reach):
        n = d[i]
        if norm == "none":
            rotations, rule = [unit(n, x, y) for x, y in indices([n, n])], "basis"
        elif norm == "rms":
            rotations, rule = [skew_unit(n, x, y) for x, y in indices([n, n]) if x < y], "rotation"
        else:
            pairs = [(x, y) for x, y in indices([n, n]) if x < y < n - 1]
            rotations, rule = [centred_unit(n, x, y) for x, y in pairs], "rotation"
        changes = []
        for C in rotations:
            change = {x: [times(1, C, W[x])] for x in incoming}
            for x in outgoing:
                change[x] = [*change.get(x, []), times(-1, W[x], C)]
            changes.append(change)
        family(f"{prefix}-{rule}", i, None, changes)
        if norm != "none":
            family(f"{prefix}-norm-scaling", i, None, [{x: [W[x]] for x in incoming}])
        if norm == "layer":
            ones = [[1] for _ in range(n)]
            changes = [{x: [times(1, ones, transposed(u))]} for x in incoming for u in units(len(W[x][0]), 1)]
            family(f"{prefix}-mean", i, None, changes)
        if norm != "layer" and reach is not None:
            c = len(reach[0])
            top = inverse(reach[:c])
            nu = [[0] * n for _ in range(n - c)]
            if top is not None:
                left = times(-1, reach[c:], top)
                nu = [row + unit_row for row, unit_row in zip(left, unit_matrix(n - c), strict=True)]
            changes = [{x: [times(1, xi, nu)]} for x in outgoing for xi in units(len(W[x]), n - c)]
            family(f"{prefix}-unreached", i, None, changes)

    rho, R = d[0] == 1, None
    for i, a in enumerate(a_list, start=1):
        rank_one = t == 1 or (not spec["qk_bias"] and rho)
        for h in range(1, H + 1):
            pre = f"layer{i}.head{h}."
            pairs = [(pre + "Q", pre + "K")] + ([(pre + "b_q", pre + "b_k")] if spec["qk_bias"] else [])
            changes = []
            unseen = score != "lightning" and (t == 1 or (score == "normalized" and rank_one))
            if unseen:
                family("unseen-scores", i, h, free([x for pair in pairs for x in pair]))
            elif rank_one:
                for x, y in indices([a, a]):
                    F = unit(a, x, y)
                    change = {}
                    for Q, K in pairs:
                        change |= {K: [times(1, F, W[K])], Q: [times(-1, transposed(F), W[Q])]}
                    changes.append(change)
                above = [(x, y) for x, y in indices([a, a]) if x < y]
                changes += [{K: [times(1, skew_unit(a, x, y), W[Q])] for Q, K in pairs} for x, y in above]
                changes += [{Q: [times(1, skew_unit(a, x, y), W[K])] for Q, K in pairs} for x, y in above]
                family("split-orthogonal", i, h, changes)
            else:
                for x, y in indices([a, a]):
                    E = unit(a, x, y)
                    change = {}
                    for Q, K in pairs:
                        change |= {Q: [times(1, E, W[Q])], K: [times(-1, transposed(E), W[K])]}
                    changes.append(change)
                family("general-linear", i, h, changes)
            scaled = {Q: [W[Q]] for Q, _ in pairs}
            if score == "lightning":
                family("rescaling", i, h, [scaled | {pre + output: [times(-1, W[pre + output])]}])
            if score == "normalized" and not unseen:
                family("score-scaling", i, h, [scaled])
            if score == "softmax" and not unseen and spec["qk_bias"]:
                family("key-bias", i, h, free([pre + "b_k"]))
            if v is not None:
                U, O = pre + "U", pre + "O"  # noqa: E741
                squares = [unit(v, x, y) for x, y in indices([v, v])]
                family("value-basis", i, h, [{U: [times(1, E, W[U])], O: [times(-1, W[O], E)]} for E in squares])
            if norm == "layer":
                family("layer-norm-input", i, h, rows_equal([pre + x for x in ("Q", "K", "V" if v is None else "U")]))
        heads = range(1, H + 1)
        if score == "lightning" and v is None and not spec["qk_bias"] and a >= d[i - 1]:
            changes = []
            for h, j in [(h, j) for h in heads for j in heads if h != j]:
                V_h, V_j, Q_j = f"layer{i}.head{h}.V", f"layer{i}.head{j}.V", f"layer{i}.head{j}.Q"
                K_h, K_j, Q_h = f"layer{i}.head{h}.K", f"layer{i}.head{j}.K", f"layer{i}.head{h}.Q"
                gram = inverse(times(1, transposed(W[K_j]), W[K_j]))
                if gram is None:
                    changes.append({})
                else:
                    dQ = times(-1, W[K_j], gram, transposed(W[K_h]), W[Q_h])
                    changes.append({V_h: [W[V_j]], Q_j: [dQ]})
            family("head-mixing", i, None, changes)
        outs = [f"layer{i}.head{h}.{output}" for h in heads]
        W1, W2 = f"layer{i}.W1", f"layer{i}.W2"
        if w and norm == "layer":
            family("layer-norm-input", i, None, rows_equal([W1]))
        behind = None
        if not residual and norm != "layer":
            blocks = []
            for h in heads:
                if v is None:
                    chain = [W[f"layer{i}.head{h}.V"], R]
                elif v <= (d[i - 1] if R is None else len(R[0])):
                    chain = [W[f"layer{i}.head{h}.O"]]
                else:
                    chain = [W[f"layer{i}.head{h}.O"], W[f"layer{i}.head{h}.U"], R]
                blocks.append(times(1, *(x for x in chain if x is not None)))
            behind = [[x for block in blocks for x in block[row]] for row in range(d[i])]
            if len(behind[0]) >= d[i]:
                behind = None
        if w and not residual:
            hidden_space("attention", i, outs, [W1], behind)
        if w and k == 1:
            squares = [unit(w, x, y) for x, y in indices([w, w])]
            family("neuron-basis", i, None, [{W1: [times(1, C, W[W1])], W2: [times(-1, W[W2], C)]} for C in squares])
        elif w and k:
            squares = [diagonal(w, j) for j in range(w)]
            changes = [{W1: [times(1, c, W[W1])], W2: [times(-k, W[W2], c)]} for c in squares]
            family("neuron-scaling", i, None, changes)
        R = behind
        if w:
            if k == 1 and behind is not None and len(behind[0]) < min(w, d[i]):
                R = times(1, W[W2], W[W1], behind)
            else:
                R = W[W2] if w < d[i] else None
            if residual or norm == "layer":
                R = None
        if not residual and i < last:
            letters = ["Q", "K", "V" if v is None else "U"]
            after = [f"layer{i + 1}.head{h}.{letter}" for h in heads for letter in letters]
            hidden_space("layer", i, [W2] if w else outs, after, R)
        narrow = rho or w == 1 or (H == 1 and v == 1) or (H == 1 and not spec["causal"] and a == 1)
        kept = not residual and score != "softmax" and norm == "none" and (k or not w)
        rho = d[i] == 1 or bool(kept and narrow)
    return documents, columns


def is_polynomial(program):
    return not {"exp", "sqrt", "recip"} & {op for op, *_ in program["instructions"]}


def ambient_degrees(points):
    bounds = []
    program = points.program
    bounds += [(0, 0) for _ in program["parameters"]] + [(1, 1) for _ in program["inputs"]]
    for op, *rest in program["instructions"]:
        if op == "const":
            bounds.append((0, 0))
        elif op in ("mul", "matmul"):
            (l1, h1), (l2, h2) = bounds[rest[0]], bounds[rest[1]]
            bounds.append((l1 + l2, h1 + h2))
        elif op in ("add", "concat"):
            some = [bounds[a] for a in (rest if op == "add" else rest[1:])]
            bounds.append((min(lo for lo, _ in some), max(hi for _, hi in some)))
        elif op == "pow":
            lo, hi = bounds[rest[0]]
            bounds.append((rest[1] * lo, rest[1] * hi))
        else:
            bounds.append(bounds[rest[0]])
    lo, hi = bounds[program["output"]]
    n = points.n
    if n == 0:
        return points.m
    return points.m * (math.comb(n + hi, n) - (math.comb(n + lo - 1, n) if lo > 0 else 0))


def ambient_tokens(spec):
    if spec is None or spec["kind"] != "attention" or len(spec["attention_dims"]) != 1 or spec["mlp_width"]:
        return None
    if spec["score"] != "lightning" or spec["norm"] != "none":
        return None
    d, out = spec["widths"]
    symmetric = math.comb(d + 1, 2)
    if spec["tokens"] >= 2:
        return out * (d + 1) * (symmetric + d) if spec["qk_bias"] else out * d * symmetric
    return out * (math.comb(d + 2, 3) + (symmetric + d if spec["qk_bias"] else 0))


def composition(spec):
    """The bound of section 7.1, or None."""
    if spec is None or spec["kind"] != "mlp" or power(spec) < 2 or len(spec["widths"]) > 101:
        return None
    d, k, beta = spec["widths"], power(spec), int(spec["bias"])

    @functools.cache
    def U(i, j):
        if j == i + 1:
            return (d[i] + beta) * d[j]
        least = min(U(i, m) + U(m, j) - d[m] for m in range(i + 1, j))
        D, f = k ** (j - i - 1), d[i] - 1 + beta
        if min(f, D) <= 64:
            least = min(least, d[j] * math.comb(f + D, min(f, D)))
        if j == i + 2 and k == 2 and d[j] == 1 and not spec["bias"]:
            r = min(d[i], d[i + 1])
            least = min(least, d[i] * r - r * (r - 1) // 2)
        return least

    return U(0, len(d) - 1)


def theorem_bound(spec, points):
    P = points.P
    candidates = [{"kind": "parameters", "value": P}]
    ambient = []
    if is_polynomial(points.program):
        ambient.append({"kind": "ambient", "value": ambient_degrees(points), "rule": "degrees"})
    if ambient_tokens(spec) is not None:
        ambient.append({"kind": "ambient", "value": ambient_tokens(spec), "rule": "tokens"})
    if ambient:
        candidates.append(min(ambient, key=lambda x: x["value"]))
    if composition(spec) is not None:
        candidates.append({"kind": "composition", "value": composition(spec)})
    if spec is not None:
        documents, columns = generators(spec, points)
        total = sum(x["dimension"] for x in documents)
        if total > 0 and P - total < min(x["value"] for x in candidates):
            chosen = independent(columns, points.p)
            basis = [columns[j] for j in chosen]
            rows = independent(transposed(basis), points.p)
            minor = [[column[i] for column in basis] for i in rows]
            candidates.append(
                {
                    "kind": "symmetry",
                    "value": P - len(rows),
                    "generators": documents,
                    "rows": rows,
                    "columns": chosen,
                    "witness": points.witness("symmetry", 0, rows, chosen, minor),
                }
            )
    return min(candidates, key=lambda x: x["value"])


def polynomial_minor(points, r):
    """Degree and norm of an (r+1)-minor of a polynomial map."""
    program = points.program
    shapes, bounds = shapes_of(program), []
    for node in range(len(shapes)):
        fixed = len(program["parameters"]) + len(program["inputs"])
        if node < fixed:
            bounds.append((1, 0))
            continue
        op, *rest = program["instructions"][node - fixed]
        if op == "const":
            bounds.append((0, bits(max([1] + [abs(c) for c in rest[1]]))))
        elif op in ("mul", "matmul"):
            (d1, h1), (d2, h2) = bounds[rest[0]], bounds[rest[1]]
            bounds.append((d1 + d2, h1 + h2 + (bits(shapes[rest[0]][-1]) if op == "matmul" else 0)))
        elif op in ("add", "concat"):
            some = [bounds[a] for a in (rest if op == "add" else rest[1:])]
            bounds.append((max(x for x, _ in some), max(x for _, x in some) + (op == "add")))
        elif op == "pow":
            bounds.append((rest[1] * bounds[rest[0]][0], rest[1] * bounds[rest[0]][1]))
        elif op == "sum":
            bounds.append((bounds[rest[0]][0], bounds[rest[0]][1] + bits(shapes[rest[0]][rest[1]])))
        else:
            bounds.append(bounds[rest[0]])
    deg, h = bounds[program["output"]]
    return (r + 1) * max(deg - 1, 0), (r + 1) * (bits(r + 1) + bits(max(deg, 1)) + h)


def rational_minor(points, r):
    """The same for a map with exponentials and reciprocals: section 8.1."""
    program = points.program
    shapes, bounds = points.shapes, []

    def product(A, B, k=1):
        if A is None or B is None:
            return None
        return (A[0] + B[0], A[1] + B[1], A[2] + B[2] + bits(k), A[3] + B[3])

    def beside(A, B, e):
        if A is None or B is None:
            return B if A is None else A
        return (max(A[0] + B[1], B[0] + A[1]), A[1] + B[1], max(A[2] + B[3], B[2] + A[3]) + e, A[3] + B[3])

    def raised(A, k):
        return tuple(k * x for x in A)

    bounds += [((1, 0, 0, 0), (0, 0, 0, 0)) for _ in program["parameters"]]
    bounds += [((1, 0, 0, 0), None) for _ in program["inputs"]]
    for op, *rest in program["instructions"]:
        if op == "const":
            bounds.append(((0, 0, bits(max([1] + [abs(c) for c in rest[1]])), 0), None))
        elif op in ("add", "concat"):
            some = [bounds[a] for a in (rest if op == "add" else rest[1:])]
            value, slope = some[0]
            for A, dA in some[1:]:
                value, slope = beside(value, A, int(op == "add")), beside(slope, dA, int(op == "add"))
            bounds.append((value, slope))
        elif op in ("mul", "matmul"):
            (A, dA), (B, dB) = bounds[rest[0]], bounds[rest[1]]
            k = shapes[rest[0]][-1] if op == "matmul" else 1
            bounds.append((product(A, B, k), beside(product(dA, B, k), product(A, dB, k), 1)))
        elif op == "sum":
            s = (0, 0, bits(shapes[rest[0]][rest[1]]), 0)
            bounds.append(tuple(product(x, s) for x in bounds[rest[0]]))
        elif op == "pow":
            (A, dA), k = bounds[rest[0]], rest[1]
            bounds.append((raised(A, k), product(product(raised(A, k - 1), (0, 0, bits(k), 0)), dA)))
        elif op == "exp":
            bounds.append(((1, 0, 0, 0), product((1, 0, 0, 0), bounds[rest[0]][1])))
        elif op == "recip":
            ((n, d, u, v), dA), s = bounds[rest[0]], math.prod(shapes[rest[0]])
            R = (d + (s - 1) * n, s * n, v + (s - 1) * u, s * u)
            bounds.append((R, product(raised(R, 2), dA)))
        else:
            bounds.append(bounds[rest[0]])
    n, _, u, _ = bounds[program["output"]][1] or (0, 0, 0, 0)
    return (r + 1) * n, (r + 1) * (bits(r + 1) + u)


def monte_carlo(points, lower, inputs, error, theorem):
    """The Monte-Carlo bound, or None if there is none."""
    program, r = points.program, lower
    if "sqrt" in {op for op, *_ in program["instructions"]}:
        return None
    degree, norm_bits = (polynomial_minor if is_polynomial(program) else rational_minor)(points, r)
    x = Fraction(degree + 1, 2**30) + Fraction(norm_bits // 30, MC_POOL)
    for K in range(1, 65):
        if x >= 1:
            return None
        e = 0
        while x**K <= Fraction(1, 2 ** (e + 1)):
            e += 1
        if e >= -error:
            break
    else:
        return None
    trials, used = [], [points.p]
    for j in range(1, K + 1):
        draws = words(f"ffrank trial 1\n{points.digest}\n{points.seed}\n{j}")
        q = next(q for w in draws if is_prime(q := w % 2**30 + 2**30) and q not in used)
        used.append(q)
        there, none = Points(program, q, points.seed), [0] * (1 + len(points.exps))
        try:
            rows = [row for i in range(1, inputs + 2) for row in there.jacobian(i, none)]
        except NoValueError:
            return None
        rank = len(independent(rows, q))
        if rank > r:
            return None
        trials.append({"prime": q, "rank": rank})
    return {
        "kind": "monte-carlo",
        "value": r,
        "error": -e,
        "inputs": inputs + 1,
        "degree": degree,
        "norm_bits": norm_bits,
        "trials": trials,
        "theorem": theorem,
    }


# -- expected dimension


def expected_dimension(spec, P):  # noqa: PLR0912
    henry = "Henry, Marchetti, Kohn: Geometry of Lightning Self-Attention (ICLR 2025)"

    def result(formula, status, source, value, *hypotheses):
        return {
            "value": value,
            "formula": formula,
            "status": status,
            "source": source,
            "hypotheses": [{"statement": s, "holds": h} for s, h in hypotheses],
            "holds": all(h for _, h in hypotheses),
        }

    d, last = spec["widths"], len(spec["widths"]) - 1
    if spec["kind"] == "mlp":
        if power(spec) < 2 or spec["bias"] or last < 2:
            return None
        D = power(spec) ** (last - 1)
        source = "Kileel, Trager, Bruna: On the Expressive Power of Deep Polynomial Neural Networks (NeurIPS 2019)"
        value = min(P - sum(d[1:-1]), d[-1] * math.comb(d[0] - 1 + D, D))
        return result("polynomial-network", "parameter count", source, value)
    a, t = [None, *spec["attention_dims"]], spec["tokens"]
    plain = not (spec["causal"] or spec["residual"] or spec["qk_bias"] or spec["mlp_width"])
    if not plain or spec["norm"] != "none" or spec["score"] == "normalized":
        return None
    alpha, softmax = min(a[1], d[0]), spec["score"] == "softmax"
    if softmax and t < 2:
        return None
    if spec["heads"] > 1 or spec["value_dim"] is not None:
        if last > 1 or t < 2:
            return None
        v = d[0] * d[1]
        if spec["value_dim"] is not None:
            inner = min(spec["value_dim"], *d)
            v = (d[0] + d[1]) * inner - inner**2
        if softmax:
            value = spec["heads"] * (2 * alpha * d[0] - alpha**2 + v)
            return result("multi-head-softmax", "parameter count", "sum over heads", value)
        value = min(spec["heads"] * (2 * alpha * d[0] - alpha**2 + v - 1), ambient_tokens(spec))
        return result("multi-head", "parameter count", "sum over heads, capped by the ambient space", value)
    konda = henry + "; proof claimed by Konda (2026)"
    if last == 1 and softmax:
        return result("softmax", "conjecture", konda, 2 * alpha * d[0] - alpha**2 + d[0] * d[1])
    if last == 1 and t >= 2:
        return result("single-layer", "theorem", henry, 2 * alpha * d[0] - alpha**2 + d[0] * d[1] - 1, ("t >= 2", True))
    if last == 1:
        s = min(2 * a[1], d[0])
        value = s * d[0] - s * (s - 1) // 2 + d[0] * d[1] - 1
        return result("single-layer-one-token", "theorem", "symmetric forms of bounded rank", value)
    if len(set(d[1:last])) == 1:
        delta = d[1]
        value = 2 * alpha * d[0] - alpha**2 + delta * (d[0] + d[last]) - delta**2 - last
        for i in range(2, last + 1):
            alpha_i = min(a[i], delta)
            value += 2 * alpha_i * delta - alpha_i**2
        narrow = [("hidden widths delta <= d_0", delta <= d[0]), ("hidden widths delta <= d_l", delta <= d[last])]
        if softmax:
            return result("softmax", "conjecture", konda, value + last, *narrow)
        text = "token matrices entering later layers have rank >= 2: min(delta, a_1, ..., a_{l-1}) >= 2"
        return result(
            "deep-bottleneck",
            "theorem",
            henry,
            value,
            *narrow,
            ("t >= 2", t >= 2),
            (text, min([delta, *a[1:last]]) >= 2),
        )
    if softmax or any(x < d[0] for x in d[1:last]):
        return None
    alphas = [None] + [min(x, d[0]) for x in a[1:]]
    value = d[0] * d[last] - last
    for i in range(1, last + 1):
        if min([t, d[0], *alphas[1:i]]) >= 2:
            value += 2 * alphas[i] * d[0] - alphas[i] ** 2
        else:
            r = min(2 * a[i], d[0])
            value += r * d[0] - r * (r - 1) // 2
    return result("deep-wide", "conjecture", "ffrank, agreed with exact ranks on random architectures", value)


# -- the hypotheses


def exponents(points):
    if not points.exps:
        return None
    p = points.p
    M = sum(math.prod(points.shapes[node]) for node in points.exps)
    matrix, redraws = [], []
    for i in range(M + next(q for q in itertools.count() if p**q >= 2**60)):
        theta = points.values(f"exponents {i}", points.P)
        ends, numbers = [], []
        for label in (f"exponents {i} 1", f"exponents {i} 2"):
            numbers.append(points.redraws(theta, label))
            nodes = points.at(theta, label, numbers[-1], gradients=False)
            ends.append([x.value for node in points.exps for x in nodes[points.operands(node)[0]].values()])
        matrix.append([(x - y) % p for x, y in zip(*ends, strict=True)])
        redraws.append(numbers if any(map(any, numbers)) else [])
    rows = independent(matrix, p)
    if len(rows) < M:
        raise NoCertificateError("the exponents satisfy a linear relation")
    listed = [redraws[i] for i in rows] if any(redraws[i] for i in rows) else []
    columns = list(range(M))
    witness = points.witness("exponents", 0, rows, columns, [matrix[i] for i in rows], listed)
    return {"count": M, "rows": rows, "columns": columns, "witness": witness, "redraws": listed}


def is_root(points, node):
    return points.program["instructions"][node - points.first][0] == "sqrt"


def roots(points):
    stage, arguments = [0] * points.first, []
    for node in range(points.first, len(points.shapes)):
        root = is_root(points, node)
        stage.append(max((stage[a] for a in points.operands(node)), default=0) + root)
        if root:
            arguments += [[] for _ in range(stage[-1] - len(arguments))]
            if points.operands(node)[0] not in arguments[stage[-1] - 1]:
                arguments[stage[-1] - 1].append(points.operands(node)[0])
    result = []
    for s, nodes in enumerate(arguments, start=1):
        earlier = {node for stage_nodes in arguments[: s - 1] for node in stage_nodes}
        every = range(points.first, len(points.shapes))
        needed, ahead = set(), list(nodes)
        ahead += [x for x in every if stage[x] < s and is_root(points, x) and points.operands(x)[0] in earlier]
        while ahead:
            node = ahead.pop()
            if node >= points.first and node not in needed:
                needed.add(node)
                ahead += [] if node in points.exps else points.operands(node)
        count = sum(math.prod(points.shapes[node]) for node in nodes)
        basis, rows, redraws = [], [], []
        for i in range(count + 60):
            numbers = points.redraws(points.theta, f"roots {s} {i}", needed, nodes)
            values = points.at(points.theta, f"roots {s} {i}", numbers, gradients=False, needed=needed)
            entries = [x.value for node in nodes for x in values[node].values()]
            if extend(basis, [1] + [0 if is_square(x, points.p) else 1 for x in entries], 2):
                rows.append(i)
                redraws.append(numbers)
            if len(rows) == count + 1:
                break
        else:
            raise NoCertificateError("a product of arguments of roots may be a constant times a square")
        result.append({"count": count, "rows": rows, "redraws": redraws if any(map(any, redraws)) else []})
    return result or None


# -- the certificate


def prove(subject, prime=2147483647, seed=0, error=-60):
    """A certificate for a short spec, or for a program."""
    is_program = "format" in subject
    spec = None if is_program else full_spec(subject)
    program = subject if is_program else program_of(spec)
    points = Points(program, prime, seed)
    hypotheses = {"exponents": exponents(points), "roots": roots(points)}
    theorem = theorem_bound(spec, points)

    patience = next(q for q in itertools.count() if prime**q >= 2**60)
    basis, chosen, idle, i, redraws = [], [], 0, 0, []
    while len(basis) < theorem["value"] and idle < patience:
        i += 1
        before = len(basis)
        redraws.append(points.redraws(points.theta, i))
        for o, row in enumerate(points.jacobian(i, redraws[-1])):
            if extend(basis, row, prime):
                chosen.append(((i - 1) * points.m + o, row))
        idle = 0 if len(basis) > before else idle + 1
    rows = [index for index, _ in chosen]
    r = len(rows)
    columns = independent(transposed([row for _, row in chosen]), prime) if r else []
    minor = [[row[c] for c in columns] for _, row in chosen]
    inputs = rows[-1] // points.m + 1 if rows else 0
    redraws = redraws[:inputs] if any(map(any, redraws[:inputs])) else []

    upper = theorem
    if r < theorem["value"] and error is not None:
        upper = monte_carlo(points, r, inputs, error, theorem) or theorem
    exact = r == upper["value"]
    probable = upper["kind"] == "monte-carlo"
    expected = None if is_program else expected_dimension(spec, points.P)
    assumptions = [
        "The SHAKE-256 challenges behave as random: a false rank witness passes with probability at most 2^-120."
    ]
    if probable:
        assumptions.append(
            "The trial primes and points drawn by SHAKE-256 behave as random: the upper bound fails with"
            f" probability at most 2^{upper['error']}."
        )
    if hypotheses["exponents"]:
        assumptions.append(
            "J. Ax, On Schanuel's conjectures, Annals of Mathematics 93 (1971): exponentials of functions that are"
            " linearly independent over Q modulo constants are algebraically independent over the functions' field."
        )
    certificate = {
        "schema": "ffrank-certificate/1",
        "program" if is_program else "architecture": subject if is_program else spec,
        "program_digest": points.digest,
        "prime": prime,
        "seed": seed,
        "method": {"point": "random", "error": error},
        "parameters": points.P,
        "dimension": {
            "lower": r,
            "upper": upper["value"],
            "value": r if exact else None,
            "status": "bounds" if not exact else "exact-with-probability" if probable else "exact",
            "error": upper["error"] if probable else None,
        },
        "expected": expected,
        "defect": expected["value"] - r if expected and exact else None,
        "lower_bound": {
            "inputs": inputs,
            "redraws": redraws,
            "rows": rows,
            "columns": columns,
            "witness": points.witness("lower", inputs, rows, columns, minor, redraws),
        },
        "upper_bound": upper,
        "hypotheses": hypotheses,
        "assumptions": assumptions,
        "versions": {"ffrank": "0.1.0"},
    }
    return seal(certificate)


def seal(certificate):
    """Give a certificate the digest of its content."""
    content = {key: value for key, value in certificate.items() if key not in ("digest", "versions")}
    return certificate | {"digest": digest(content)}


def prove_rank(A, p, n=None):
    """A certificate of the rank of a matrix mod p."""
    A = [[x % p for x in row] for row in A]
    m, n = len(A), len(A[0]) if A else n or 0
    numbers = [m, n, p] + [x for row in A for x in row]
    matrix = hashlib.sha256(b"".join(x.to_bytes(8, "little") for x in numbers)).hexdigest()
    rows = independent(A, p)
    columns = independent(transposed(A), p) if A else []
    content = {"matrix": matrix, "prime": p, "shape": [m, n], "rows": rows, "columns": columns}
    claim, r = digest({"claim": "rank"} | content), len(rows)
    minor = [[A[i][j] for j in columns] for i in rows]
    lower, upper = [], []
    for j in range(next(k for k in itertools.count(1) if p**k >= 2**120)):
        lower.append(solve(minor, stream(f"ffrank rank lower 1\n{claim}\n{j}", p, r), p))
        v = stream(f"ffrank rank upper 1\n{claim}\n{j}", p, n)
        image = [sum(map(operator.mul, row, v)) % p for row in A]
        upper.append(solve(minor, [image[i] for i in rows], p))
    content |= {"schema": "ffrank-rank/1", "rank": r, "lower": lower, "upper": upper}
    return seal(content | {"versions": {"ffrank": "0.1.0"}})


def prove_rank_over_q(A, p, n=None):
    """A certificate of the rank over Q of a matrix of integers or fractions, with p for the lower bound."""
    m, n = len(A), len(A[0]) if A else n or 0
    text = "".join(" ".join(map(str, row)) + "\n" for row in [[m, n], *A])
    residues = [[Fraction(x).numerator * pow(Fraction(x).denominator, -1, p) % p for x in row] for row in A]
    rows = independent(residues, p)
    columns = independent(transposed(residues), p) if A else []
    content = {"matrix": hashlib.sha256(text.encode()).hexdigest(), "prime": p, "shape": [m, n]}
    content |= {"rows": rows, "columns": columns}
    claim, r = digest({"claim": "rank"} | content), len(rows)
    minor = [[residues[i][j] for j in columns] for i in rows]
    count = next(k for k in itertools.count(1) if p**k >= 2**120)
    lower = [solve(minor, stream(f"ffrank rank lower 1\n{claim}\n{j}", p, r), p) for j in range(count)]
    lines, pivots = (transposed(A), rows) if m < n else (A, columns)
    relations = [relation(lines, pivots, j) for j in range(min(m, n)) if j not in pivots]
    content |= {"schema": "ffrank-rational-rank/1", "rank": r, "lower": lower, "relations": relations}
    return seal(content | {"versions": {"ffrank": "0.1.0"}})


def relation(A, pivots, j):
    """Column j of A as a combination of the pivots, with one denominator, by elimination over Q."""
    rows = [[Fraction(row[i]) for i in (*pivots, j)] for row in A]
    for k in range(len(pivots)):
        lead = next(i for i in range(k, len(rows)) if rows[i][k])
        rows[k], rows[lead] = rows[lead], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        rows = [row if i == k else [x - row[k] * y for x, y in zip(row, rows[k], strict=True)]
                for i, row in enumerate(rows)]  # fmt: skip
    combination = [row[-1] for row in rows[: len(pivots)]]
    assert not any(row[-1] for row in rows[len(pivots) :])
    scale = math.lcm(*(x.denominator for x in combination))
    return [f"{scale:x}", *(f"{int(x * scale):x}" for x in combination)]


certify = prove
