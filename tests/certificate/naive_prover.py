"""A slow, simple prover of certificates, written from FORMAT.md alone: the twin of the real one.

Tensors are dictionaries from index tuples to `Dual` numbers (a value and its whole gradient mod p), matrices are lists
of rows, and nothing is clever. Same subject, prime, seed and error: the same bytes as the real prover.
"""

import functools
import hashlib
import itertools
import json
import math
from fractions import Fraction

MC_POOL = 50697473


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
    names = {"identity": 1, "square": 2, "cube": 3}
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
        if i < last and power(spec) != 1:
            z = tape.put("pow", z, power(spec))
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
        total = None
        for h in range(1, spec["heads"] + 1):
            q = tape.put("matmul", weights[i, h, "Q"], z)
            if spec["qk_bias"]:
                column = tape.put("reshape", weights[i, h, "b_q"], [a, 1])
                q = tape.put("add", q, tape.put("broadcast", column, [a, t]))
            k = tape.put("matmul", weights[i, h, "K"], z)
            if spec["qk_bias"]:
                column = tape.put("reshape", weights[i, h, "b_k"], [a, 1])
                k = tape.put("add", k, tape.put("broadcast", column, [a, t]))
            s = tape.put("matmul", tape.put("transpose", k, [1, 0]), q)
            if spec["causal"]:
                mask = tape.put("const", [t, t], [1 if row <= col else 0 for row in range(t) for col in range(t)])
                s = tape.put("mul", s, mask)
            if v is None:
                y = tape.put("matmul", tape.put("matmul", weights[i, h, "V"], z), s)
            else:
                inner = tape.put("matmul", tape.put("matmul", weights[i, h, "U"], z), s)
                y = tape.put("matmul", weights[i, h, "O"], inner)
            total = y if total is None else tape.put("add", total, y)
        if spec["residual"]:
            total = tape.put("add", z, total)
        z = total
        if w:
            hidden = tape.put("matmul", weights[i, "W1"], z)
            if power(spec) != 1:
                hidden = tape.put("pow", hidden, power(spec))
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


def evaluate(program, p, theta, X):  # noqa: PLR0912
    """The output's dual numbers, row-major."""
    shapes, P = shapes_of(program), len(theta)
    numbers = iter([Dual(p, x, [int(i == j) for j in range(P)]) for i, x in enumerate(theta)] + [Dual(p, x) for x in X])
    nodes = []
    for _, shape in program["parameters"] + program["inputs"]:
        nodes.append({index: next(numbers) for index in indices(shape)})
    for op, *rest in program["instructions"]:
        shape = shapes[len(nodes)]
        a = nodes[rest[0]] if op not in ("const", "concat") else None
        b = nodes[rest[1]] if op in ("add", "mul", "matmul") else None
        result = {}
        if op in ("const", "reshape"):
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
    return list(nodes[program["output"]].values())


