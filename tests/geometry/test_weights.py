"""Reading weights: exact values from every source, one clear error for every fault."""

from __future__ import annotations

import sys
import types
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffrank.errors import InputError, ModulusError, ShapeError, SpecError
from ffrank.geometry.weights import read_target, read_weights, reduce_weights, weights_dict
from ffrank.program.trace import parametrization

SPEC = {"kind": "mlp", "widths": [2, 1], "activation": "square", "bias": True}
NAMES = ("layer1.W", "layer1.b")


def theta_of(W, b):
    return read_weights(SPEC, {"layer1.W": W, "layer1.b": b})


@pytest.mark.parametrize(
    "W",
    [
        [[1, -2]],
        ((1, -2),),
        np.array([[1, -2]]),
        np.array([[1, -2]], np.int8),
        np.array([[1, -2]], np.float16),
        np.array([[1.0, -2.0]], np.float32),
        np.array([[1.0, -2.0]], np.longdouble),
        np.array([[Fraction(1), -2]], dtype=object),
        [np.array([1, -2])],
        [[np.int64(1), np.float32(-2)]],
    ],
)
def test_forms(W):
    assert theta_of(W, [Fraction(1, 3)]) == [1, -2, Fraction(1, 3)]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_exact(x):
    for given_as in ([[x, 1]], np.array([[x, 1]])):
        assert theta_of(given_as, [x])[0] == Fraction(x)


def test_large_integers_stay_exact():
    for big in (2**80 + 1, np.uint64(2**64 - 1), np.int64(2**63 - 1)):
        found = theta_of([[big, 0]], [0])[0]
        assert found == int(big)
        assert type(found.numerator) is int


@pytest.mark.parametrize(
    ("weights", "error", "words"),
    [
        ({"layer1.W": [[1, 2]]}, SpecError, "layer1.b missing"),
        ({"layer1.W": [[1, 2]], "layer1.b": [0], "c": 1}, SpecError, "c unknown"),
        ({"W": [[1, 2]], "b": [0]}, SpecError, "layer1.W, layer1.b missing; W, b unknown"),
        ({"layer1.W": [[1, 2, 3]], "layer1.b": [0]}, ShapeError, r"layer1.W: expected shape \(1, 2\), got 3 entries"),
        ({"layer1.W": [1, 2], "layer1.b": [0]}, ShapeError, "layer1.W"),
        ({"layer1.W": [[[1], 2]], "layer1.b": [0]}, ShapeError, "deeper"),
        ({"layer1.W": [[1, 2]], "layer1.b": 0}, ShapeError, "got 0"),
        ({"layer1.W": np.ones((2, 1)), "layer1.b": [0]}, ShapeError, r"got \(2, 1\)"),
        ({"layer1.W": [[1, float("nan")]], "layer1.b": [0]}, InputError, "layer1.W: expected finite numbers, got nan"),
        ({"layer1.W": np.array([[1, np.inf]]), "layer1.b": [0]}, InputError, "finite"),
        ({"layer1.W": np.array([[1, -np.inf]], np.longdouble), "layer1.b": [0]}, InputError, "finite"),
        ({"layer1.W": [[1, True]], "layer1.b": [0]}, InputError, "got True"),
        ({"layer1.W": np.array([[True, False]]), "layer1.b": [0]}, InputError, "expected numbers"),
        ({"layer1.W": [[1, "2"]], "layer1.b": [0]}, InputError, "got str '2'"),
        ({"layer1.W": [[1, 2j]], "layer1.b": [0]}, InputError, "got complex"),
        ([[1, 2]], InputError, "expected weights as a mapping"),
    ],
)
def test_faults(weights, error, words):
    with pytest.raises(error, match=words) as caught:
        read_weights(SPEC, weights)
    assert "\n" not in str(caught.value)


def test_many_unknown_names_are_cut():
    with pytest.raises(SpecError, match="and 8 more unknown"):
        read_weights(SPEC, {"layer1.W": [[1, 2]], "layer1.b": [0]} | {f"x{i}": 0 for i in range(12)})


