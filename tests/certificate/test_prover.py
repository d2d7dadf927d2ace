import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ffrank
from ffrank.certificate import lower as lower_module
from ffrank.certificate.lower import _stop, jacobian_rank
from ffrank.certificate.prover import parse_error
from ffrank.certificate.upper import plan_trials
from ffrank.certificate.witness import power_count
from ffrank.errors import InputError, ModulusError, ProgramError, ResourceError
from ffrank.models import build_program
from ffrank.models.spec import parse_spec
from tests.certificate import naive_prover

REFERENCE = Path(__file__).parent.parent / "reference"
CHECKER = Path(ffrank.__file__).parent / "certificate" / "checker.py"


def reference(most_parameters=10**9):
    found = [c for f in ("cases.json", "polynomial_networks.json") for c in json.loads((REFERENCE / f).read_text())]
    return [c for c in found if c["parameters"] <= most_parameters]


def checked_alone(path, *options):
    """The stand-alone checker's exit status and output."""
    command = [sys.executable, "-I", str(CHECKER), *options, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    return done.returncode, done.stdout + done.stderr


def check_case(case, tmp_path):
    certificate = ffrank.certify(case["spec"])
    certificate.save(tmp_path / "c.json")
    assert certificate.parameters == case["parameters"]
    assert certificate.value == certificate.lower == case["dimension"]
    assert checked_alone(tmp_path / "c.json")[0] == 0
    return certificate


@pytest.mark.parametrize("case", reference(700), ids=lambda c: json.dumps(c["spec"]))
def test_reference_dimensions(case, tmp_path):
    check_case(case, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in reference() if c["parameters"] > 700], ids=lambda c: json.dumps(c["spec"]))
def test_large_reference_dimensions(case, tmp_path):
    check_case(case, tmp_path)


@pytest.mark.parametrize("layers", [3, 4, 5, 6])
def test_deep_networks_where_floating_point_fails(layers, tmp_path):
    spec = {"kind": "attention", "widths": [4] * (layers + 1), "attention_dims": [2] * layers, "tokens": 3}
    truth = {3: 49, 4: 60, 5: 71, 6: 82}[layers]
    case = {"spec": spec, "parameters": 32 * layers, "dimension": truth}
    assert check_case(case, tmp_path).status == "exact"


def test_the_deep_formula_is_named_with_the_hypothesis_that_fails():
    spec = {"kind": "attention", "widths": [3, 3, 3], "attention_dims": [1, 3], "tokens": 2}
    certificate = ffrank.certify(spec)
    assert (certificate.value, certificate.status) == (18, "exact")
    expected = certificate.content["expected"]
    assert (expected["value"], expected["holds"], certificate.content["defect"]) == (21, False, 3)
    assert [h["holds"] for h in expected["hypotheses"]].count(False) == 1


def test_rows_as_many_as_parameters_are_not_enough():
    """Nine inputs give more rows than parameters here, and rank 30; the dimension is 34."""
    spec = {"kind": "attention", "widths": [4, 4, 4, 4], "attention_dims": [1, 1, 1], "tokens": 3}
    program = build_program(parse_spec(spec))
    J = lower_module.jacobian_at(program, 2**31 - 1, 0, range(1, 10))
    assert J.shape[0] > program.parameter_count
    assert ffrank.rank(J, 2**31 - 1) == 30
    assert ffrank.certify(spec).value == 34


GAP = {"kind": "mlp", "widths": [3, 4, 2, 1, 1], "activation": "square"}  # theorems say 12, the truth is 11

TWINS = [
    GAP,
    {"kind": "attention", "widths": [2, 2], "attention_dims": [1], "tokens": 2, "score": "softmax", "heads": 2},
    {"kind": "attention", "widths": [1, 1], "attention_dims": [1], "tokens": 2, "mlp_width": 1},
    {"kind": "attention", "widths": [3, 3], "attention_dims": [1], "tokens": 1, "norm": "rms", "mlp_width": 1},
    {"kind": "attention", "widths": [2, 1], "attention_dims": [1], "tokens": 2},
    {"kind": "attention", "widths": [3, 3, 3], "attention_dims": [1, 3], "tokens": 2},
    {"kind": "attention", "widths": [2, 4, 3], "attention_dims": [2, 2], "tokens": 2},
    {"kind": "attention", "widths": [2, 2], "attention_dims": [1], "tokens": 2, "heads": 2, "value_dim": 1},
    {"kind": "attention", "widths": [2, 2], "attention_dims": [2], "tokens": 1, "qk_bias": True, "mlp_width": 2},
    {"kind": "mlp", "widths": [2, 3, 2], "activation": "identity", "bias": True},
    {"kind": "mlp", "widths": [3, 3, 3], "activation": "cube"},
    {"kind": "mlp", "widths": [2, 3, 2, 2], "activation": "square", "bias": True},
]  # fmt: skip


