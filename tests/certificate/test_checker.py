"""The independent checker, against the naive prover and a corpus of certificates that it must accept or refuse."""

import ast
import copy
import importlib.util
import itertools
import json
import operator
import pathlib
import random
import subprocess
import sys
import time
from fractions import Fraction

import pytest
import sympy

from . import make_corpus
from . import naive_prover as naive
from .make_corpus import attention, mlp, program

PATH = pathlib.Path(__file__).parents[2] / "ffrank" / "certificate" / "checker.py"
CORPUS = pathlib.Path(__file__).parent / "corpus"
MATRIX = CORPUS / "matrix" / "planted.csv"


def load():
    """The checker from its file alone, as one would use it without ffrank."""
    spec = importlib.util.spec_from_file_location("lone_checker", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["lone_checker"] = module
    spec.loader.exec_module(module)
    return module


checker = load()
P = 2**31 - 1


def run(*arguments):
    command = [sys.executable, "-I", str(PATH), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def names(folder):
    return sorted((CORPUS / folder).iterdir())


def valid(name):
    return json.loads((CORPUS / "valid" / f"{name}.json").read_text())


def verdict(certificate, **options):
    try:
        checker.check(certificate, **options)
    except checker.Invalid:
        return "invalid"
    except checker.Malformed:
        return "malformed"
    return "valid"


# -- the corpus, as files


def test_the_corpus_is_what_the_script_writes():
    files = make_corpus.files()
    assert {str(path.relative_to(CORPUS)) for path in CORPUS.glob("*/*")} == set(files)
    for path, content in files.items():
        assert (CORPUS / path).read_bytes() == content, path


@pytest.mark.parametrize(("folder", "status"), [("valid", 0), ("invalid", 1), ("malformed", 2)])
def test_corpus(folder, status):
    result = run("--json", "--matrix", MATRIX, *names(folder))
    assert result.returncode == status
    assert result.stderr == ""
    verdicts = {pathlib.Path(x["file"]): x for x in json.loads(result.stdout)}
    assert set(verdicts) == set(names(folder))
    assert {str(path): x["reason"] for path, x in verdicts.items() if x["verdict"] != folder} == {}
    for x in verdicts.values():
        assert (x["reason"] is None) == (folder == "valid")
        assert (x["dimension"] is not None) == bool(x["verified"]) == (folder == "valid")


def test_corpus_in_full():
    matrix = CORPUS / "matrix" / "planted.sms"
    assert run("--full", "--matrix", matrix, *names("valid")).returncode == 0


def test_a_line_for_each_failing_file():
    some = names("invalid")[:15] + names("malformed")[:15]
    result = run(*some)
    assert (result.returncode, result.stdout) == (2, "")
    lines = result.stderr.splitlines()
    assert len(lines) == len(some)
    for path, line in zip(some, lines, strict=True):
        assert line.startswith(f"{path}: {path.parent.name}: ")
        assert len(line) < len(str(path)) + 300


def test_worst_status_of_all():
    good, bad, broken = names("valid")[0], names("invalid")[0], names("malformed")[0]
    assert run(good, bad, good).returncode == 1
    assert run(bad, broken, good).returncode == 2
    mixed = run(bad, good)
    assert len(mixed.stderr.splitlines()) == 1
    assert f"{good}: valid: dimension 12 (exact), 24 parameters" in mixed.stdout


def test_matrices():
    path = CORPUS / "valid" / "rank-7.json"
    result = run(path)
    assert (result.returncode, "--matrix" in result.stderr) == (2, True)
    result = run("--matrix", MATRIX, path)
    assert f"{path}: valid: rank 2 of a 4 x 5 matrix mod 7" in result.stdout
    assert "on trust: The SHAKE-256 challenges" in result.stdout
    assert run("--matrix", CORPUS / "matrix" / "missing.csv", path).returncode == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"1,2\n3,4\n", ([[1, 2], [3, 4]], 2)),
        (b"-1 8\r\n\n +3\t4", ([[-1, 8], [3, 4]], 2)),
        (b"2/4,-3\n1,0/5", ([[Fraction(1, 2), -3], [1, 0]], 2)),
        (b"1 2 M\n1 1 -1/3\n0 0 0", ([[Fraction(-1, 3), 0]], 2)),
        (b"", ([], 0)),
        (b"2 3 M\n2 3 -1\n0 0 0\n", ([[0, 0, 0], [0, 0, -1]], 3)),
        (b"2 0 M\n0 0 0", ([[], []], 0)),
        (b"0 2 M\n0 0 0", ([], 2)),
        (b"1 2\n3", None),
        (b"1,x", None),
        (b"1.0", None),
        (b"1e3", None),
        (b"1/0", None),
        (b"1/2/3", None),
        (b"2 3 M\n1/2 1 1\n0 0 0", None),
        (b"9" * 5000, None),
        (b"2 3 M\n1 1 1", None),
        (b"2 3 M\n3 1 1\n0 0 0", None),
        (b"2 3 M\n1 0 1\n0 0 0", None),
        (b"2 3 M\n1 1 1\n1 1 2\n0 0 0", None),
        (b"2 3 M\n1 1\n0 0 0", None),
        (b"2 3 M", None),
        (b"-1 3 M\n0 0 0", None),
        (b"1000000000 1000000000 M\n0 0 0", None),
        (b"\xff", None),
    ],
)
def test_files_of_matrices(text, expected):
    if expected is None:
        with pytest.raises(checker.Malformed):
            checker.read_matrix(text, 10**9)
    else:
        assert checker.read_matrix(text, 10**9) == expected


