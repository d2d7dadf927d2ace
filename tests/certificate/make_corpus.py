"""Write the corpus of certificates: `python -m tests.certificate.make_corpus`. The same files every time.

valid: what an honest prover writes. invalid: well-formed, but false or unproven, with the digests of a good forger.
malformed: not certificates, or out of all proportion.
"""

import copy
import gzip
import pathlib
import random

from . import naive_prover as naive

FOLDER = pathlib.Path(__file__).parent / "corpus"


def attention(widths, dims, tokens, **more):
    return {"kind": "attention", "widths": widths, "attention_dims": dims, "tokens": tokens, **more}


def mlp(widths, **more):
    return {"kind": "mlp", "widths": widths, **more}


def program(parameters, inputs, instructions, output):
    return {
        "format": "ffrank-program/1",
        "parameters": parameters,
        "inputs": inputs,
        "instructions": instructions,
        "output": output,
    }


EVERYTHING = program(
    [["A", [2, 3, 2]], ["b", [2]], ["c", []]],
    [["x", [2, 2, 1]], ["y", [3]]],
    [
        ["matmul", 0, 3],  # 5: [2, 3, 1]
        ["reshape", 5, [2, 3]],
        ["transpose", 6, [1, 0]],  # 7: [3, 2]
        ["broadcast", 1, [3, 2]],
        ["mul", 7, 8],
        ["const", [3, 2], [1, -2, 3, 0, 5, -7]],
        ["add", 9, 10],
        ["pow", 11, 2],  # 12: [3, 2]
        ["slice", 12, [[0, 3, 2], [1, 2, 1]]],  # 13: [2, 1]
        ["neg", 13],
        ["sum", 12, 0],  # 15: [2]
        ["reshape", 15, [2, 1]],
        ["concat", 0, 14, 16],  # 17: [4, 1]
        ["broadcast", 2, [4, 1]],
        ["mul", 17, 18],
        ["broadcast", 4, [4, 3]],
        ["slice", 20, [[0, 1, 1], [0, 3, 1]]],  # 21: [1, 3]
        ["matmul", 19, 21],
    ],
    22,
)

# the parameters only enter as c1 + c2: rank 1 of 2, of degree 1
LINEAR = program([["c", [2]]], [["x", [2]]], [["sum", 0, 0], ["broadcast", 2, [2]], ["add", 3, 1]], 4)
# f = (a b x, a b x^2): the bounds are 2, the dimension is 1
PRODUCT = program(
    [["a", []], ["b", []]],
    [["x", []]],
    [["mul", 0, 1], ["mul", 3, 2], ["mul", 4, 2], ["reshape", 4, [1]], ["reshape", 5, [1]], ["concat", 0, 6, 7]],
    8,
)
CONSTANT = program([["a", [2]]], [["x", [2]]], [], 1)
NOTHING = program([], [["x", [2]]], [], 0)
FREE = program([["w", [1, 3]]], [["x", [3, 1]]], [["pow", 1, 2], ["matmul", 0, 2]], 3)

# two stages of roots, an exponential and a reciprocal: a / (e^(a x) + b sqrt(sqrt(x + a y) + y))
TRANSCENDENTAL = program(
    [["a", []], ["b", []]],
    [["x", []], ["y", []]],
    [
        ["mul", 0, 2],
        ["exp", 4],
        ["mul", 0, 3],
        ["add", 2, 6],
        ["sqrt", 7],
        ["add", 8, 3],
        ["sqrt", 9],
        ["mul", 1, 10],
        ["add", 5, 11],
        ["recip", 12],
        ["mul", 0, 13],
    ],
    14,
)
# e^(a x) e^(b x) / (1 + x^2): of dimension 1, which only trials show
EXPONENTIAL = program(
    [["a", []], ["b", []]],
    [["x", []]],
    [
        ["mul", 0, 2],
        ["exp", 3],
        ["mul", 1, 2],
        ["exp", 5],
        ["mul", 4, 6],
        ["const", [], [1]],
        ["mul", 2, 2],
        ["add", 8, 9],
        ["recip", 10],
        ["mul", 7, 11],
    ],
    12,
)
# e^(a x) and e^(2 a x): the exponents are related
RELATED = program(
    [["a", []]],
    [["x", []]],
    [["mul", 0, 1], ["exp", 2], ["add", 2, 2], ["exp", 4], ["mul", 3, 5]],
    6,
)
# a / sqrt(x^2 a^2), which is a constant up to its sign
SQUARE_ROOT = program([["a", []]], [["x", []]], [["mul", 0, 1], ["mul", 2, 2], ["sqrt", 3], ["mul", 0, 4]], 5)
# e^a x
NO_INPUT = program([["a", []]], [["x", []]], [["exp", 0], ["mul", 2, 1]], 3)

MATRIX = [[1, -2, 3, 0, 5], [2, -4, 6, 0, 10], [0, 1, 10**30, -7, 2], [1, -1, 3 + 10**30, -7, 7]]  # of rank 2
OTHER = [[1, -2, 3, 0, 5], [2, -4, 6, 0, 10], [0, 1, 10**30, -7, 2], [1, -1, 3 + 10**30, -7, 8]]  # of rank 3