@pytest.mark.parametrize("spec", TWINS, ids=str)
@pytest.mark.parametrize(("prime", "seed"), [(2**31 - 1, 0), (65537, 7), (3, 1)])
def test_certificates_equal_those_of_the_slow_twin(spec, prime, seed):
    if prime == 3 and spec.get("score", spec.get("norm")) in ("softmax", "rms"):
        return  # no independent exponents or roots in so small a field
    made = dict(ffrank.certify(spec, prime=prime, seed=seed).content)
    twin = naive_prover.certify(parse_spec(spec).architecture(), prime=prime, seed=seed)
    versions = {"versions": made["versions"]}
    assert made == {**twin, **versions}


@pytest.mark.parametrize("spec", [TWINS[1], TWINS[2]], ids=str)
def test_threads_do_not_change_a_byte(spec):
    texts = [ffrank.certify(spec, threads=n).to_json() for n in (1, 2)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("prime", [3, 7, 257])
def test_tiny_primes_never_give_a_wrong_claim(prime, tmp_path):
    for case in reference(30):
        try:
            certificate = ffrank.certify(case["spec"], prime=prime)
        except ProgramError:  # too few residues for roots, or for the independence of exponents
            continue
        assert certificate.lower <= case["dimension"] <= certificate.upper
        certificate.save(tmp_path / "c.json")
        assert checked_alone(tmp_path / "c.json")[0] == 0


def test_a_map_of_the_user(tmp_path):
    @ffrank.parametrization(parameters={"A": (2, 3), "B": (2, 2)}, inputs={"x": (3,), "y": (2,)})
    def bilinear(A, B, x, y):
        return (A @ x) * (B @ y)

    certificate = ffrank.certify(bilinear)
    assert (certificate.value, certificate.status) == (8, "exact-with-probability")  # one scaling in each coordinate
    certificate.save(tmp_path / "c.json")
    assert checked_alone(tmp_path / "c.json")[0] == 0
    assert checked_alone(tmp_path / "c.json", "--full")[0] == 0
    assert ffrank.certify(bilinear, error=None).status == "bounds"


@pytest.mark.parametrize(
    ("function", "parameters", "inputs", "value"),
    [
        (lambda W, x: x, {"W": (2,)}, {"x": (2,)}, 0),
        (lambda W, x: 0 * W + x, {"W": (2,)}, {"x": (2,)}, 0),
        (lambda x: x, {}, {"x": (2,)}, 0),
        (lambda W: W * W, {"W": (2,)}, {}, 2),
        (lambda W, x: W[0] + W[1] + x, {"W": (2,)}, {"x": ()}, 1),
        (lambda W, x: W * x, {"W": ()}, {"x": ()}, 1),
    ],
)
def test_degenerate_maps(function, parameters, inputs, value, tmp_path):
    certificate = ffrank.certify(ffrank.parametrization(parameters=parameters, inputs=inputs)(function))
    assert certificate.value == value
    certificate.save(tmp_path / "c.json")
    assert checked_alone(tmp_path / "c.json", "--full")[0] == 0


def test_a_degree_that_defeats_the_trials_leaves_both_bounds():
    spec = {"kind": "mlp", "widths": [2, 2, 2, 2, 1], "activation": {"power": 1000}}
    program = build_program(parse_spec(spec))
    assert plan_trials(program, 8, -60) is None
    assert ffrank.certify(GAP, error=None).status == "bounds"
    assert ffrank.certify(GAP).status == "exact-with-probability"


def test_more_error_needs_fewer_trials():
    plans = {e: ffrank.certify(GAP, error=f"2^-{e}").content["upper_bound"] for e in (1, 40, 100)}
    counts = [len(plans[e]["trials"]) for e in (1, 40, 100)]
    assert counts == sorted(set(counts))
    assert all(plans[e]["error"] <= -e for e in plans)


@pytest.mark.parametrize(
    ("prime", "message"),
    [(2, "2 < p < 2"), (1, "p < 2"), (0, "p < 2"), (-7, "p < 2"), (9, "composite; try 11"), (2**31 + 11, "2 < p"),
     (561, "composite"), (3215031751, "2 < p"), (2.0, "float"), ("7", "str"), (True, "True"), (None, "NoneType")],
)  # fmt: skip
def test_bad_primes(prime, message):
    with pytest.raises(ModulusError, match=message):
        ffrank.certify(TWINS[0], prime=prime)


@pytest.mark.parametrize("options", [{"seed": -1}, {"seed": 2**64}, {"seed": 0.5}, {"seed": True}, {"error": "x"}])
def test_bad_options(options):
    with pytest.raises(InputError):
        ffrank.certify(TWINS[0], **options)


@pytest.mark.parametrize(
    ("text", "exponent"),
    [("2^-60", -60), ("2**-1", -1), (None, None), ("none", None), (0.5, -1), ("1e-9", -30), (2**-40, -40), (0.3, -2)],
)
def test_errors_are_rounded_down(text, exponent):
    assert parse_error(text) == exponent


@pytest.mark.parametrize("text", ["2^60", "2^-0", 0, 1, -0.1, "nan", "inf", "", "2^-99999"])
def test_bad_errors(text):
    with pytest.raises(InputError, match="2\\^-60"):
        parse_error(text)


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "mlp", "widths": [10**6, 10**6]},
        {"kind": "attention", "widths": [10**5] * 3, "attention_dims": [10**5] * 2, "tokens": 10**4, "heads": 10**4},
        {"kind": "attention", "widths": [2, 2], "attention_dims": [1], "tokens": 10**4, "causal": True},
    ],
)
def test_absurd_sizes_are_refused_at_once(spec):
    with pytest.raises(ResourceError, match=r"needs about .*--memory"):
        ffrank.certify(spec, memory=2**28)