@pytest.mark.parametrize("p", [2, 3, 257, P, 2**61 - 1])
def test_ranks_of_matrices(p):
    noise = random.Random(p)
    for _ in range(20):
        m, k, n = (noise.randrange(0, 6) for _ in range(3))
        A = [[noise.randrange(-9, 9) for _ in range(k)] for _ in range(m)]
        B = [[noise.randrange(-9, 9) for _ in range(n)] for _ in range(k)]
        M = [[sum(a[j] * B[j][i] for j in range(k)) for i in range(n)] for a in A]
        certificate = naive.prove_rank(M, p, n)
        entries = "".join(f"{i + 1} {j + 1} {M[i][j]}\n" for i in range(m) for j in range(n))
        text = f"{m} {n} M\n{entries}0 0 0\n".encode()
        for full in (False, True):
            assert checker.check(certificate, full, matrix=text).dimension["value"] == certificate["rank"]


def test_what_is_on_trust_is_said():
    path = CORPUS / "valid" / "attention-monte-carlo.json"
    quick, full = run(path).stdout, run("--full", path).stdout
    assert "dimension 12 (exact-with-probability, error 2^-62), 28 parameters" in quick
    assert "on trust: the ranks of the 3 Monte-Carlo trials, at most 12 (--full computes them)" in quick
    assert "on trust: The SHAKE-256 challenges behave as random" in quick
    assert "on trust: The trial primes and points" in quick
    assert "verified: the ranks of the 3 Monte-Carlo trials, at most 12, were computed" in full
    assert "on trust: The SHAKE-256 challenges" not in full
    assert "on trust: The trial primes and points" in full
    quick = run(CORPUS / "valid" / "transformer-block.json").stdout
    assert "on trust: J. Ax, On Schanuel's conjectures" in quick
    assert "verified: 8 exponents of an input are independent, by witness" in quick
    assert "verified: the 2 arguments of roots of stage 2 are independent modulo constants and squares" in quick


def test_unusable_files(tmp_path):
    for path in (tmp_path / "missing.json", tmp_path):
        result = run(path)
        assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
    assert run().returncode == 2
    assert run("--ful", names("valid")[0]).returncode == 2