VALID = {
    "attention-single-layer": (attention([3, 2], [2], 2), {}),
    "attention-ambient": (attention([2, 2], [1], 2, heads=3), {}),
    "attention-one-token": (attention([3, 2], [2], 1), {}),
    "attention-defective": (attention([3, 3, 3], [1, 3], 2), {}),
    "attention-bottleneck": (attention([3, 2, 3], [2, 2], 2), {"seed": 2**64 - 1}),
    "attention-monte-carlo": (attention([3, 1, 3], [1, 1], 1, heads=2), {"seed": 5}),
    "attention-bounds": (attention([3, 1, 3], [1, 1], 1, heads=2), {"error": None}),
    "attention-values": (attention([2, 2], [1], 2, heads=2, value_dim=1, causal=True), {"prime": 65537}),
    "attention-block": (
        attention([2, 2], [1], 2, residual=True, mlp_width=2, activation="cube", qk_bias=True),
        {"error": -20},
    ),
    "attention-linear-mlp": (attention([2, 1, 2], [1, 2], 2, mlp_width=2, activation="identity"), {}),
    "mlp-square": (mlp([2, 2, 2], activation="square"), {}),
    "mlp-fourth-power": (mlp([2, 1, 2], activation={"power": 4}, bias=True), {}),
    "mlp-identity": (mlp([2, 1, 2], activation="identity", bias=True), {}),
    "mlp-composed": (mlp([2, 2, 1, 2], activation="square"), {}),
    "mlp-prime-3": (mlp([2, 2, 1], activation="square"), {"prime": 3}),
    "softmax-single-layer": (attention([2, 2], [1], 2, score="softmax"), {}),
    "softmax-one-token": (attention([2, 2], [1], 1, score="softmax", qk_bias=True), {}),
    "softmax-bias": (
        attention([2, 2], [1], 2, score="softmax", heads=2, value_dim=1, qk_bias=True, causal=True),
        {"prime": 65537},
    ),
    "softmax-deep": (attention([2, 2, 2], [1, 1], 2, score="softmax"), {}),
    "normalized": (attention([2, 2, 2], [2, 1], 2, score="normalized"), {}),
    "transformer-block": (
        attention([2, 2], [1], 2, score="softmax", norm="rms", residual=True, mlp_width=2, activation="silu"),
        {},
    ),
    "norm-rms": (attention([2, 2, 2], [2, 2], 2, norm="rms"), {}),
    "norm-layer": (attention([3, 3, 2], [2, 1], 2, norm="layer"), {}),
    "norm-bounds": (attention([3, 3], [1], 1, norm="layer", mlp_width=1, activation="tanh"), {}),
    "head-mixing": (attention([3, 2], [3], 2, heads=2), {}),
    "unreached": (attention([1, 3, 2], [1, 1], 2), {}),
    "mlp-tanh": (mlp([1, 2, 1], activation="tanh", bias=True), {}),
    "mlp-sigmoid": (mlp([2, 1, 1], activation="sigmoid"), {"prime": 257}),
    "program-transcendental": (TRANSCENDENTAL, {}),
    "program-exponential": (EXPONENTIAL, {}),
    "program-everything": (EVERYTHING, {}),
    "program-linear": (LINEAR, {"error": -7}),
    "program-product": (PRODUCT, {}),
    "program-constant": (CONSTANT, {"error": None}),
    "program-nothing": (NOTHING, {}),
    "program-free": (FREE, {}),
}


def honest():
    return {name: naive.prove(subject, **options) for name, (subject, options) in VALID.items()}


def ranks():
    over_q = {f"rational-rank-{p}": naive.prove_rank_over_q(MATRIX, p) for p in (11, 2**31 - 1)}
    return over_q | {f"rank-{p}": naive.prove_rank(MATRIX, p) for p in (2, 7, 2**31 - 1, 2**61 - 1)}


# -- forgeries


class ElsewherePoints(naive.Points):
    """Points of another seed than the one that is claimed."""

    def values(self, counter, count):
        message = f"ffrank point 1\n{self.digest}\n{self.p}\n{self.seed + 1}\n{counter}"
        return naive.stream(message, self.p, count)


def with_points(points, subject, **options):
    old, naive.Points = naive.Points, points
    try:
        return naive.prove(subject, **options)
    finally:
        naive.Points = old


def changed(certificate, *changes):
    """A sealed copy in which each (path, value) is set; a function is applied to what is there."""
    result = copy.deepcopy(certificate)
    for path, value in changes:
        *way, last = path.split(".")
        place = result
        for key in way:
            place = place[int(key) if isinstance(place, list) else key]
        last = int(last) if isinstance(place, list) else last
        place[last] = value(place[last]) if callable(value) else value
    return naive.seal(result)


def dimension(value, upper=None, status="exact", error=None):
    upper = value if upper is None else upper
    return {"lower": value, "upper": upper, "value": value, "status": status, "error": error}


def modulo_composite(modulus):
    """A certificate that is right in all but the primality of its modulus."""
    for seed in range(10000):
        try:
            return naive.prove(mlp([1, 1], activation="square"), prime=modulus, seed=seed)
        except (ValueError, StopIteration):  # a pivot was no unit
            continue
    raise AssertionError(modulus)


