"""The identity test: yes for group elements, no for a nudge of 2^-40, witnessed; bounds that err upwards."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
import sympy

from ffrank.errors import InputError, SpecError
from ffrank.geometry import same
from ffrank.geometry.elements import apply_steps
from ffrank.geometry.layers import plain_attention
from ffrank.geometry.quotients import denominators, output_quotient
from ffrank.geometry.same import same_function
from ffrank.geometry.values import enclose, evaluate
from ffrank.geometry.weights import read_target, read_weights
from ffrank.program.evaluate import Evaluator
from ffrank.program.symbolic import symbolic, symbols
from ffrank.program.trace import exp, parametrization
from tests.geometry.group_elements import SPECS, attention, drawn, element, nudged

TRANSCENDENTAL = [
    attention([2, 2], [2], tokens=3, score="softmax"),
    attention([3, 3, 3], [2, 2], score="softmax", norm="rms"),
    attention([2, 2], [1], tokens=3, norm="layer", residual=True, mlp_width=3, activation="silu"),
]


def moved(spec, W, seed):
    return apply_steps(plain_attention(spec), W, element(spec, seed))


def floats(spec, seed):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape) for name, shape in read_target(spec)[0].parameters}


@pytest.mark.parametrize("spec", SPECS, ids=json.dumps)
def test_group_elements_do_not_change_the_function(spec):
    W = drawn(spec, 1)
    found = same_function(spec, W, moved(spec, W, 1))
    assert found.same is True
    assert bool(found)
    assert found.kind == ("symmetry" if spec.get("score") == "softmax" else found.kind)
    assert (found.error is None) == (found.kind != "trials")
    assert found.error is None or found.error <= -60


@pytest.mark.parametrize("spec", [*SPECS, *TRANSCENDENTAL], ids=json.dumps)
def test_a_nudge_of_one_entry_is_seen_and_witnessed(spec):
    W = floats(spec, 2)
    exact = {name: np.vectorize(Fraction, otypes=[object])(x) for name, x in W.items()}
    for name in ("layer1.head1.Q", "layer1.head1.V" if "value_dim" not in spec else "layer1.head1.O"):
        other = nudged(exact, name)
        found = same_function(spec, W, other)
        assert found.same is False
        assert not found
        x = [int(v) for v in found.difference.input["X"].flat]
        at = np.ravel_multi_index(found.difference.output, (spec["widths"][-1], spec["tokens"]))
        program = read_target(spec)[0]
        for side, value in ((exact, found.difference.first), (other, found.difference.second)):
            theta = read_weights(program, side)
            if value[0] == value[1]:
                assert evaluate(program, theta, x)[at] == value[0]
            else:  # a narrower interval inside the one that was given
                low, high = enclose(program, theta, x, 4096)[at]
                assert value[0] <= low <= high <= value[1]
        a, b = found.difference.first, found.difference.second
        assert a[1] < b[0] or b[1] < a[0]


def test_a_nudged_entry_that_nothing_sees():
    spec = attention([2, 2], [2], tokens=3, score="softmax", qk_bias=True)
    W = drawn(spec, 0)
    found = same_function(spec, W, nudged(W, "layer1.head1.b_k"))
    assert (found.same, found.kind) == (True, "symmetry")


def test_equal_weights_in_different_clothes():
    spec = attention([2, 2], [1], norm="rms")
    W = {name: x.astype(float) for name, x in drawn(spec, 0).items()}
    found = same_function(spec, W, {name: x.tolist() for name, x in W.items()})
    assert (found.same, found.kind) == (True, "equal weights")


def test_all_coefficients_or_trials(monkeypatch):
    spec = attention([3, 3], [2])
    W = drawn(spec, 4)
    other = moved(spec, W, 4)
    theorem = same_function(spec, W, other)
    assert (theorem.kind, theorem.error, theorem.degree) == ("all coefficients", None, 3)
    assert math.prod(theorem.primes) > 2 ** (theorem.norm_bits + 6)
    assert "all its coefficients" in theorem.explanation
    monkeypatch.setattr(same, "_MOST_WORK", 0)
    chance = same_function(spec, W, other, error=-100)
    assert chance.kind == "trials"
    assert chance.error <= -100
    assert f"2^{chance.error}" in chance.explanation
    assert same_function(spec, W, other, seed=1).primes != same_function(spec, W, other).primes


@pytest.mark.parametrize("work", [0, 10_000_000], ids=["trials", "all coefficients"])
def test_differences_that_small_inputs_do_not_show(monkeypatch, work):
    """x (x² - 1) (x² - 4) … (x² - 81) vanishes at all inputs from -9 to 9."""

    @parametrization(parameters={"w": (1,)}, inputs={"x": (1,)})
    def hidden(w, x):
        product = x
        for n in range(1, 10):
            product = product * (x**2 - n**2)
        return w * product

    monkeypatch.setattr(same, "_MOST_WORK", work)
    found = same_function(hidden, {"w": [1]}, {"w": [2]})
    assert found.same is False
    assert abs(found.difference.input["x"][0]) > 9
    assert found.difference.first[0] * 2 == found.difference.second[0]


def test_a_difference_that_one_prime_hides():
    """Weights that agree mod 2^31 - 1 are no closer than others."""
    spec = attention([2, 1], [1])
    W = drawn(spec, 0)
    other = {name: x.copy() for name, x in W.items()}
    other["layer1.head1.V"][0, 0] += 2**31 - 1
    assert same_function(spec, W, other).same is False


def test_what_is_open():
    spec = attention([2, 2], [1], score="softmax", norm="rms", mlp_width=2, activation="cube")
    W = drawn(spec, 0, 5)
    other = dict(W)
    other["layer1.W1"], other["layer1.W2"] = W["layer1.W1"] * 2, W["layer1.W2"] / 8
    found = same_function(spec, W, other)
    assert (found.same, found.kind) == (None, "open")
    assert json.loads(found.to_json())["same"] is None


def test_a_program_of_ones_own():
    @parametrization(parameters={"a": (2,), "b": (2,)}, inputs={"x": (2,)})
    def quotient(a, b, x):
        return (a * x) / (1 + (b * x) ** 2)

    one = {"a": [1, 2], "b": [0.5, -3]}
    assert same_function(quotient, one, {"a": [1, 2], "b": [-0.5, 3]}).kind == "trials"
    assert same_function(quotient, one, {"a": [1, 2], "b": [0.5, 2]}).same is False

    @parametrization(parameters={"a": ()}, inputs={"x": ()})
    def exponential(a, x):
        return exp(a * x)

    assert same_function(exponential, {"a": 1}, {"a": Fraction(1) + Fraction(1, 2**40)}).same is False


def test_files_are_read(tmp_path):
    spec = attention([2, 2], [1])
    W = floats(spec, 0)
    np.savez(tmp_path / "w.npz", **W)
    assert same_function(spec, tmp_path / "w.npz", W).kind == "equal weights"


def test_json():
    spec = attention([2, 1], [1])
    content = json.loads(same_function(spec, drawn(spec, 0), drawn(spec, 1)).to_json())
    assert content["kind"] == "difference"
    assert len(content["difference"]["input"]["X"]) == 2


def test_what_cannot_be_used_is_refused():
    spec = attention([2, 1], [1], score="normalized")
    W = drawn(spec, 0)
    zero = {**W, "layer1.head1.Q": W["layer1.head1.Q"] * 0}
    with pytest.raises(InputError, match="a denominator vanishes at every input"):
        same_function(spec, W, zero)
    with pytest.raises(InputError, match="error: expected an exponent"):
        same_function(spec, W, W, error=0)
    with pytest.raises(InputError, match=r"no 64 trials reach an error of 2\^-9999"):
        same_function(spec, W, {**W, "layer1.head1.Q": W["layer1.head1.Q"] * 2}, error=-9999)
    with pytest.raises(SpecError, match="missing"):
        same_function(spec, W, {})


# ---------------------------------------------------------------------------------------- bounds and values


def leaves(program, theta):
    """θ as SymPy numbers, inputs as symbols."""
    at, arrays = 0, []
    for _, shape in program.parameters:
        size = math.prod(shape)
        entries = [sympy.Rational(x.numerator, x.denominator) for x in theta[at : at + size]]
        arrays.append(np.array(entries, dtype=object).reshape(shape))
        at += size
    return arrays + symbols(program)[len(program.parameters) :]


@pytest.mark.parametrize(
    "spec",
    [
        attention([2, 1], [1]),
        attention([2, 2, 1], [1, 1]),
        attention([2, 1], [2], residual=False, qk_bias=True),
        attention([2, 1], [1], score="normalized"),
        {"kind": "mlp", "widths": [2, 2, 1], "activation": "cube", "bias": True},
    ],
    ids=str,
)
def test_bounds_are_no_less_than_degrees_and_norms(spec):
    program = read_target(spec)[0]
    theta = [x / Fraction(1 + i % 3) for i, x in enumerate(read_weights(program, drawn(spec, 1, 4)))]
    L = math.lcm(*(x.denominator for x in theta))
    bound = output_quotient(program, theta, L)
    for value in symbolic(program, leaves(program, theta)).flat:
        over, under = sympy.fraction(sympy.cancel(sympy.together(value)))
        free = sorted(value.free_symbols, key=str)
        N, D = sympy.Poly(over, *free), sympy.Poly(under, *free)
        assert N.total_degree() <= bound.degree
        assert D.total_degree() <= bound.low_degree
        assert bound.has_denominator == (spec.get("score") == "normalized")
        if not bound.has_denominator:
            scaled = sympy.Poly(sympy.expand(value * L**bound.power), *free)
            assert all(c.is_integer for c in scaled.coeffs())
            assert sum(abs(int(c)) for c in scaled.coeffs()) <= 2**bound.norm
    assert len(denominators(program, theta, L)) == bound.has_denominator


def test_exact_values_agree_with_values_mod_p():
    p = 1_000_003
    for spec in (*SPECS[:6], attention([2, 2], [1], score="normalized", tokens=3)):
        program = read_target(spec)[0]
        theta = read_weights(program, drawn(spec, 3, 9))
        x = [1 + i * i % 5 for i in range(program.input_count)]
        residues = np.array([int(v) % p for v in theta])
        wanted = Evaluator(program, p, residues).values(np.array([x]))[0]
        found = [v.numerator * pow(v.denominator, -1, p) % p for v in evaluate(program, theta, x)]
        assert found == wanted.tolist()


def test_intervals_contain_exact_values_and_shrink():
    spec = attention([2, 2], [1], score="normalized", tokens=2)
    program = read_target(spec)[0]
    theta = [v / 7 for v in read_weights(program, drawn(spec, 5, 9))]
    x = [1, 2, 3, 5]
    exact, rough, fine = evaluate(program, theta, x), enclose(program, theta, x, 60), enclose(program, theta, x, 300)
    for value, a, b in zip(exact, rough, fine, strict=True):
        assert a[0] <= b[0] <= value <= b[1] <= a[1]
        assert b[1] - b[0] < Fraction(1, 2**200)
    zero = {name: x * 0 for name, x in drawn(spec, 5).items()}
    assert enclose(program, read_weights(program, zero), x, 60) is None
    with pytest.raises(InputError, match="one that uses exp"):
        evaluate(read_target(TRANSCENDENTAL[0])[0], [Fraction(1)] * 12, [1] * 6)