def test_budget():
    path = CORPUS / "valid" / "attention-single-layer.json"
    result = run("--max-work", "1000", path)
    assert result.returncode == 2
    assert "--max-work" in result.stderr
    assert "1000 are allowed" in result.stderr
    assert verdict(path.read_bytes(), max_work=10**6) == "malformed"
    assert verdict(path.read_bytes(), max_work=10**7) == "valid"


def test_malformed_files_take_no_time():
    for path in names("malformed"):
        start = time.perf_counter()
        assert verdict(path.read_bytes(), matrix=MATRIX.read_bytes()) == "malformed"
        assert time.perf_counter() - start < 5, path


def test_the_process_is_quick():
    path = CORPUS / "valid" / "attention-single-layer.json"
    times = []
    for _ in range(5):
        start = time.perf_counter()
        assert run(path).returncode == 0
        times.append(time.perf_counter() - start)
    assert min(times) < 0.3


def test_standard_library_only():
    text = PATH.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 1200
    modules = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            modules.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
    assert modules <= set(sys.stdlib_module_names)
    assert not {"ctypes", "importlib", "subprocess", "os", "pickle"} & modules


# -- as a library


def test_bytes_text_and_objects():
    path = CORPUS / "valid" / "attention-defective.json"
    certificate = json.loads(path.read_text())
    before = copy.deepcopy(certificate)
    reports = [checker.check(x) for x in (path.read_bytes(), path.read_text(), certificate)]
    assert reports[0] == reports[1] == reports[2]
    assert certificate == before
    assert reports[0].parameters == 42
    assert reports[0].dimension == certificate["dimension"]
    with pytest.raises(AttributeError):
        reports[0].parameters = 1


@pytest.mark.parametrize(
    "value", [1.5, float("nan"), {1}, b"7", 10**5000, object(), (1, {2: 3}), 10**25], ids=lambda x: type(x).__name__
)
def test_objects_that_are_no_json(value):
    certificate = valid("attention-single-layer")
    assert verdict(certificate | {"seed": value}) == "malformed"
    assert verdict(certificate | {"architecture": {"kind": value}}) in ("malformed", "invalid")
    assert verdict(value) == "malformed"


def test_objects_that_contain_themselves():
    certificate = valid("attention-single-layer")
    certificate["architecture"]["widths"] = certificate
    assert verdict(certificate) == "malformed"
    deep = []
    for _ in range(100000):
        deep = [deep]
    assert verdict(valid("attention-single-layer") | {"seed": deep}) == "malformed"


# -- every leaf


def places(x, path=()):
    """All paths into a JSON value, to leaves and containers."""
    yield path
    items = x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


def mutations(x):
    if isinstance(x, bool):
        yield from (not x, int(x), None)
    elif isinstance(x, int):
        yield from (x + 1, x - 1, -x, x + 2**31 - 1, str(x), None, [x], True, float(x))
    elif isinstance(x, str):
        yield from (x + "x", x.upper(), "", None, 0, [x])
    elif x is None:
        yield from (0, 1, -1, "", "null", [], {}, False)
    elif isinstance(x, list):
        yield from ([], None, {}, x[1:], x[:-1], x[::-1], x + x[-1:], [*x, 0], [*x, []])
    else:
        yield from ({}, None, [], x | {"more": 0})
        yield from ({k: v for k, v in x.items() if k != key} for key in x)


def same(x, y):
    return naive.canonical(x) == naive.canonical(y)


def judged(certificate):
    return verdict(certificate, matrix=MATRIX.read_bytes())


def mutated(certificate):
    for path in places(certificate):
        place = certificate
        for key in path:
            place = place[key]
        for value in mutations(place):
            if same(value, place):
                continue
            if not path:
                yield path, value
                continue
            result = copy.deepcopy(certificate)
            inner = result
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = value
            yield path, result