def test_what_is_not_a_target():
    with pytest.raises(InputError, match="got int"):
        ffrank.certify(3)


@pytest.mark.parametrize(
    ("inputs", "scanned", "bound", "patience", "stop"),
    [
        ([1, 1, 2], 4, 9, 2, 2),  # two silent inputs after the second
        ([1, 1, 2], 3, 9, 2, None),
        ([1, 1, 2], 2, 3, 2, 2),  # the bound is reached
        ([1, 4], 6, 9, 2, 1),  # a late input does not undo an earlier stop
        ([], 1, 5, 2, None),
        ([], 2, 5, 2, 0),
        ([], 1, 0, 2, 0),
        ([3], 3, 5, 2, 0),
    ],
)
def test_stopping_rule(inputs, scanned, bound, patience, stop):
    assert _stop(np.array(inputs, np.int64), scanned, bound, patience) == stop


def test_batches_do_not_change_the_result(monkeypatch):
    spec = parse_spec({"kind": "attention", "widths": [3, 3, 3], "attention_dims": [1, 3], "tokens": 2})
    program = build_program(spec)
    whole = jacobian_rank(program, 65537, 0, bound=42)
    one_by_one = jacobian_rank(program, 65537, 0, bound=42, first_batch=1)
    assert whole.rows.tolist() == one_by_one.rows.tolist()
    assert whole.columns.tolist() == one_by_one.columns.tolist()
    assert whole.inputs == one_by_one.inputs


def test_power_count():
    assert [power_count(p, 120) for p in (2, 3, 2**31 - 1)] == [120, 76, 4]


def test_files_are_written_whole_or_not_at_all(tmp_path):
    certificate = ffrank.certify(TWINS[0])
    (tmp_path / "folder").mkdir()
    for bad in (tmp_path / "missing" / "c.json", tmp_path / "folder"):
        with pytest.raises(InputError, match="cannot be written"):
            certificate.save(bad)
    certificate.save(tmp_path / "c.json")
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["c.json", "folder"]
    assert json.loads((tmp_path / "c.json").read_text()) == certificate.content
