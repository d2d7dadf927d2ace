"""The rank at given weights: generic where it should be, dropped where it must be, proven both ways."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ffrank.errors import InputError, ModulusError, ResourceError, SpecError
from ffrank.geometry import local_rank
from ffrank.geometry.formulas import expected
from ffrank.geometry.local_exact import FixedWeights, _simplex, expand
from ffrank.geometry.local_rank import rank_at
from ffrank.geometry.weights import read_target, read_weights, weights_dict
from ffrank.primes import DEFAULT_PRIME
from ffrank.program.evaluate import Evaluator
from ffrank.program.symbolic import symbolic, symbols
from ffrank.program.trace import parametrization

ONE = {"kind": "attention", "widths": [3, 3], "attention_dims": [3], "tokens": 2}
TWO = {"kind": "attention", "widths": [3, 3, 3], "attention_dims": [2, 2], "tokens": 2}


def drawn(spec, seed=0, largest=10**6):
    program, _ = read_target(spec)
    draw = random.Random(seed)
    return weights_dict(program, [draw.randint(-largest, largest) for _ in range(program.parameter_count)])


def floats(spec, seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape) for name, shape in read_target(spec)[0].parameters}


def aligned(a, last=(1, 1, 4)):
    """Weights with V = e fᵀ and KᵀQ = f hᵀ."""
    f, h = [1, 2, 3], [2, -1, 1]
    Q, K = np.zeros((a, 3), int), np.zeros((a, 3), int)
    Q[0], K[0] = h, f
    return {"layer1.head1.Q": Q, "layer1.head1.K": K, "layer1.head1.V": np.outer(last, f)}


# ------------------------------------------------------------------------------------------------ generic points


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.data())
def test_random_integer_weights_are_generic(data):
    d, e, a, t = (data.draw(st.integers(1, 3)) for _ in range(4))
    spec = {"kind": "attention", "widths": [d, e], "attention_dims": [a], "tokens": t}
    found = rank_at(spec, drawn(spec, data.draw(st.integers(0, 99))))
    assert found.value == expected(read_target(spec)[1].architecture())["value"]
    assert found.status == "exact"


@pytest.mark.parametrize(
    ("spec", "dimension"),
    [
        (TWO, 23),
        ({**TWO, "attention_dims": [1, 3]}, 18),
        ({**TWO, "widths": [3, 2, 3]}, 18),
        ({"kind": "mlp", "widths": [2, 2, 1], "activation": "square"}, 3),
        ({"kind": "mlp", "widths": [3, 4, 3], "activation": "square"}, 18),
    ],
    ids=str,
)
def test_generic_dimensions(spec, dimension):
    assert rank_at(spec, drawn(spec)).value == dimension
    assert rank_at(spec, floats(spec)).value == dimension


# ------------------------------------------------------------------------------------------------ special points


@pytest.mark.parametrize(("a", "rank"), [(1, 11), (2, 11), (3, 11)])
def test_aligned_rank_one(a, rank):
    found = rank_at({**ONE, "attention_dims": [a]}, aligned(a), generic=17 if a == 3 else None)
    assert (found.value, found.status, found.kind) == (rank, "exact", "relations")
    assert found.drop == (6 if a == 3 else None)
    assert len(found.kernel) == found.parameters - rank


def test_aligned_rank_one_behind_invertible_keys():
    """With K invertible every direction of A is reached: 15, as in the table of strata."""
    f, h, e = np.array([1, 2, 3]), np.array([2, -1, 1]), np.array([1, 1, 4])
    weights = {"Q": np.outer(f, h), "K": np.eye(3), "V": np.outer(e, f) / 8}
    found = rank_at(ONE, {f"layer1.head1.{k}": v for k, v in weights.items()}, generic=17)
    assert (found.value, found.drop) == (15, 2)
    assert "a drop of 2" in found.explanation


def test_zero_weights():
    zero = {name: np.zeros(shape) for name, shape in read_target(ONE)[0].parameters}
    found = rank_at(ONE, zero)
    assert (found.value, found.status, found.inputs, found.rows) == (0, "exact", 0, ())
    assert found.kernel == tuple(tuple(Fraction(i == j) for j in range(27)) for i in range(27))
    only_v = rank_at(ONE, zero | {"layer1.head1.V": np.ones((3, 3))})
    assert only_v.value == 0


def test_a_dead_neuron():
    spec = {"kind": "mlp", "widths": [3, 3, 1], "activation": "cube"}
    weights = drawn(spec)
    full = rank_at(spec, weights)
    weights["layer1.W"][0] = 0
    dead = rank_at(spec, weights, generic=full.value)
    assert (full.value, dead.value, dead.drop) == (9, 6, 3)


# -------------------------------------------------------------------------------------------------- exact numbers


@pytest.mark.parametrize("spec", [ONE, TWO], ids=["one", "two"])
def test_floats_equal_their_fractions(spec):
    weights = floats(spec, 5)
    weights["layer1.head1.V"] = np.outer(np.float32([0.1, 0.2, 0.3]), [1, 2, 3])
    exact = {k: [[Fraction(float(x)) for x in row] for row in v] for k, v in weights.items()}
    assert rank_at(spec, weights).to_json() == rank_at(spec, exact).to_json()


def test_a_float_is_not_the_decimal_that_it_prints():
    """The rows are parallel as decimals, and not as the floats that they are rounded to."""
    spec = {"kind": "mlp", "widths": [2, 2, 1], "activation": "square"}
    decimal = [[Fraction(1, 10), Fraction(3, 10)], [Fraction(3, 10), Fraction(9, 10)]]
    assert rank_at(spec, {"layer1.W": decimal, "layer2.W": [[1, 1]]}).value == 2
    assert rank_at(spec, {"layer1.W": [[0.1, 0.3], [0.3, 0.9]], "layer2.W": [[1, 1]]}).value == 3
    assert rank_at(spec, {"layer1.W": [[0.1, 0.2], [0.3, 0.6]], "layer2.W": [[1, 1]]}).value == 2  # 0.2 is 2·0.1


def test_extreme_floats():
    weights = floats(ONE)
    weights["layer1.head1.Q"][0, 0], weights["layer1.head1.K"][0, 0] = 5e-324, 1e300
    assert rank_at(ONE, weights).value == 17


# ------------------------------------------------------------------------------------------------- what is proven


def dot(program, theta, x, vector, p):
    J = Evaluator(program, p, np.array([t.numerator * pow(t.denominator, -1, p) % p for t in theta])).jacobian(x)
    v = np.array([t.numerator * pow(t.denominator, -1, p) % p for t in vector])
    return J.astype(object) @ v.astype(object) % p


def test_kernel_vectors_kill_the_jacobian_everywhere():
    program, _ = read_target(ONE)
    weights = aligned(3)
    theta, p = read_weights(ONE, weights), 2**31 - 19
    x = np.random.default_rng(0).integers(0, p, (4, program.input_count))
    for vector in rank_at(ONE, weights).kernel:
        assert not dot(program, theta, x, vector, p).any()
    assert dot(program, theta, x, [Fraction(i == 0) for i in range(27)], p).any()


def test_the_minor_is_where_it_says():
    found = rank_at(TWO, drawn(TWO))
    assert len(found.rows) == len(found.columns) == found.rank
    assert found.inputs == found.rows[-1] // 6 + 1
    assert found.prime == DEFAULT_PRIME


@pytest.mark.parametrize("spec", [ONE, {"kind": "mlp", "widths": [2, 2, 2], "activation": "square", "bias": True}])
def test_norm_and_degree_of_the_integer_jacobian(spec):
    """The bounds hold for the expanded derivatives at these weights."""
    import sympy

    program, _ = read_target(spec)
    draw = random.Random(0)
    theta = [Fraction(draw.randint(-9, 9), draw.choice([1, 2, 3])) for _ in range(program.parameter_count)]
    fixed = FixedWeights.of(program, theta)
    leaves = symbols(program)
    output = symbolic(program, leaves).reshape(-1)[0]
    entries = [s for leaf in leaves[:-1] for s in leaf.reshape(-1)]
    at = dict(zip(entries, [sympy.Rational(x.numerator, x.denominator) for x in theta], strict=True))
    scale = fixed.denominator ** (fixed.degree - 1)
    for s in entries:
        form = sympy.Poly(sympy.expand(sympy.diff(output, s).subs(at) * scale), *leaves[-1].reshape(-1))
        coefficients = form.coeffs()
        assert all(c.is_integer for c in coefficients)
        assert sum(abs(c) for c in coefficients) <= 2**fixed.norm_bits
        assert form.is_zero or all(fixed.low <= sum(m) <= fixed.high for m in form.monoms())


@pytest.mark.parametrize(("n", "total"), [(1, 3), (2, 0), (3, 2), (4, 3)])
def test_lattice_points_determine_forms(n, total):
    points = _simplex(n, total)
    assert sorted(map(tuple, points)) == sorted({tuple(x) for x in points})
    assert len(points) == comb(n + total - 1, total)
    assert (points.sum(axis=1) == total).all()
    values = np.array([[np.prod(x.astype(float) ** m) for m in points] for x in points])
    assert np.linalg.matrix_rank(values) == len(points)


def test_expansion_agrees_with_monte_carlo(monkeypatch):
    weights = aligned(3)
    exact = rank_at(ONE, weights)
    monkeypatch.setattr(local_rank, "expand", lambda fixed: None)
    likely = rank_at(ONE, weights)
    assert (likely.value, likely.status, likely.kind) == (exact.value, "exact-with-probability", "monte-carlo")
    assert likely.error <= -60
    assert rank_at(ONE, weights, error=-100).error <= -100
    assert "wrong with probability" in likely.explanation
    open_ = rank_at(ONE, weights, error=None)
    assert (open_.rank, open_.status, open_.value, open_.error) == (11, "bounds", None, None)
    assert open_.upper >= 17
    assert "open" in open_.explanation


def test_weights_that_vanish_mod_the_prime(monkeypatch):
    """The usual prime shows nothing here; another one is taken, unless the caller insists."""
    weights = {k: v * DEFAULT_PRIME for k, v in drawn(ONE, largest=9).items()}
    found = rank_at(ONE, weights)
    assert found.value == 17
    assert found.prime != DEFAULT_PRIME
    monkeypatch.setattr(local_rank, "expand", lambda fixed: None)
    assert rank_at(ONE, weights).value == 17
    stubborn = rank_at(ONE, weights, prime=DEFAULT_PRIME)
    assert (stubborn.rank, stubborn.status) == (0, "bounds")


def test_a_prime_in_a_denominator():
    weights = drawn(ONE)
    weights["layer1.head1.V"][0, 0] = Fraction(1, DEFAULT_PRIME)
    assert rank_at(ONE, weights).value == 17
    with pytest.raises(ModulusError, match="divides a denominator"):
        rank_at(ONE, weights, prime=DEFAULT_PRIME)


@pytest.mark.parametrize("prime", [101, 65537])
def test_a_small_prime(prime):
    assert rank_at(ONE, drawn(ONE), prime=prime).value == 17


def test_expansion_refuses_too_much():
    spec = {**TWO, "widths": [8, 8, 8], "tokens": 8}
    program, _ = read_target(spec)
    assert expand(FixedWeights.of(program, read_weights(spec, drawn(spec)))) is None


# ------------------------------------------------------------------------------------------------ input and output


def test_a_program_of_ones_own():
    @parametrization(parameters={"a": (2,), "b": (2,)}, inputs={"x": (2,)})
    def product(a, b, x):
        return (a @ x) * (b @ x)

    assert rank_at(product, {"a": [1, 2], "b": [3, 5]}).value == 3
    assert rank_at(product, {"a": [1, 2], "b": [2, 4]}).value == 2


def test_json():
    found = rank_at(ONE, aligned(3), seed=3)
    content = json.loads(found.to_json())
    assert content["value"] == content["rank"] == content["upper"] == 11
    assert len(content["kernel"]) == 16
    assert content["seed"] == 3
    assert content["explanation"] == found.explanation
    assert found.to_json() == rank_at(ONE, aligned(3), seed=3).to_json()


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"prime": 9}, ModulusError, "composite"),
        ({"seed": -1}, InputError, "seed"),
        ({"seed": 2**64}, InputError, "seed"),
        ({"error": 0}, InputError, "error: expected an exponent"),
        ({"error": True}, InputError, "error"),
        ({"memory": 1000}, ResourceError, "memory"),
    ],
)
def test_refusals(more, error, words):
    with pytest.raises(error, match=words):
        rank_at(ONE, drawn(ONE), **more)


def test_faults_of_spec_and_weights():
    with pytest.raises(SpecError, match="missing"):
        rank_at(ONE, {})
    with pytest.raises(SpecError):
        rank_at({"kind": "none"}, {})