MUTATED = [
    "program-product",
    "program-linear",
    "mlp-square",
    "mlp-fourth-power",
    "program-constant",
    "program-nothing",
    "softmax-one-token",
    "mlp-sigmoid",
    "rank-7",
]


@pytest.mark.parametrize("name", MUTATED)
def test_every_change_is_refused(name):
    survivors = []
    for path, result in mutated(valid(name)):
        if judged(result) == "valid" and path[:1] != ("versions",):
            survivors.append((path, result))
    assert survivors == []


def carries_no_claim(path, name):
    """Versions; the error that was asked for (it may be surpassed); the seed of a rank of zero; ranks on trust."""
    zero = name in ("program-constant", "program-nothing")
    trial = path[:2] == ("upper_bound", "trials") and path[-1:] == ("rank",)
    return path in (("versions",), ("versions", "ffrank"), ("method", "error")) or (path == ("seed",) and zero) or trial


@pytest.mark.parametrize("name", MUTATED)
def test_every_change_is_refused_with_its_digest_recomputed(name):
    survivors = []
    for path, result in mutated(valid(name)):
        if path[:1] == ("digest",) or not isinstance(result, dict):
            continue
        if judged(reseal(result)) == "valid" and not carries_no_claim(path, name):
            survivors.append((path, result))
    assert survivors == []


def test_the_error_that_is_asked_for_decides_the_trials():
    certificate = valid("program-product")
    upper, changed = certificate["upper_bound"], make_corpus.changed
    valid_errors = {e for e in range(1, 200) if verdict(changed(certificate, ("method.error", -e))) == "valid"}
    K, reached = len(upper["trials"]), -upper["error"]
    _, less = checker.trials_needed(upper["degree"], upper["norm_bits"], 1 + (K - 2) * reached // K)
    assert valid_errors == set(range(less + 1, reached + 1))


def test_ranks_of_trials():
    """They are at most the dimension, and what they are is seen in full."""
    certificate = valid("program-product")
    for rank, quick, full in ((0, "valid", "invalid"), (1, "valid", "valid"), (2, "invalid", "invalid")):
        result = make_corpus.changed(certificate, ("upper_bound.trials.1.rank", rank))
        assert (verdict(result), verdict(result, full=True)) == (quick, full)


def reseal(certificate):
    return naive.seal(certificate) if "digest" in certificate else certificate


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*make_corpus.VALID, *make_corpus.ranks()} - set(MUTATED)))
def test_every_change_of_all_certificates(name):
    for path, result in mutated(valid(name)):
        if not isinstance(result, dict) or carries_no_claim(path, name):
            continue
        assert judged(result) != "valid", path
        assert path == ("digest",) or judged(reseal(result)) != "valid", path


@pytest.mark.parametrize("seed", range(3))
def test_garbled_files(seed):
    noise = random.Random(seed)
    text = bytearray((CORPUS / "valid" / "mlp-square.json").read_bytes())
    for _ in range(300):
        garbled = bytearray(text)
        for _ in range(noise.choice([1, 1, 1, 5, 100])):
            garbled[noise.randrange(len(garbled))] = noise.choice(b'0123456789"[]{},:.eE+-\\ntfu\xff\x00 ')
        try:
            untouched = json.loads(garbled) == json.loads(text)
        except (ValueError, RecursionError):
            untouched = False
        harmless = untouched or b"versions" in garbled
        assert verdict(bytes(garbled)) != "valid" or harmless


# -- what the checker trusts, and what it does not