def larger_rank(certificate, row, column, outputs):
    """One pivot more, with a random witness."""
    noise = random.Random(1)
    lower = certificate["lower_bound"]
    r = len(lower["rows"]) + 1
    return changed(
        certificate,
        ("lower_bound.rows", lower["rows"] + [row]),
        ("lower_bound.inputs", row // outputs + 1),
        ("lower_bound.columns", sorted(lower["columns"] + [column])),
        ("lower_bound.witness", [[noise.randrange(certificate["prime"]) for _ in range(r)] for _ in lower["witness"]]),
        ("dimension", dimension(r)),
        ("defect", lambda x: x if x is None else x - 1),
    )


def unproven(subject, **parts):
    """What a prover writes that believes that the exponents and roots are what they should be."""
    noise = random.Random(3)

    def exponents(points):
        count = sum(naive.math.prod(points.shapes[node]) for node in points.exps)
        witness = [[noise.randrange(points.p) for _ in range(count)] for _ in range(4)]
        pivots = {"rows": list(range(count)), "columns": list(range(count)), "witness": witness}
        return {"count": count, "redraws": []} | pivots if count else None

    old = {name: getattr(naive, name) for name in ("exponents", "roots")}
    naive.exponents, naive.Points.strict = exponents, False
    naive.roots = lambda points: parts.get("roots")
    try:
        return naive.prove(subject)
    finally:
        naive.exponents, naive.roots, naive.Points.strict = old["exponents"], old["roots"], True


def repeated_characters(certificate):
    """A certificate in which one row of the roots has the characters of another one."""
    points = naive.Points(naive.program_of(certificate["architecture"]), certificate["prime"], certificate["seed"])
    stage, s = certificate["hypotheses"]["roots"][0], 1
    sqrt = next(n for n in range(points.first, len(points.shapes)) if naive.is_root(points, n))
    [node] = points.operands(sqrt)

    def characters(i):
        X = points.values(f"roots {s} {i}", points.n)
        nodes = naive.evaluate(
            points.program, points.p, points.theta, X, gradients=False, needed=range(points.first, node + 1)
        )
        return [naive.is_square(x.value, points.p) for x in nodes[node].values()]

    first, *rest = stage["rows"]
    twin = next(i for i in range(rest[-1] + 1, 1000) if characters(i) == characters(first))
    return changed(certificate, ("hypotheses.roots.0.rows", [first, *rest[:-1], twin]))


def transcendental_forgeries(valid):  # noqa: PLR0915
    softmax, block, layer = valid["softmax-single-layer"], valid["transformer-block"], valid["norm-layer"]
    rms, free, mixing = valid["norm-rms"], valid["program-transcendental"], valid["head-mixing"]
    yield "hypotheses-exponents-dropped", changed(softmax, ("hypotheses.exponents", None))
    yield "hypotheses-roots-dropped", changed(block, ("hypotheses.roots", None))
    yield "hypotheses-roots-none", changed(block, ("hypotheses.roots", []))
    yield "hypotheses-roots-one-stage", changed(free, ("hypotheses.roots", lambda x: x[:1]))
    yield "hypotheses-of-another", changed(rms, ("hypotheses", layer["hypotheses"]))
    yield "hypotheses-invented", changed(valid["mlp-square"], ("hypotheses", softmax["hypotheses"]))
    exponents, e = softmax["hypotheses"]["exponents"], "hypotheses.exponents"
    fewer = {key: exponents[key][:-1] for key in ("rows", "columns")} | {"count": exponents["count"] - 1}
    fewer |= {"witness": [w[:-1] for w in exponents["witness"]], "redraws": []}
    yield "exponents-fewer", changed(softmax, (e, fewer))
    yield "exponents-fewer-columns", changed(softmax, (e, fewer | {"count": exponents["count"]}))
    yield "exponents-none-of-them", changed(softmax, (e, fewer | {"rows": [], "columns": [], "witness": [[]] * 4}))
    yield "exponents-count", changed(softmax, (e + ".count", lambda x: x - 1))
    yield "exponents-rows", changed(softmax, (e + ".rows", lambda x: [i + 1 for i in x]))
    yield "exponents-witness", changed(softmax, (e + ".witness.0.0", lambda x: (x + 1) % softmax["prime"]))
    yield "exponents-challenges-fewer", changed(softmax, (e + ".witness", lambda w: w[:-1]))
    yield "exponents-related", unproven(RELATED)
    yield "exponents-without-input", unproven(NO_INPUT)
    yield "roots-of-squares", unproven(SQUARE_ROOT, roots=[{"count": 1, "rows": [0, 1], "redraws": []}])
    yield "roots-rows-not-independent", repeated_characters(rms)
    yield "roots-rows-fewer", changed(rms, ("hypotheses.roots.0.rows", lambda x: x[:-1]))
    yield "roots-rows-repeated", changed(rms, ("hypotheses.roots.0.rows", lambda x: x[:1] + x[:-1]))
    yield "roots-count", changed(rms, ("hypotheses.roots.0.count", lambda x: x - 1))
    yield "redraws-dropped", changed(rms, ("lower_bound.redraws", []))
    yield "redraws-dropped-block", changed(block, ("lower_bound.redraws", []))
    yield "redraws-others", changed(rms, ("lower_bound.redraws.0.0", lambda x: x + 1))
    yield "redraws-fewer", changed(rms, ("lower_bound.redraws", lambda x: x[:-1]))
    yield "redraws-wrong-length", changed(rms, ("lower_bound.redraws.0", lambda x: [*x, 0]))
    yield "redraws-of-exponents-dropped", changed(block, ("hypotheses.exponents.redraws", []))
    yield "redraws-all-zero", changed(softmax, ("lower_bound.redraws", [[0, 0]] * softmax["lower_bound"]["inputs"]))
    yield "ax-dropped", changed(softmax, ("assumptions", lambda x: x[:-1]))
    for name in ("normalized", "lightning"):
        yield f"softmax-is-{name}", changed(softmax, ("architecture.score", name))
    smaller = naive.full_spec(attention([2, 2], [1], 2))
    yield (
        "softmax-is-lightning-program-too",
        changed(
            softmax,
            ("architecture", smaller),
            ("program_digest", naive.digest(naive.program_of(smaller))),
            ("expected", naive.expected_dimension(smaller, softmax["parameters"])),
            ("hypotheses.exponents", None),
            ("assumptions", lambda x: x[:-1]),
            ("defect", lambda x: x),
        ),
    )
    deep = valid["softmax-deep"]
    yield "ambient-of-softmax", changed(deep, ("upper_bound", {"kind": "ambient", "value": 10, "rule": "degrees"}))
    ambient = {"kind": "ambient", "value": softmax["dimension"]["lower"], "rule": "tokens"}
    yield "ambient-tokens-of-softmax", changed(softmax, ("upper_bound", ambient))
    extra = {"rule": "rescaling", "layer": 1, "head": 1, "dimension": 1}
    yield "rescaling-of-softmax", changed(softmax, ("upper_bound.generators", lambda x: [*x, extra]))
    extra = {"rule": "head-mixing", "layer": 1, "head": None, "dimension": 2}
    narrow = naive.prove(attention([3, 2], [2], 2, heads=2), error=None)
    yield "head-mixing-of-narrow-heads", changed(narrow, ("upper_bound.generators", lambda x: [*x, extra]))
    yield (
        "head-mixing-of-narrow-heads-with-rank",
        changed(
            narrow,
            ("upper_bound.generators", lambda x: [*x, extra]),
            ("upper_bound.rows", lambda x: sorted({*x, *range(30)})[: len(x) + 1]),
            ("upper_bound.columns", lambda x: [*x, 10]),
            ("upper_bound.witness", lambda w: [[*x, 1] for x in w]),
            ("upper_bound.value", lambda x: x - 1),
            ("dimension.upper", lambda x: x - 1),
        ),
    )
    yield "head-mixing-dropped", changed(mixing, ("upper_bound.generators", lambda x: x[:-1]))
    trials = valid["program-exponential"]
    yield "trials-degree-exponential", changed(trials, ("upper_bound.degree", lambda x: x - 1))
    yield "trials-rank-exponential", changed(trials, ("upper_bound.trials.0.rank", 2))
    upper = {**trials["upper_bound"], "theorem": rms["upper_bound"], "value": rms["dimension"]["lower"]}
    yield "trials-with-roots", changed(rms, ("upper_bound", upper))


def rank_forgeries(valid):
    p = 2**31 - 1
    good, noise = valid[f"rank-{p}"], random.Random(4)
    yield "matrix-of-another-matrix", naive.prove_rank(OTHER, p)
    other = naive.prove_rank(OTHER, p)
    yield "matrix-replayed-for-the-matrix", changed(other, ("matrix", good["matrix"]))
    yield "matrix-another-prime", changed(good, ("prime", 2147483629))
    residues = [[x % 7 for x in row] for row in MATRIX]
    yield "matrix-of-residues", naive.prove_rank(residues, p)
    yield "matrix-other-rows", changed(good, ("rows", [0, 3]))
    yield "matrix-other-columns", changed(good, ("columns", [0, 2]))
    yield "matrix-dependent-rows", changed(good, ("rows", [0, 1]))
    yield "matrix-shape", changed(good, ("shape", [5, 4]))
    yield "matrix-rank", changed(good, ("rank", 3))
    yield "matrix-challenges-fewer", changed(good, ("lower", lambda w: w[:-1]), ("upper", lambda w: w[:-1]))
    yield "matrix-witness", changed(good, ("upper.3.1", lambda x: (x + 1) % p))
    yield "matrix-not-reduced", changed(good, ("lower.0.0", lambda x: x + p))
    yield "matrix-composite", changed(good, ("prime", 2**61 - 3))
    larger = [[noise.randrange(p) for _ in range(3)] for _ in range(4)]
    pivots = (("rows", [0, 1, 2]), ("columns", [0, 1, 2]), ("rank", 3))
    yield "matrix-larger", changed(good, *pivots, ("lower", larger), ("upper", larger))
    smaller = [w[:1] for w in good["lower"]]
    yield (
        "matrix-smaller",
        changed(good, ("rows", [0]), ("columns", [0]), ("rank", 1), ("lower", smaller), ("upper", smaller)),
    )
    real = naive.prove_rank([[1, -2, 3, 0, 5]] * 4, p)
    claim = {key: good[key] for key in ("matrix", "shape")}
    yield "matrix-smaller-of-another", naive.seal(real | claim)


def rational_rank_forgeries(valid):
    p = 2**31 - 1
    good, noise = valid[f"rational-rank-{p}"], random.Random(5)
    yield "rational-matrix-of-another-matrix", naive.prove_rank_over_q(OTHER, p)
    yield "rational-matrix-another-prime", changed(good, ("prime", 2147483629))
    yield "rational-matrix-other-rows", changed(good, ("rows", [0, 3]))
    yield "rational-matrix-other-columns", changed(good, ("columns", [0, 2]))
    yield "rational-matrix-shape", changed(good, ("shape", [5, 4]))
    yield "rational-matrix-rank", changed(good, ("rank", 3))
    yield "rational-matrix-witness", changed(good, ("lower.1.1", lambda x: (x + 1) % p))
    yield "rational-matrix-challenges-fewer", changed(good, ("lower", lambda w: w[:-1]))
    yield "rational-matrix-composite", changed(good, ("prime", 2**61 - 3))
    yield "rational-matrix-relation", changed(good, ("relations.1.2", lambda x: f"{int(x, 16) + 1:x}"))
    yield "rational-matrix-relation-modulo-p", changed(good, ("relations.1.2", lambda x: f"{int(x, 16) + p:x}"))
    yield "rational-matrix-relation-of-zeros", changed(good, ("relations.0", ["0", "0", "0"]))
    larger = [[noise.randrange(p) for _ in range(3)] for _ in range(4)]
    pivots = (("rows", [0, 1, 2]), ("columns", [0, 1, 2]), ("rank", 3))
    yield "rational-matrix-larger", changed(good, *pivots, ("lower", larger), ("relations", [["1", "0", "0", "0"]]))
    smaller = [w[:1] for w in good["lower"]]
    pivot = (("rows", [0]), ("columns", [0]), ("rank", 1), ("lower", smaller))
    yield "rational-matrix-smaller", changed(good, *pivot, ("relations", [["1", "2"]] * 3))
    claim = {key: good[key] for key in ("matrix", "shape")}
    yield "rational-matrix-smaller-of-another", naive.seal(naive.prove_rank_over_q([[1, -2, 3, 0, 5]] * 4, p) | claim)
    modular = {k: v for k, v in naive.prove_rank(MATRIX, p).items() if k != "upper"}
    rest = {key: good[key] for key in ("schema", "relations", "matrix")}
    yield "rational-matrix-witness-of-residues", naive.seal(modular | rest)


def forgeries(valid):  # noqa: PLR0915
    single, deep, carlo = valid["attention-single-layer"], valid["attention-defective"], valid["attention-monte-carlo"]
    ambient, product, block = valid["attention-ambient"], valid["program-product"], valid["attention-values"]
    symmetry = single["upper_bound"]
    fake = {"rule": "rescaling", "layer": 1, "head": 2, "dimension": 1}
    square, everything, free = valid["mlp-square"], valid["program-everything"], valid["program-free"]
    bigger = naive.full_spec(attention([3, 3], [2], 2))
    unused = [c for c in range(single["parameters"]) if c not in single["lower_bound"]["columns"]]
    yield "digest-of-other-content", {**single, "seed": 1}
    yield "architecture-larger", changed(single, ("architecture", bigger))
    yield (
        "architecture-larger-program-too",
        changed(
            single,
            ("architecture", bigger),
            ("program_digest", naive.digest(naive.program_of(bigger))),
            ("parameters", 21),
            ("lower_bound.inputs", single["lower_bound"]["rows"][-1] // 6 + 1),
            ("upper_bound", {"kind": "parameters", "value": 21}),
            ("dimension", {**dimension(13, 21, "bounds"), "value": None}),
            ("expected", naive.expected_dimension(bigger, 21)),
            ("defect", None),
        ),
    )
    yield "architecture-causal", changed(single, ("architecture.causal", True))
    causal = naive.full_spec(attention([3, 2], [2], 2, causal=True))
    yield (
        "architecture-causal-program-too",
        changed(
            single,
            ("architecture", causal),
            ("program_digest", naive.digest(naive.program_of(causal))),
            ("expected", None),
            ("defect", None),
        ),
    )
    yield (
        "architecture-becomes-program",
        naive.seal(
            {k: v for k, v in single.items() if k != "architecture"}
            | {"program": naive.program_of(single["architecture"]), "expected": None, "defect": None}
        ),
    )
    yield "seed-replayed", changed(single, ("seed", 1))
    yield "prime-replayed", changed(single, ("prime", 2147483629))
    yield "prime-small-replayed", changed(free, ("prime", 3))
    yield "points-of-another-seed", with_points(ElsewherePoints, attention([3, 2], [2], 2))
    for composite in (561, 2047, 1373653, 25326001, 2147483643):
        yield f"composite-{composite}", modulo_composite(composite)
    yield "challenges-fewer", changed(single, ("lower_bound.witness", lambda w: w[:-1]))
    yield "challenges-none", changed(single, ("lower_bound.witness", []))
    yield "challenges-more", changed(single, ("lower_bound.witness", lambda w: w + w[-1:]))
    yield "challenges-repeated", changed(single, ("lower_bound.witness", lambda w: [w[0]] * len(w)))
    yield "challenges-fewer-symmetry", changed(single, ("upper_bound.witness", lambda w: w[:-1]))
    yield "witness-too-short", changed(single, ("lower_bound.witness.0", lambda w: w[:-1]))
    yield "witness-not-reduced", changed(single, ("lower_bound.witness.0.0", lambda x: x + single["prime"]))
    yield "witness-zero", changed(single, ("lower_bound.witness", lambda w: [[0] * len(x) for x in w]))
    yield "rows-repeated", changed(single, ("lower_bound.rows", lambda x: x[:1] + x[:-1]))
    yield "rows-unsorted", changed(single, ("lower_bound.rows", lambda x: [x[1], x[0], *x[2:]]))
    yield "rows-shifted", changed(single, ("lower_bound.rows", lambda x: [i + 4 for i in x]), ("lower_bound.inputs", 5))
    yield "columns-repeated", changed(single, ("lower_bound.columns", lambda x: x[:1] + x[:-1]))
    yield "columns-unsorted", changed(single, ("lower_bound.columns", lambda x: [x[1], x[0], *x[2:]]))
    yield "columns-out-of-range", changed(single, ("lower_bound.columns", lambda x: [*x[:-1], 18]))
    yield "columns-others", changed(single, ("lower_bound.columns", lambda x: sorted([*x[:-1], unused[0]])))
    yield "columns-fewer", changed(single, ("lower_bound.columns", lambda x: x[:-1]))
    yield "inputs-more", changed(single, ("lower_bound.inputs", lambda x: x + 1))
    yield "row-far-away", changed(single, ("lower_bound.rows.12", 10**24), ("lower_bound.inputs", 10**24 // 4 + 1))
    yield "rank-larger", larger_rank(single, single["lower_bound"]["rows"][-1] + 4, unused[0], 4)
    yield (
        "rank-larger-bounds",
        changed(
            larger_rank(product, 4, 1, 2),
            ("upper_bound", product["upper_bound"]["theorem"]),
            ("assumptions", lambda x: x[:1]),
        ),
    )
    yield (
        "rank-smaller-called-exact",
        changed(
            free,
            *((f"lower_bound.{key}", lambda x: x[:-1]) for key in ("rows", "columns")),
            ("lower_bound.witness", lambda w: [x[:-1] for x in w]),
            ("lower_bound.inputs", 2),
        ),
    )
    yield "generator-added", changed(single, ("upper_bound.generators", lambda x: [*x, fake]))
    yield "generator-larger", changed(single, ("upper_bound.generators.0.dimension", 6))
    yield "generators-none", changed(single, ("upper_bound.generators", []))
    yield "generators-reordered", changed(single, ("upper_bound.generators", lambda x: x[::-1]))
    noise = random.Random(2)
    columns = list(range(5))
    more = [[noise.randrange(single["prime"]) for _ in range(6)] for _ in range(4)]
    yield (
        "generator-added-with-rank",
        changed(
            single,
            ("upper_bound.generators", lambda x: [*x, fake]),
            ("upper_bound.rows", lambda x: sorted({*x, *range(18)})[:6]),
            ("upper_bound.columns", [*columns, 5]),
            ("upper_bound.witness", more),
            ("upper_bound.value", 12),
            ("dimension", {"lower": 13, "upper": 12, "value": None, "status": "bounds", "error": None}),
            ("defect", None),
        ),
    )
    yield "symmetry-value-smaller", changed(single, ("upper_bound.value", 12), ("dimension.upper", 12))
    yield (
        "symmetry-of-a-program",
        changed(
            free,
            ("upper_bound", {**symmetry, "value": 3, "generators": [], "rows": [], "columns": [], "witness": [[]] * 4}),
        ),
    )
    yield "parameters-value-smaller", changed(free, ("upper_bound.value", 2), ("dimension.upper", 2))
    yield "parameters-wrong", changed(single, ("parameters", 17))
    yield "ambient-wrong", changed(ambient, ("upper_bound.value", 13), ("dimension.upper", 13))
    yield (
        "ambient-other-rule",
        changed(ambient, ("upper_bound.rule", "degrees" if ambient["upper_bound"]["rule"] == "tokens" else "tokens")),
    )
    yield "ambient-tokens-deep", changed(deep, ("upper_bound", {"kind": "ambient", "value": 18, "rule": "tokens"}))
    composed = valid["mlp-composed"]
    yield (
        "composition-wrong",
        changed(composed, ("upper_bound.value", lambda x: x - 1), ("dimension.upper", lambda x: x - 1)),
    )
    for name in ("mlp-identity", "attention-defective", "program-free"):
        bound = {"kind": "composition", "value": valid[name]["dimension"]["upper"]}
        yield f"composition-of-{name}", changed(valid[name], ("upper_bound", bound))
    yield "ambient-tokens-program", changed(free, ("upper_bound", {"kind": "ambient", "value": 3, "rule": "tokens"}))
    yield "status-better", changed(carlo, ("dimension.status", "exact"))
    yield "status-unknown", changed(single, ("dimension.status", "certain"))
    yield "status-bounds", changed(single, ("dimension", {**dimension(13), "value": None, "status": "bounds"}))
    yield (
        "bounds-called-exact",
        changed(valid["attention-bounds"], ("dimension.value", 12), ("dimension.status", "exact")),
    )
    yield "error-dropped", changed(carlo, ("dimension.error", None))
    yield (
        "error-smaller",
        changed(
            carlo,
            *((key, -200) for key in ("dimension.error", "upper_bound.error")),
            ("assumptions.1", lambda x: x.replace(str(carlo["dimension"]["error"]), "-200")),
        ),
    )
    yield "expected-value", changed(deep, ("expected.value", 18), ("defect", 0))
    yield "expected-holds", changed(deep, ("expected.hypotheses.3.holds", True), ("expected.holds", True))
    yield "expected-dropped", changed(deep, ("expected", None), ("defect", None))
    yield "expected-invented", changed(block, ("expected", deep["expected"]))
    yield "expected-theorem", changed(square, ("expected.status", "theorem"))
    yield "defect-hidden", changed(deep, ("defect", 0))
    yield "assumptions-none", changed(single, ("assumptions", []))
    yield "assumptions-dropped", changed(carlo, ("assumptions", lambda x: x[:1]))
    yield "assumptions-added", changed(single, ("assumptions", lambda x: [*x, "The moon is round."]))
    yield "trials-not-asked-for", changed(carlo, ("method.error", None))
    yield "trials-more-asked-for", changed(carlo, ("method.error", -500))
    yield "trials-fewer", changed(carlo, ("upper_bound.trials", lambda x: x[:-1]))
    yield "trials-none", changed(carlo, ("upper_bound.trials", []))
    yield "trials-primes-chosen", changed(carlo, ("upper_bound.trials.0.prime", 2147483629))
    yield "trials-primes-swapped", changed(carlo, ("upper_bound.trials", lambda x: x[::-1]))
    yield "trials-rank", changed(carlo, ("upper_bound.trials.0.rank", 13))
    yield "trials-inputs", changed(carlo, ("upper_bound.inputs", lambda x: x - 1))
    yield "trials-degree", changed(carlo, ("upper_bound.degree", lambda x: x - 1))
    yield "trials-norm", changed(carlo, ("upper_bound.norm_bits", lambda x: x - 1))
    yield "trials-theorem", changed(carlo, ("upper_bound.theorem.value", lambda x: x - 1))
    yield "trials-value", changed(carlo, ("upper_bound.value", 13), ("dimension.upper", 13))
    yield (
        "trials-exact-theorem",
        changed(carlo, ("upper_bound.theorem", {"kind": "ambient", "value": 12, "rule": "degrees"})),
    )
    yield "program-other-name", changed(everything, ("program.parameters.1.0", "B"))
    yield "program-other-constant", changed(everything, ("program.instructions.5.2.3", 1))
    swapped = changed(everything, ("program.instructions.5.2.3", 1))["program"]
    yield (
        "program-other-constant-digest-too",
        changed(everything, ("program", swapped), ("program_digest", naive.digest(swapped))),
    )


# -- malformed files


def malformed(valid):  # noqa: PLR0915
    single, free, carlo = valid["attention-single-layer"], valid["program-free"], valid["attention-monte-carlo"]
    text = naive.canonical(single)

    def spec(base=single, **changes):
        return changed(base, *((f"architecture.{key}", value) for key, value in changes.items()))

    def instructions(*some, output=None):
        return changed(
            free,
            ("program.instructions", [*free["program"]["instructions"], *some]),
            ("program.output", 1 + len(some) + 2 if output is None else output),
        )

    yield "empty", b""
    yield "space", b" \n"
    yield "truncated", text[: len(text) // 2].encode()
    yield "trailing", text.encode() + b"{}"
    yield "binary", bytes(range(256))
    yield "utf-16", text.encode("utf-16")
    yield "utf-8-broken", text.replace("cube", "\xe4").replace("random", "r\xe4ndom").encode("latin-1")
    yield "byte-order-mark", b"\xef\xbb\xbf" + text.encode()
    yield "gzip-truncated", gzip.compress(text.encode(), mtime=0)[:-20]
    yield "gzip-not", b"\x1f\x8b" + text.encode()
    yield "nested-lists", b"[" * 100000
    yield "nested-objects", b'{"a":' * 20000
    yield "nested-program", text.replace('"seed":0', '"seed":' + "[" * 5000 + "]" * 5000).encode()
    yield "nan", text.replace('"seed":0', '"seed":NaN').encode()
    yield "infinity", text.replace('"seed":0', '"seed":-Infinity').encode()
    yield "float", text.replace('"seed":0', '"seed":0.0').encode()
    yield "exponent", text.replace('"seed":0', '"seed":1e999999999').encode()
    yield "huge-integer", text.replace('"seed":0', '"seed":1' + "0" * 100000).encode()
    yield "integer-26-digits", text.replace('"seed":0', '"seed":1' + "0" * 25).encode()
    yield "duplicate-key", text.replace('"seed":0', '"seed":1,"seed":0').encode()
    yield "duplicate-key-inside", text.replace('"causal":', '"causal":true,"causal":').encode()
    for name, value in {"list": [], "number": 17, "null": None, "string": "certificate", "true": True}.items():
        yield f"top-level-{name}", value
    yield "top-level-list-of-certificates", [single]
    yield "empty-object", {}
    yield "key-missing", naive.seal({k: v for k, v in single.items() if k != "assumptions"})
    yield "key-unknown", naive.seal(single | {"time": 17})
    yield "key-unknown-inside", naive.seal(single | {"versions": {"ffrank": "1", "python": "3"}})
    yield "architecture-and-program", naive.seal(single | {"program": free["program"]})
    yield "schema-other", changed(single, ("schema", "ffrank-certificate/2"))
    yield "seed-negative", changed(single, ("seed", -1))
    yield "seed-65-bits", changed(single, ("seed", 2**64))
    yield "seed-true", changed(single, ("seed", True))
    yield "seed-string", changed(single, ("seed", "0"))
    yield "prime-2", changed(single, ("prime", 2))
    yield "prime-32-bits", changed(single, ("prime", 2**31 + 11))
    yield "prime-negative", changed(single, ("prime", -7))
    yield "error-zero", changed(single, ("method.error", 0))
    yield "point-structured", changed(single, ("method.point", "structured"))
    yield "rows-negative", changed(single, ("lower_bound.rows.0", -1))
    yield "rows-boolean", changed(single, ("lower_bound.rows.0", False))
    yield "witness-object", changed(single, ("lower_bound.witness", {}))
    yield "witness-null", changed(single, ("lower_bound.witness.0.0", None))
    yield "upper-unknown", changed(single, ("upper_bound", {"kind": "magic", "value": 13}))
    yield "upper-kind-list", changed(single, ("upper_bound.kind", ["symmetry"]))
    yield "theorem-monte-carlo", changed(carlo, ("upper_bound.theorem", carlo["upper_bound"]))
    yield "architecture-unknown-kind", spec(kind="rnn")
    yield "architecture-score", spec(score="linear")
    yield "architecture-norm", spec(norm="batch")
    yield "architecture-activation", spec(mlp_width=2, activation="relu")
    softmax = valid["softmax-single-layer"]
    yield "redraws-negative", changed(softmax, ("lower_bound.redraws", [[-1, 0]]))
    yield "redraws-33-bits", changed(softmax, ("lower_bound.redraws", [[2**32, 0]]))
    yield "redraws-numbers", changed(softmax, ("lower_bound.redraws", [0, 0]))
    yield "hypotheses-missing", naive.seal({k: v for k, v in softmax.items() if k != "hypotheses"})
    yield "hypotheses-unknown", changed(softmax, ("hypotheses", {**softmax["hypotheses"], "logarithms": None}))
    yield "exponents-list", changed(softmax, ("hypotheses.exponents", []))
    yield "exponents-unknown-key", changed(softmax, ("hypotheses.exponents", lambda x: {**x, "relations": []}))
    yield "roots-null-row", changed(valid["norm-rms"], ("hypotheses.roots.0.rows.0", None))
    rank = naive.prove_rank(MATRIX, 7)
    yield "rank-negative", changed(rank, ("rank", -1))
    yield "rank-prime-62-bits", changed(rank, ("prime", 2**61 + 15))
    yield "rank-shape-three", changed(rank, ("shape", [4, 5, 1]))
    yield "rank-key-unknown", naive.seal(rank | {"kind": "matrix"})
    yield "rank-key-missing", naive.seal({k: v for k, v in rank.items() if k != "upper"})
    over_q = naive.prove_rank_over_q(MATRIX, 2**31 - 1)
    yield "rational-rank-with-upper", naive.seal(over_q | {"upper": over_q["lower"]})
    yield "rational-rank-without-relations", naive.seal({k: v for k, v in over_q.items() if k != "relations"})
    yield "rational-rank-relations-fewer", changed(over_q, ("relations", lambda x: x[:-1]))
    yield "rational-rank-relations-more", changed(over_q, ("relations", lambda x: [*x, x[-1]]))
    yield "rational-rank-relation-short", changed(over_q, ("relations.0", lambda x: x[:-1]))
    yield "rational-rank-relation-decimal", changed(over_q, ("relations.0.0", "0x1"))
    yield "rational-rank-relation-numbers", changed(over_q, ("relations.0", [1, 2, 0]))
    yield "architecture-zero-width", spec(widths=[3, 0])
    yield "architecture-no-layer", spec(widths=[3], attention_dims=[])
    yield "architecture-lengths", spec(attention_dims=[2, 2])
    yield "architecture-residual-widths", spec(residual=True)
    yield "architecture-power-3", spec(mlp_width=2, activation={"power": 3})
    yield "architecture-power-1001", spec(mlp_width=2, activation={"power": 1001})
    yield "architecture-idle-activation", spec(activation="cube")
    yield "architecture-boolean", spec(causal=1)
    yield "absurd-width", spec(widths=[10**9, 10**9])
    yield "absurd-dims", spec(attention_dims=[10**24])
    yield "absurd-heads", spec(heads=10**9)
    yield "absurd-heads-mask", spec(heads=10**9, causal=True, tokens=10**6)
    yield "absurd-tokens", spec(tokens=10**12)
    yield "absurd-tokens-causal", spec(tokens=10**8, causal=True)
    yield "absurd-depth", spec(widths=[1] * 20001, attention_dims=[1] * 20000, heads=1000)
    yield "absurd-broadcast", instructions(["reshape", 3, []], ["broadcast", 4, [10**9, 10**9]])
    yield "absurd-axes", instructions(["broadcast", 3, [10**24] * 1000])
    yield "many-axes", instructions(["broadcast", 3, [1] * 1000])
    powers = [["pow", i, 10**24] for i in range(3, 3000)]
    chain = instructions(*powers)
    yield (
        "power-chain",
        changed(
            chain,
            ("program_digest", naive.digest(chain["program"])),
            ("upper_bound", {"kind": "ambient", "value": 3, "rule": "degrees"}),
        ),
    )
    yield "instruction-unknown", instructions(["log", 3])
    yield "instruction-empty", instructions([])
    yield "instruction-string", instructions("exp")
    yield "instruction-name-list", instructions([["add"], 3, 3])
    yield "instruction-too-long", instructions(["add", 3, 3, 3])
    yield "instruction-later-node", instructions(["add", 4, 4])
    yield "instruction-itself-negative", instructions(["neg", -1])
    yield "instruction-shapes", instructions(["add", 0, 1])
    yield "instruction-matmul", instructions(["matmul", 0, 0])
    yield "instruction-axis", instructions(["sum", 3, 2])
    yield "instruction-permutation", instructions(["transpose", 3, [0, 0]])
    yield "instruction-slice-empty", instructions(["slice", 0, [[0, 1, 1], [2, 2, 1]]])
    yield "instruction-slice-beyond", instructions(["slice", 0, [[0, 1, 1], [0, 4, 1]]])
    yield "instruction-slice-pair", instructions(["slice", 0, [[0, 1], [0, 3]]])
    yield "instruction-reshape", instructions(["reshape", 0, [2, 2]])
    yield "instruction-reshape-zero", instructions(["reshape", 0, [0]])
    yield "instruction-broadcast", instructions(["broadcast", 0, [3]])
    yield "instruction-concat-nothing", instructions(["concat", 0])
    yield "instruction-concat", instructions(["concat", 0, 0, 1])
    yield "instruction-const-length", instructions(["const", [2, 2], [1, 2, 3]])
    yield "instruction-power-zero", instructions(["pow", 3, 0])
    yield "output-missing-node", instructions(output=4)
    yield "output-negative", instructions(output=-1)
    yield "names-equal", changed(free, ("program.inputs.0.0", "w"))
    yield "name-empty", changed(free, ("program.inputs.0.0", ""))
    yield "name-without-shape", changed(free, ("program.inputs.0", ["x"]))
    yield "program-format", changed(free, ("program.format", "ffrank-program/2"))
    yield "program-list", changed(free, ("program", []))


def files():
    """All files of the corpus: {path inside the folder: bytes}."""
    valid = honest()
    result = {f"valid/{name}.json": pretty(certificate) for name, certificate in valid.items()}
    single = naive.canonical(valid["attention-single-layer"]).encode()
    result["valid/attention-packed.json.gz"] = gzip.compress(single, mtime=0)
    result["valid/versions-differ.json"] = pretty(valid["mlp-square"] | {"versions": {"ffrank": "99"}})
    result |= {f"valid/{name}.json": pretty(certificate) for name, certificate in ranks().items()}
    result["matrix/planted.csv"] = "".join(",".join(map(str, row)) + "\n" for row in MATRIX).encode()
    entries = [(i, j, x) for i, row in enumerate(MATRIX, 1) for j, x in enumerate(row, 1) if x]
    lines = ["4 5 M", *(f"{i} {j} {x}" for i, j, x in entries), "0 0 0"]
    result["matrix/planted.sms"] = "".join(line + "\n" for line in lines).encode()
    forged = [*forgeries(valid), *transcendental_forgeries(valid), *rank_forgeries(ranks())]
    forged += rational_rank_forgeries(ranks())
    for folder, some in (("invalid", forged), ("malformed", malformed(valid))):
        for name, content in some:
            assert f"{folder}/{name}.json" not in result
            result[f"{folder}/{name}.json"] = content if isinstance(content, bytes) else pretty(content)
    return result


def pretty(content):
    return naive.canonical(content).encode() + b"\n"


def main():
    for path, content in files().items():
        (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / path).write_bytes(content)


if __name__ == "__main__":
    main()
