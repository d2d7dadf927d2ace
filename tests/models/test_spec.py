import json
from pathlib import Path

import pytest

from ffrank.errors import InputError, SpecError
from ffrank.models import build_program
from ffrank.models.spec import load_spec, parse_spec

ATTENTION = {"kind": "attention", "widths": [3, 3], "attention_dims": [2], "tokens": 2}
MLP = {"kind": "mlp", "widths": [3, 2]}
REFERENCE = Path(__file__).parent.parent / "reference"

BAD = [
    ({}, "kind: expected 'attention' or 'mlp', got nothing"),
    ([], "expected a table"),
    ({"kind": "cnn"}, "kind: .*'cnn'"),
    ({"kind": ["mlp"]}, "kind"),
    ({"kind": "mlp"}, "widths: this key is missing"),
    ({**ATTENTION, "attention_dim": [2]}, "attention_dim: unknown key; the keys are .*attention_dims"),
    ({**ATTENTION, "attention_dims": [2, 2]}, "attention_dims: expected 1 entries for 2 widths, got 2"),
    ({**ATTENTION, "widths": [3]}, "widths: expected at least 2 entries"),
    ({**ATTENTION, "widths": 3}, "widths: expected a list of integers, got 3"),
    ({**ATTENTION, "widths": [3, 0]}, r"widths\[1\]: expected at least 1, got 0"),
    ({**ATTENTION, "widths": [-1, 3]}, r"widths\[0\]: expected at least 1, got -1"),
    ({**ATTENTION, "widths": [3, 3.0]}, r"widths\[1\]: expected an integer, got 3.0"),
    ({**ATTENTION, "widths": [3, True]}, r"widths\[1\]: expected an integer, got True"),
    ({**ATTENTION, "widths": [3, "3"]}, r"widths\[1\]: expected an integer, got '3'"),
    ({**ATTENTION, "widths": [3, 10**30]}, r"widths\[1\]: expected at most 1000000"),
    ({**ATTENTION, "tokens": 0}, "tokens: expected at least 1, got 0"),
    ({**ATTENTION, "tokens": None}, "tokens: expected an integer"),
    ({**ATTENTION, "heads": 0}, "heads: expected at least 1"),
    ({**ATTENTION, "causal": 1}, "causal: expected true or false, got 1"),
    ({**ATTENTION, "widths": [3, 4], "residual": True}, "residual: expected equal widths"),
    ({**ATTENTION, "score": "softmin"}, "score: expected 'lightning', 'softmax' or 'normalized', got 'softmin'"),
    ({**ATTENTION, "mlp_width": 2, "activation": "relu"}, "activation: expected identity.*got 'relu'"),
    ({**ATTENTION, "mlp_width": 2, "activation": {"power": 0}}, "activation: .*1 <= k <= 1000"),
    ({**ATTENTION, "mlp_width": 2, "activation": {"power": 2, "x": 1}}, "activation"),
    ({**MLP, "activation": "gelu"}, "activation: .*'gelu'"),
    ({**MLP, "tokens": 3}, "tokens: unknown key"),
    ({**MLP, "widths": [0, 2], "bias": 2}, r"widths\[0\].*; bias: expected true or false"),
]


@pytest.mark.parametrize(("data", "message"), BAD)
def test_bad_specs_are_refused_in_one_line(data, message):
    with pytest.raises(SpecError, match=message) as caught:
        parse_spec(data)
    assert "\n" not in str(caught.value)


def test_equal_architectures_have_equal_canonical_forms():
    squares = [parse_spec({**MLP, "activation": a}).architecture() for a in ("square", {"power": 2})]
    assert squares[0] == squares[1]
    identity = parse_spec({**ATTENTION, "mlp_width": 1, "activation": {"power": 1}}).architecture()
    assert identity["activation"] == "identity"
    assert parse_spec({**ATTENTION, "activation": "cube"}).architecture() == parse_spec(ATTENTION).architecture()


def cases():
    found = [c for f in ("cases.json", "polynomial_networks.json") for c in json.loads((REFERENCE / f).read_text())]
    polynomial = [c for c in found if c["spec"].get("score") not in ("softmax", "normalized")]
    return [c for c in polynomial if c["spec"].get("activation") not in ("tanh", "sigmoid", "silu")]


@pytest.mark.parametrize("case", cases(), ids=lambda c: json.dumps(c["spec"]["widths"]))
def test_parameters_and_sizes_are_counted_without_building(case):
    spec = parse_spec(case["spec"])
    program = build_program(spec)
    assert spec.parameter_count() == program.parameter_count == case["parameters"]
    assert spec.output_count == program.output_count
    assert sum(program.sizes) <= 2 * spec.entry_count() <= 5 * sum(program.sizes)
    full = spec.architecture()
    assert parse_spec(full).architecture() == full
    assert parse_spec(json.loads(json.dumps(full))) == parse_spec(full)


def test_names_and_order_of_the_parameters():
    spec = {**ATTENTION, "heads": 2, "value_dim": 1, "qk_bias": True, "mlp_width": 4}
    names = [name for name, _ in build_program(parse_spec(spec)).parameters]
    head = ["Q", "K", "U", "O", "b_q", "b_k"]
    assert names == [f"layer1.head{h}.{x}" for h in (1, 2) for x in head] + ["layer1.W1", "layer1.W2"]
    mlp = build_program(parse_spec({**MLP, "widths": [3, 2, 1], "bias": True}))
    assert mlp.parameters == (
        ("layer1.W", (2, 3)), ("layer1.b", (2,)), ("layer2.W", (1, 2)), ("layer2.b", (1,)),
    )  # fmt: skip


def test_files(tmp_path):
    (tmp_path / "a.toml").write_text('kind = "mlp"\nwidths = [3, 2]\nactivation = { power = 4 }\n')
    (tmp_path / "a.json").write_text('{"kind": "mlp", "widths": [3, 2], "activation": {"power": 4}}')
    assert load_spec(tmp_path / "a.toml") == load_spec(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.toml", b"kind = ", "not well-formed TOML"),
        ("a.json", b"{", "not well-formed JSON"),
        ("a.json", b'{"kind": "mlp", "kind": "mlp"}', "'kind' appears twice"),
        ("a.json", b"[" * 100_000, "not well-formed JSON"),
        ("a.json", b'{"kind": "mlp", "widths": [3, ' + b"9" * 5000 + b"]}", "not well-formed JSON"),
        ("a.json", b"\xff\xfe", "not UTF-8"),
        ("a.yaml", b"kind: mlp", "ends in .toml or .json"),
        ("b.toml", None, "cannot be read: No such file"),
        ("a.json", b"[1]", "a.json: expected a table"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        load_spec(tmp_path / name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["toml", "json"])
def test_a_folder_is_not_a_spec(tmp_path, kind):
    folder = tmp_path / f"x.{kind}"
    folder.mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        load_spec(folder)