def lying_trials(monkeypatch):
    """A certificate for (a x, b x) that claims the rank 1, with one honest pivot and trials that were never run."""
    subject = program(
        [["a", [2]]],
        [["x", []]],
        [["broadcast", 1, [2]], ["mul", 0, 2]],
        3,
    )
    points = naive.Points(subject, P, 0)
    J = points.jacobian(1)
    monkeypatch.setattr(naive, "independent", lambda rows, p: [0])
    theorem = {"kind": "parameters", "value": 2}
    upper = naive.monte_carlo(points, 1, 1, -60, theorem)
    honest = naive.prove(make_corpus.PRODUCT)
    lower = {
        "inputs": 1,
        "redraws": [],
        "rows": [0],
        "columns": [0],
        "witness": points.witness("lower", 1, [0], [0], [[J[0][0]]]),
    }
    dimension = {"lower": 1, "upper": 1, "value": 1, "status": "exact-with-probability", "error": upper["error"]}
    return naive.seal(
        honest
        | {"program": subject, "program_digest": points.digest, "parameters": 2, "dimension": dimension}
        | {"lower_bound": lower, "upper_bound": upper}
        | {
            "assumptions": [
                *honest["assumptions"][:1],
                honest["assumptions"][1].split("2^")[0] + f"2^{upper['error']}.",
            ]
        }
    )


def test_ranks_of_trials_are_computed_in_full_only(monkeypatch):
    certificate = lying_trials(monkeypatch)
    assert any("Monte-Carlo trials" in x for x in checker.check(certificate).trusted)
    with pytest.raises(checker.Invalid, match="trial"):
        checker.check(certificate, full=True)


def test_singular_minors_are_found_in_full(monkeypatch):
    certificate = valid("mlp-square")
    monkeypatch.setattr(checker, "rank", lambda rows, p, enough: len(list(rows)) - 1)
    checker.check(certificate)
    with pytest.raises(checker.Invalid, match="singular"):
        checker.check(certificate, full=True)


# -- the parts


def test_primes():
    assert [n for n in range(5000) if checker.is_prime(n)] == [n for n in range(5000) if naive.is_prime(n)]
    large = range(2**61 - 2000, 2**61)
    assert [n for n in large if checker.is_prime(n)] == [n for n in large if sympy.isprime(n)]
    assert not any(map(checker.is_prime, (3215031751, 3825123056546413051, 341550071728321, 2**61 + 1)))
    liars = [561, 1105, 1729, 2047, 3277, 4033, 1373653, 1530787, 25326001, 161304001, 2152302898747 % 2**31]
    assert [n for n in liars if checker.is_prime(n)] == [n for n in liars if naive.is_prime(n)]
    assert checker.is_prime(2**31 - 1)
    assert not checker.is_prime(2**31 - 3)
    noise = random.Random(0)
    some = [noise.randrange(2**30, 2**31) for _ in range(300)]
    assert [n for n in some if checker.is_prime(n)] == [n for n in some if naive.is_prime(n)]


@pytest.mark.parametrize("p", [3, 5, 257, 65537, 2**30 + 3, 2**31 - 1])
def test_streams(p):
    for count in (0, 1, 7, 1000):
        assert checker.stream("hello\nworld", p, count) == naive.stream("hello\nworld", p, count)
    assert [checker.bits(x) for x in range(100)] == [naive.bits(x) for x in range(100)]


@pytest.mark.parametrize("p", [3, 5, 65537, P])
def test_rank(p):
    noise = random.Random(p)
    for _ in range(50):
        m, k, n = (noise.randrange(1, 8) for _ in range(3))
        A = [[noise.randrange(p) for _ in range(k)] for _ in range(m)]
        B = [[noise.randrange(p) for _ in range(n)] for _ in range(k)]
        rows = [[sum(a[j] * B[j][i] for j in range(k)) % p for i in range(n)] for a in A]
        r = len(naive.independent(rows, p))
        assert checker.rank(rows, p, 99) == r
        assert checker.rank(rows, p, 2) == min(r, 2)