def test_targets(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text('kind = "mlp"\nwidths = [2, 1]\nactivation = "square"\nbias = true\n', encoding="utf-8")
    program, spec = read_target(SPEC)
    for target in (path, str(path), program, spec):
        assert read_target(target)[0].digest == program.digest
    assert read_target(program)[1] is None
    with pytest.raises(InputError, match="expected a spec, a path or a program"):
        read_target(3)


def test_a_program_of_ones_own():
    @parametrization(parameters={"A": (2, 2)}, inputs={"x": (2,)})
    def f(A, x):
        return A @ x

    assert read_weights(f, {"A": [[1, 2], [3, 4]]}) == [1, 2, 3, 4]


# ------------------------------------------------------------------------------------------------------- files


def test_npz(tmp_path):
    path = tmp_path / "weights.npz"
    np.savez(path, **{"layer1.W": np.array([[0.1, 2]]), "layer1.b": np.array([3], np.int16)})
    for given_as in (path, str(path)):
        assert read_weights(SPEC, given_as) == [Fraction(0.1), 2, 3]


def test_npz_of_objects_is_refused(tmp_path):
    path = tmp_path / "weights.npz"
    np.savez(path, **{"layer1.W": np.array([[Fraction(1, 2), 2]]), "layer1.b": np.array([3])})
    with pytest.raises(InputError, match="not a NumPy"):
        read_weights(SPEC, path)


def test_an_array_is_no_npz(tmp_path):
    path = tmp_path / "weights.npz"
    with path.open("wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(InputError, match="not a NumPy"):
        read_weights(SPEC, path)


@pytest.mark.parametrize(("name", "words"), [("w.npz", "cannot be read"), ("w.npy", "ends in .npz")])
def test_no_file(tmp_path, name, words):
    with pytest.raises(InputError, match=words):
        read_weights(SPEC, tmp_path / name)


@pytest.mark.parametrize("content", [b"", b"PK not a zip", b"\x93NUMPY"])
def test_broken_npz(tmp_path, content):
    path = tmp_path / "weights.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a NumPy"):
        read_weights(SPEC, path)


class Tensor:
    """As much of a PyTorch tensor as reading takes."""

    def __init__(self, values, kind):
        self.values, self.kind = np.array(values), kind

    def detach(self):
        return self

    def cpu(self):
        return self

    def double(self):
        return Tensor(self.values.astype(np.float64), np.float64)

    def is_floating_point(self):
        return self.kind is not int

    def numpy(self):
        assert self.kind is not None, "NumPy has no bfloat16"
        return self.values


def test_tensors():
    assert theta_of(Tensor([[0.5, 1]], None), Tensor([3], int)) == [Fraction(1, 2), 1, 3]


def fake_torch(monkeypatch, load):
    module = types.ModuleType("torch")
    module.load = load
    monkeypatch.setitem(sys.modules, "torch", module)


def test_state_dict(tmp_path, monkeypatch):
    path, asked = tmp_path / "model.pt", {}

    def load(name, **options):
        asked.update(options)
        return {"layer1.W": Tensor([[0.5, 1]], None), "layer1.b": Tensor([3], int)}

    fake_torch(monkeypatch, load)
    assert read_weights(SPEC, path) == [Fraction(1, 2), 1, 3]
    assert asked == {"map_location": "cpu", "weights_only": True}


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (RuntimeError("first line\nsecond line"), "not a PyTorch state_dict: first line$"),
        (RuntimeError(), "not a PyTorch state_dict"),
        (FileNotFoundError(2, "No such file"), "cannot be read: No such file"),
        ([1, 2], "expected a state_dict, got list"),
    ],
)
def test_state_dict_faults(tmp_path, monkeypatch, outcome, words):
    def load(name, **options):
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    fake_torch(monkeypatch, load)
    with pytest.raises(InputError, match=words):
        read_weights(SPEC, tmp_path / "model.pt")


def test_without_torch(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match="needs torch"):
        read_weights(SPEC, tmp_path / "model.pth")


# --------------------------------------------------------------------------------------------- residues, inverse


@given(st.lists(st.fractions(max_denominator=100), max_size=8), st.sampled_from([101, 65537, 2**31 - 1]))
def test_residues(theta, p):
    found = reduce_weights(theta, p)
    assert all(
        (x.numerator - int(r) * x.denominator) % p == 0 and 0 <= r < p for x, r in zip(theta, found, strict=True)
    )


def test_a_prime_in_a_denominator():
    with pytest.raises(ModulusError, match="the prime 7 divides the denominator of the weight 3/14"):
        reduce_weights([Fraction(1, 2), Fraction(3, 14)], 7)


def test_there_and_back():
    spec = {"kind": "attention", "widths": [2, 3], "attention_dims": [2], "tokens": 2, "qk_bias": True}
    program, _ = read_target(spec)
    theta = [Fraction(i, 7) for i in range(program.parameter_count)]
    W = weights_dict(program, theta)
    assert list(W) == [name for name, _ in program.parameters]
    assert W["layer1.head1.V"].shape == (3, 2)
    assert read_weights(program, W) == theta
    residues = np.arange(program.parameter_count)
    assert weights_dict(program, residues)["layer1.head1.b_k"].dtype == residues.dtype
    with pytest.raises(ShapeError, match="expected 18 parameters"):
        weights_dict(program, theta[1:])