class Points:
    """A program with its points mod p."""

    def __init__(self, program, p, seed):
        self.program, self.p, self.seed, self.digest = program, p, seed, digest(program)
        self.P = sum(math.prod(shape) for _, shape in program["parameters"])
        self.n = sum(math.prod(shape) for _, shape in program["inputs"])
        self.m = math.prod(shapes_of(program)[program["output"]])
        self.theta = self.values(0, self.P)

    def values(self, counter, count):
        return stream(f"ffrank point 1\n{self.digest}\n{self.p}\n{self.seed}\n{counter}", self.p, count)

    def jacobian(self, i):
        """The rows of input i."""
        output = evaluate(self.program, self.p, self.theta, self.values(i, self.n))
        return [x.gradient or [0] * self.P for x in output]

    def witness(self, purpose, inputs, rows, columns, minor):
        claim = digest(
            {
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

    def times(c, *factors):
        A = factors[0]
        for B in factors[1:]:
            A = [[sum(a * b for a, b in zip(row, col, strict=True)) % p for col in zip(*B, strict=True)] for row in A]
        return [[c * x % p for x in row] for row in A]

    def diagonal(d, j):
        return unit(d, j, j)

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
            else:
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
    output = "V" if v is None else "O"
    rho = d[0] == 1
    for i, a in enumerate(a_list, start=1):
        rank_one = t == 1 or (not spec["qk_bias"] and rho)
        for h in range(1, H + 1):
            pre = f"layer{i}.head{h}."
            pairs = [(pre + "Q", pre + "K")] + ([(pre + "b_q", pre + "b_k")] if spec["qk_bias"] else [])
            changes = []
            if rank_one:
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
            change = {Q: [W[Q]] for Q, _ in pairs} | {pre + output: [times(-1, W[pre + output])]}
            family("rescaling", i, h, [change])
            if v is not None:
                U, O = pre + "U", pre + "O"  # noqa: E741
                units = [unit(v, x, y) for x, y in indices([v, v])]
                family("value-basis", i, h, [{U: [times(1, E, W[U])], O: [times(-1, W[O], E)]} for E in units])
        outs = [f"layer{i}.head{h}.{output}" for h in range(1, H + 1)]
        W1, W2 = f"layer{i}.W1", f"layer{i}.W2"
        squares = [unit(d[i], x, y) for x, y in indices([d[i], d[i]])]
        if w and not spec["residual"]:
            changes = [{x: [times(1, C, W[x])] for x in outs} | {W1: [times(-1, W[W1], C)]} for C in squares]
            family("attention-basis", i, None, changes)
        if w and k == 1:
            units = [unit(w, x, y) for x, y in indices([w, w])]
            family("neuron-basis", i, None, [{W1: [times(1, C, W[W1])], W2: [times(-1, W[W2], C)]} for C in units])
        elif w:
            units = [diagonal(w, j) for j in range(w)]
            changes = [{W1: [times(1, c, W[W1])], W2: [times(-k, W[W2], c)]} for c in units]
            family("neuron-scaling", i, None, changes)
        if not spec["residual"] and i < last:
            letters = ["Q", "K", "V" if v is None else "U"]
            after = [f"layer{i + 1}.head{h}.{letter}" for h in range(1, H + 1) for letter in letters]
            changes = []
            for C in squares:
                change = {x: [times(1, C, W[x])] for x in ([W2] if w else outs)}
                for x in after:
                    change[x] = [*change.get(x, []), times(-1, W[x], C)]
                changes.append(change)
            family("layer-basis", i, None, changes)
        if spec["residual"]:
            rho = d[i] == 1
        else:
            rho = rho or d[i] == 1 or w == 1 or (H == 1 and v == 1) or (H == 1 and not spec["causal"] and a == 1)
    return documents, columns


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
    ambient = [{"kind": "ambient", "value": ambient_degrees(points), "rule": "degrees"}]
    if ambient_tokens(spec) is not None:
        ambient.append({"kind": "ambient", "value": ambient_tokens(spec), "rule": "tokens"})
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


def monte_carlo(points, lower, inputs, error, theorem):
    """The Monte-Carlo bound, or None if there is none."""
    program, r = points.program, lower
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
    degree = (r + 1) * max(deg - 1, 0)
    norm_bits = (r + 1) * (bits(r + 1) + bits(max(deg, 1)) + h)
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
        there = Points(program, q, points.seed)
        rank = len(independent([row for i in range(1, inputs + 2) for row in there.jacobian(i)], q))
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


def expected_dimension(spec, P):
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
        if power(spec) == 1 or spec["bias"] or last < 2:
            return None
        D = power(spec) ** (last - 1)
        source = "Kileel, Trager, Bruna: On the Expressive Power of Deep Polynomial Neural Networks (NeurIPS 2019)"
        value = min(P - sum(d[1:-1]), d[-1] * math.comb(d[0] - 1 + D, D))
        return result("polynomial-network", "parameter count", source, value)
    a, t = [None, *spec["attention_dims"]], spec["tokens"]
    plain = not (spec["causal"] or spec["residual"] or spec["qk_bias"] or spec["mlp_width"])
    if not plain:
        return None
    alpha = min(a[1], d[0])
    if spec["heads"] > 1 or spec["value_dim"] is not None:
        if last > 1 or t < 2:
            return None
        v = d[0] * d[1]
        if spec["value_dim"] is not None:
            inner = min(spec["value_dim"], *d)
            v = (d[0] + d[1]) * inner - inner**2
        value = min(spec["heads"] * (2 * alpha * d[0] - alpha**2 + v - 1), ambient_tokens(spec))
        return result("multi-head", "parameter count", "sum over heads, capped by the ambient space", value)
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
        text = "token matrices entering later layers have rank >= 2: min(delta, a_1, ..., a_{l-1}) >= 2"
        return result(
            "deep-bottleneck",
            "theorem",
            henry,
            value,
            ("hidden widths delta <= d_0", delta <= d[0]),
            ("hidden widths delta <= d_l", delta <= d[last]),
            ("t >= 2", t >= 2),
            (text, min([delta, *a[1:last]]) >= 2),
        )
    if any(x < d[0] for x in d[1:last]):
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


# -- the certificate


def prove(subject, prime=2147483647, seed=0, error=-60):
    """A certificate for a short spec, or for a program."""
    is_program = "format" in subject
    spec = None if is_program else full_spec(subject)
    program = subject if is_program else program_of(spec)
    points = Points(program, prime, seed)
    theorem = theorem_bound(spec, points)

    patience = next(q for q in itertools.count() if prime**q >= 2**60)
    basis, chosen, idle, i = [], [], 0, 0
    while len(basis) < theorem["value"] and idle < patience:
        i += 1
        before = len(basis)
        for o, row in enumerate(points.jacobian(i)):
            if extend(basis, row, prime):
                chosen.append(((i - 1) * points.m + o, row))
        idle = 0 if len(basis) > before else idle + 1
    rows = [index for index, _ in chosen]
    r = len(rows)
    columns = independent(transposed([row for _, row in chosen]), prime) if r else []
    minor = [[row[c] for c in columns] for _, row in chosen]
    inputs = rows[-1] // points.m + 1 if rows else 0

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
            "rows": rows,
            "columns": columns,
            "witness": points.witness("lower", inputs, rows, columns, minor),
        },
        "upper_bound": upper,
        "assumptions": assumptions,
        "versions": {"ffrank": "0.1.0"},
    }
    return seal(certificate)


def seal(certificate):
    """Give a certificate the digest of its content."""
    content = {key: value for key, value in certificate.items() if key not in ("digest", "versions")}
    return certificate | {"digest": digest(content)}


certify = prove