def random_spec(noise):
    smooth = ["tanh", "sigmoid", "silu"]
    if noise.random() < 0.35:
        widths = [noise.randrange(1, 4) for _ in range(noise.randrange(2, 5))]
        activation = noise.choice(["identity", "square", "cube", {"power": 4}, {"power": 5}, *smooth])
        return mlp(widths, activation=activation, bias=noise.random() < 0.5)
    layers = noise.choice([1, 1, 2, 2, 3])
    widths = [noise.randrange(1, 4) for _ in range(layers + 1)]
    more = {"heads": noise.choice([1, 1, 2]), "value_dim": noise.choice([None, None, 1, 2])}
    more |= {key: noise.random() < 0.3 for key in ("causal", "residual", "qk_bias")}
    more["score"] = noise.choice(["lightning", "lightning", "softmax", "normalized"])
    more["norm"] = noise.choice(["none", "none", "none", "rms", "layer"])
    if more["residual"]:
        widths = widths[:1] * len(widths)
    if noise.random() < 0.4:
        activation = noise.choice(["identity", "square", "cube", *smooth])
        more |= {"mlp_width": noise.randrange(1, 3), "activation": activation}
    return attention(widths, [noise.randrange(1, 4) for _ in range(layers)], noise.randrange(1, 4), **more)


SPECS = [random_spec(random.Random(i)) for i in range(300)]
SMALL = [spec for spec in SPECS if naive.Points(naive.program_of(naive.full_spec(spec)), 3, 0).P <= 45]


def both_programs(spec):
    full = naive.full_spec(spec)
    own = checker.Program(checker.MAX_WORK).build(checker.architecture(full))
    return full, own, naive.program_of(full)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_two_builders_write_one_program(spec):
    full, own, other = both_programs(spec)
    assert own.document() == other
    shapes = naive.shapes_of(other)
    assert [list(shape) for shape in own.shapes] == shapes
    assert checker.expected_dimension(checker.architecture(full), own.P) == naive.expected_dimension(full, own.P)


def test_the_random_architectures_are_of_all_sorts():
    found = {spec["kind"] for spec in SMALL} | {key for spec in SMALL for key, value in spec.items() if value is True}
    for spec in SMALL:
        full, own, _ = both_programs(spec)
        found |= {document["rule"] for document, _ in checker.Symmetries(checker.architecture(full), own).families}
        found |= {spec.get("score"), spec.get("norm"), str(spec["activation"]) if "activation" in spec else ""}
    rules = "split-orthogonal general-linear rescaling value-basis attention-basis neuron-basis neuron-scaling"
    rules += " unseen-scores score-scaling key-bias layer-norm-input head-mixing layer-basis translation mlp attention"
    rules += " causal residual qk_bias softmax normalized rms layer tanh sigmoid silu"
    hidden = {f"{x}-{y}" for x in ("attention", "layer") for y in ("rotation", "norm-scaling", "mean", "unreached")}
    assert found >= {*rules.split(), *hidden}
    assert len(SMALL) >= 80


@pytest.mark.parametrize("p", [101, P])
def test_jacobians_and_generators(p, monkeypatch):
    """Both Jacobians and both T agree, and J T = 0: every rule is a symmetry at random points."""
    monkeypatch.setattr(naive, "ATTEMPTS", 300)
    programs = [make_corpus.EVERYTHING, make_corpus.LINEAR, make_corpus.PRODUCT, make_corpus.TRANSCENDENTAL]
    tried = 0
    for spec in [*SMALL[::2], *programs, make_corpus.EXPONENTIAL]:
        if "format" in spec:
            full, other = None, spec
            own = checker.Program(checker.MAX_WORK).user(spec)
        else:
            full, own, other = both_programs(spec)
        points, here = naive.Points(other, p, 7), None
        try:
            counts = points.redraws(points.theta, 2)
        except naive.NoCertificateError:
            continue
        tried += 1
        J = points.jacobian(2, counts)
        here = checker.Points(own, points.digest, p, 7)
        assert here.theta() == points.theta
        rows = range(own.m, 2 * own.m)
        units = [[int(i == j) for j in range(own.P)] for i in range(own.P)]
        assert here.products(rows, units, lambda _, counts=counts: counts) == naive.transposed(J)
        if full is None:
            continue
        symmetries = checker.Symmetries(checker.architecture(full), own)
        documents, columns = naive.generators(full, points)
        assert [document for document, _ in symmetries.families] == documents
        W, entries = checker.Weights(), iter(points.theta)
        W.p = p
        W.update({x: [[next(entries) for _ in range(m)] for _ in range(n)] for x, (n, m) in symmetries.sizes.items()})
        for i, column in enumerate(columns):
            xi = [int(i == j) for j in range(len(columns))]
            assert symmetries.combination(W, xi) == column
            assert all(sum(map(operator.mul, row, column)) % p == 0 for row in J), (spec, i)
    assert tried > 60


@pytest.mark.parametrize("p", [3, 5, 17, 257, 65537, 2**31 - 1, 2147352577])
def test_roots(p):
    noise = random.Random(p)
    for _ in range(20):
        x = noise.randrange(1, p) ** 2 % p
        root = checker.root(x, p)
        assert root * root % p == x
        assert 1 <= root <= (p - 1) // 2
        assert root == naive.square_root(x, p)
    for x in [0, *(x for x in range(1, min(p, 50)) if not naive.is_square(x, p))]:
        with pytest.raises(ValueError):  # noqa: PT011
            checker.root(x, p)


def believed(spec, prime, seed):
    """Check what the naive prover writes, if it does."""
    try:
        certificate = naive.prove(spec, prime=prime, seed=seed)
    except naive.NoCertificateError:
        return False
    quick, full = checker.check(certificate), checker.check(naive.canonical(certificate), full=True)
    assert quick.dimension == full.dimension == certificate["dimension"]
    return True


@pytest.mark.parametrize("start", range(8))
def test_the_naive_prover_is_believed(start, monkeypatch):
    monkeypatch.setattr(naive, "ATTEMPTS", 300)
    some = [spec for spec in SMALL[start::16] if naive.Points(naive.program_of(naive.full_spec(spec)), 3, 0).P <= 30]
    assert sum(believed(spec, P, 11) for spec in some)


@pytest.mark.slow
@pytest.mark.parametrize("prime", [3, 257, P])
def test_the_naive_prover_is_believed_at_all_primes(prime, monkeypatch):
    monkeypatch.setattr(naive, "ATTEMPTS", 300)
    assert sum(believed(spec, prime, 0) for spec in SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(4))
def test_the_twins_write_the_same_bytes(start, monkeypatch):
    """The naive prover and the real one, at primes of all sizes."""
    import ffrank
    from ffrank.errors import FfrankError

    agreed = 0
    for i, spec in enumerate(SPECS[start::4]):
        prime = random.Random(i).choice([P, P, 65537, 257, 31, 11])
        try:
            certificate = ffrank.certify(spec, prime=prime, seed=i).content
        except FfrankError:
            continue
        other = naive.prove(spec, prime=prime, seed=i)
        keys = set(other) - {"versions"}
        assert {key: certificate[key] for key in keys} == {key: other[key] for key in keys}, (spec, prime, i)
        agreed += 1
    assert agreed > 20


KNOWN = [
    (attention([1, 1], [1], 2), 1, "exact"),
    (attention([3, 2], [1], 2), 10, "exact"),
    (attention([3, 2], [4], 2), 14, "exact"),
    (attention([4, 3], [2], 3), 23, "exact"),
    (attention([3, 2], [2], 1), 11, "exact"),
    (attention([4, 3], [2], 1), 21, "exact"),
    (attention([3, 3, 3], [2, 2], 2), 23, "exact"),
    (attention([4, 2, 2, 4], [2, 1, 1], 2), 27, "exact"),
    (attention([3, 3, 3], [1, 3], 2), 18, "exact"),
    (attention([2, 4, 3], [2, 2], 2), 12, "exact"),
    (attention([3, 3], [3], 2, heads=2), 32, "exact"),
    (attention([2, 2], [1], 2, heads=3), 12, "exact"),
    (attention([3, 1, 3], [1, 1], 1, heads=2), 12, "exact-with-probability"),
    (attention([3, 2], [2], 2, score="softmax"), 14, "exact"),
    (attention([3, 3, 3], [2, 2], 3, score="softmax"), 25, "exact"),
]


@pytest.mark.parametrize(("spec", "dimension", "status"), KNOWN, ids=str)
def test_known_dimensions(spec, dimension, status):
    report = checker.check(naive.prove(spec))
    assert (report.dimension["value"], report.dimension["status"]) == (dimension, status)


@pytest.mark.slow
def test_deep_networks():
    """Nine inputs give 30 for the first, though they have more rows than there are parameters."""
    report = checker.check(naive.prove(attention([4, 4, 4, 4], [1, 1, 1], 3)))
    assert report.dimension["value"] == 34
    report = checker.check(naive.prove(attention([4, 4, 4, 4], [2, 2, 2], 3)))
    assert report.dimension["value"] == 49


def test_ambient_bounds():
    for spec in SPECS:
        full, own, other = both_programs(spec)
        if not own.polynomial:
            with pytest.raises(checker.Invalid):
                checker.ambient_degrees(own)
            continue
        bound = checker.ambient_degrees(own)
        exact = naive.ambient_degrees(naive.Points(other, 3, 0))
        assert bound == exact or (bound is None and exact >= 10**25)
        if naive.ambient_tokens(full) is not None:
            assert checker.ambient_tokens(full) == naive.ambient_tokens(full)


def test_number_of_trials():
    assert checker.trials_needed(2**20 - 1, 29, 60) == (6, 60)
    assert checker.trials_needed(2**20, 0, 60) == (7, 69)
    assert checker.trials_needed(0, 0, 60) == (2, 60)
    assert checker.trials_needed(0, 0, 61) == (3, 90)
    for degree in (2**30 - 1, 2**30, 2**29 + 2**28, 10**30):
        with pytest.raises(checker.Invalid):
            checker.trials_needed(degree, 0, 60)


def test_index_instructions():
    """Broadcasts, slices, transposes and sums of three axes, against the naive evaluation."""
    steps = [["transpose", 0, list(perm)] for perm in itertools.permutations(range(3))]
    for perm in steps:
        instructions = [
            perm,
            ["broadcast", 1, [2, 1, 1, 2]],
            ["broadcast", 2, [1, 2, *[[2, 3, 4][i] for i in perm[2]]]],
            ["slice", 4, [[0, 1, 1], [0, 2, 1], [0, 2, 1], [1, 2, 5], [0, 2, 1]]],
            ["concat", 3, 5, 5],
            ["sum", 6, 2],
            ["neg", 7],
            ["concat", 0, 8, 7, 8],
        ]
        subject = program([["A", [2, 3, 4]]], [["x", [2]]], instructions, 9)
        subject["instructions"][2] = ["reshape", 2, [1, 1, *[[2, 3, 4][i] for i in perm[2]]]]
        subject["instructions"][3] = ["slice", 4, [[0, 1, 1], [0, 1, 1], [0, 2, 1], [1, 2, 5], [0, 2, 1]]]
        subject["output"] = 1 + len(instructions)
        points = naive.Points(subject, 101, 0)
        own = checker.Program(10**9).user(subject)
        here, zeros = checker.Points(own, points.digest, 101, 0), [0]
        units = [[int(i == j) for j in range(own.P)] for i in range(own.P)]
        assert here.products(range(own.m), units, lambda _: [0]) == naive.transposed(points.jacobian(1))
        values = naive.evaluate(subject, 101, points.theta, points.values(1, 2))[subject["output"]].values()
        assert here.at(points.theta, "1", zeros)[0][own.output] == [x.value for x in values]
