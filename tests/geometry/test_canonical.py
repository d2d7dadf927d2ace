"""Normal forms and transport: invariant under the group, telling functions apart, and finding the group element."""

from __future__ import annotations

import itertools
import json
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ffrank.errors import InputError, MatrixError
from ffrank.geometry.canonical import canonical_form
from ffrank.geometry.elements import Step, apply_steps
from ffrank.geometry.isometries import carry_factors, carry_isometry, carry_span
from ffrank.geometry.layers import Q, plain_attention
from ffrank.geometry.same import same_function
from ffrank.geometry.transport import transport
from ffrank.geometry.weights import read_target, read_weights, weights_dict
from ffrank.program.evaluate import Evaluator
from tests.geometry.group_elements import SPECS, attention, drawn, element, invertible, isometry, nudged


def moved(spec, W, seed):
    return apply_steps(plain_attention(spec), W, element(spec, seed))


def equal(first, second):
    return all((first[name] == second[name]).all() for name in first)


# ------------------------------------------------------------------------------------------------------ generic


@pytest.mark.parametrize("spec", SPECS, ids=json.dumps)
@pytest.mark.parametrize("seed", [1, 2])
def test_group_elements_are_found_and_keep_the_form(spec, seed):
    W = drawn(spec, seed)
    other = moved(spec, W, seed)
    found = transport(spec, W, other)
    assert found.reason == ""
    assert found
    assert equal(found.apply(W), other)
    form = canonical_form(spec, W)
    assert form.complete, form.reason
    assert form == canonical_form(spec, other)
    assert hash(form) == hash(canonical_form(spec, other))


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_the_element_of_random_deep_networks_is_found(seed, d, a, heads, residual):
    spec = attention([d, d, d], [min(a, d), min(a, d)], heads=heads, residual=residual)
    W = drawn(spec, seed, 1000)
    other = moved(spec, W, seed + 1)
    found = transport(spec, W, other)
    assert found, found.reason
    assert equal(found.apply(W), other)
    assert canonical_form(spec, W) == canonical_form(spec, other)


@pytest.mark.parametrize("spec", SPECS, ids=json.dumps)
def test_different_functions_have_different_forms(spec):
    W = drawn(spec, 3)
    other = moved(spec, W, 3)
    for name in ("layer1.head1.K", "layer1.head1.O" if "value_dim" in spec else "layer1.head1.V"):
        wrong = nudged(other, name)
        assert canonical_form(spec, W) != canonical_form(spec, wrong)
        found = transport(spec, W, wrong)
        assert not found
        assert found.steps == ()
        if spec.get("score") != "softmax":
            assert "The functions differ: output" in found.reason


def test_the_element_is_the_one_that_was_used():
    spec = attention([3, 3], [2])
    W = drawn(spec, 1)
    g, c = invertible(2, random.Random(0)), np.array([[Fraction(5, 3)]], dtype=object)
    steps = [Step("rescaling", 1, 1, c), Step("general-linear", 1, 1, g)]
    found = transport(spec, W, apply_steps(plain_attention(spec), W, steps))
    assert [s.rule for s in found.steps] == ["rescaling", "general-linear"]
    assert (found.steps[0].matrix == c).all()
    assert (found.steps[1].matrix == g).all()
    assert "rescaling, layer 1 head 1: [5/3]" in found.text()
    content = json.loads(found.to_json())
    assert content["steps"][0]["matrix"] == [["5/3"]]


def test_nothing_to_do():
    spec = attention([3, 3, 3], [2, 2], heads=2)
    W = drawn(spec, 1)
    found = transport(spec, W, W)
    assert found
    assert found.steps == ()


def test_floats_are_exact():
    spec = attention([3, 3, 3], [2, 2], heads=2)
    rng = np.random.default_rng(0)
    W = {name: rng.normal(size=shape) for name, shape in read_target(spec)[0].parameters}
    other = {name: x * {"Q": 2.0, "K": 0.5}.get(name[-1], 1.0) for name, x in W.items()}
    assert transport(spec, W, other)
    assert canonical_form(spec, W) == canonical_form(spec, other)


# ------------------------------------------------------------------------------------------- discrete symmetries


@pytest.mark.parametrize(
    "spec",
    [
        attention([3, 1], [1]),
        attention([3, 3], [1], heads=3, value_dim=1),
        attention([3, 3, 1], [2, 1]),
        attention([3, 3], [1], value_dim=1, causal=True),
    ],
    ids=json.dumps,
)
def test_the_swap_of_rank_one_heads(spec):
    W, layer = drawn(spec, 5), len(spec["attention_dims"])
    swapped = apply_steps(plain_attention(spec), W, [Step("swap", layer, 1)])
    assert same_function(spec, W, swapped)
    assert canonical_form(spec, W) == canonical_form(spec, swapped)
    other = moved(spec, swapped, 5)
    found = transport(spec, W, other)
    assert found, found.reason
    assert "swap" in [step.rule for step in found.steps]
    assert equal(found.apply(W), other)
    assert canonical_form(spec, W) == canonical_form(spec, other)


def test_a_swap_needs_rank_one():
    spec = attention([3, 3], [2])
    with pytest.raises(InputError, match="a head with a = 1 and values of rank 1"):
        apply_steps(plain_attention(spec), drawn(spec, 0), [Step("swap", 1, 1)])


def test_permuted_heads():
    spec = attention([4, 4], [2], heads=3)
    W = drawn(spec, 0)
    other = {
        name.replace("head1", "head0").replace("head3", "head1").replace("head0", "head3"): x for name, x in W.items()
    }
    assert [step.text() for step in transport(spec, W, other).steps] == ["head-permutation, layer 1: 3 2 1"]
    assert canonical_form(spec, W) == canonical_form(spec, other)


# --------------------------------------------------------------------------------- one head, one layer: all weights


@pytest.mark.parametrize(
    ("spec", "entries"),
    [
        (attention([2, 1], [1]), (-1, 0, 1)),
        (attention([2, 1], [1], tokens=1), (-1, 0, 1)),
        (attention([2, 2], [1]), (0, 1)),
        (attention([1, 2], [2]), (-1, 0, 1)),
        (attention([2, 1], [2]), (0, 1)),
        (attention([2, 1], [2], tokens=1), (0, 1)),
        (attention([2, 2], [1], causal=True), (0, 1)),
        (attention([2, 2], [1], tokens=1), (0, 1)),
    ],
    ids=str,
)
def test_forms_are_equal_exactly_if_functions_are(spec, entries):
    """Special weights included: functions are compared by their values at enough points mod a large prime."""
    program, p = read_target(spec)[0], 2**31 - 1
    x = np.random.default_rng(0).integers(0, p, (40, program.input_count))
    by_function, by_form = {}, {}
    for at, theta in enumerate(itertools.product(entries, repeat=program.parameter_count)):
        values = Evaluator(program, p, np.array(theta) % p).values(x)
        form = canonical_form(spec, weights_dict(program, [Fraction(v) for v in theta]))
        assert form.complete
        assert form.proven
        by_function.setdefault(values.tobytes(), set()).add(at)
        by_form.setdefault(form, set()).add(at)
    assert sorted(map(sorted, by_function.values())) == sorted(map(sorted, by_form.values()))


def test_three_linear_forms_of_one_token():
    """(f·x)(g·x)(h·x) does not say which factor is the value's."""
    spec = attention([3, 1], [1], tokens=1)
    f, g, h = ([[1, 2, 3]], [[2, 0, 1]], [[1, -1, 5]])
    forms = {
        canonical_form(spec, {"layer1.head1.V": v, "layer1.head1.K": k, "layer1.head1.Q": q})
        for v, k, q in itertools.permutations([f, g, h])
    }
    assert len(forms) == 1


# ----------------------------------------------------------------------------------------------- what is not generic


def test_weights_that_are_not_generic_are_named():
    spec = attention([3, 3, 3], [2, 2], heads=2)
    W = drawn(spec, 0)
    W["layer1.head2.V"] = W["layer1.head1.V"].copy()
    form = canonical_form(spec, W)
    assert not form.complete
    assert form.reason.startswith("W is not generic: its Jacobian has rank")
    zero = canonical_form(spec, {name: x * 0 for name, x in W.items()})
    assert zero.blocks == {}
    assert not zero.complete


def test_fibers_that_are_not_explained_are_named():
    spec = attention([2, 2], [1], heads=3)
    form = canonical_form(spec, drawn(spec, 0))
    assert not form.complete
    assert "dimension 12, the orbits of the known symmetries 6" in form.reason


def test_hidden_directions_that_nothing_sees_do_not_count():
    spec = attention([5, 4, 1], [2, 1])
    W = drawn(spec, 0, 5)
    sees = np.vstack([W[f"layer2.head1.{x}"] for x in "QKV"])
    n = Q.nullspace(sees)
    other = dict(W)
    other["layer1.head1.V"] = W["layer1.head1.V"] + np.outer(n[:, 0], [1, 2, 3, 4, 5])
    assert same_function(spec, W, other)
    assert canonical_form(spec, W) == canonical_form(spec, other)
    found = transport(spec, W, other)
    assert not found
    assert found.reason.endswith("Yet both give the same function.")


def test_transport_says_what_does_not_fit():
    spec = attention([3, 3], [2], heads=2)
    W = drawn(spec, 0)
    found = transport(spec, W, drawn(spec, 1))
    assert found.reason.startswith("Layer 1: no head of W1 has scores proportional to those of head 1 of W2.")
    assert json.loads(found.to_json())["found"] is False
    assert found.text() == found.reason
    softmax = attention([3, 3], [2], score="softmax")
    assert transport(softmax, drawn(softmax, 0), drawn(softmax, 1)).reason.startswith(
        "Layer 1: no head of W1 has scores equal"
    )
    low = {name: x * (0 if name.endswith("Q") else 1) for name, x in W.items()}
    assert "not generic" in transport(spec, low, {**low, "layer1.head1.K": W["layer1.head2.K"]}).reason
    mixing = attention([2, 2], [2], heads=2)
    assert "no combinations" in transport(attention([3, 3], [3], heads=2), drawn(attention([3, 3], [3], heads=2), 0),
                                          drawn(attention([3, 3], [3], heads=2), 1)).reason  # fmt: skip
    assert transport(mixing, drawn(mixing, 0), drawn(mixing, 1)).found is False


@pytest.mark.parametrize("change", [{"norm": "rms"}, {"mlp_width": 2}])
def test_other_architectures_are_refused(change):
    spec = attention([2, 2], [1], **change)
    for function in (canonical_form, lambda s, W: transport(s, W, W)):
        with pytest.raises(InputError, match="without norm and MLP"):
            function(spec, drawn(spec, 0))


def test_forms_as_json():
    spec = attention([2, 1], [1])
    content = json.loads(canonical_form(spec, drawn(spec, 0)).to_json())
    assert content["proven"] is True
    assert np.array(content["blocks"]["layer1.head1.A"]).shape == (2, 2)


# -------------------------------------------------------------------------------------------- linear algebra behind


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(1, 3), st.integers(1, 6), st.integers(0, 10**6), st.booleans())
def test_isometries_are_found(a, columns, seed, special):
    draw = random.Random(seed)
    S = Q.read(np.array([[draw.randint(0, 1 if special else 9) for _ in range(columns)] for _ in range(2 * a)]))
    T = Q.dot(isometry(a, draw), S)
    J = Q.read(np.block([[np.zeros((a, a)), np.eye(a)], [np.eye(a), np.zeros((a, a))]]).astype(int))
    o = carry_isometry(S, T)
    pivots = Q.rref(S)[1]
    gram = Q.dot(S[:, pivots].T, J, S[:, pivots])
    if o is None:  # only where the form is degenerate on the span
        assert Q.rank(gram) < len(pivots) < 2 * a
    else:
        assert (Q.dot(o, S) == T).all()
        assert (Q.dot(o.T, J, o) == J).all()


def test_an_isometry_by_two_reflections():
    """x - y is isotropic here, so the first reflection will not do."""
    S, T = Q.read(np.array([[1], [1]])), Q.read(np.array([[2], [Fraction(1, 2)]], dtype=object))
    o = carry_isometry(S, T)
    assert (Q.dot(o, S) == T).all()
    assert carry_isometry(S, S * 2) is None
    x, y = Q.read(np.array([[1], [1], [1], [0]])), Q.read(np.array([[1], [1], [0], [0]]))
    o = carry_isometry(x * 1, x * 1)
    assert (o == Q.identity(4)).all()
    assert carry_isometry(x, y) is None


def test_maps_between_factors_and_spans():
    draw = random.Random(4)
    for a, d in ((2, 3), (3, 2), (3, 3), (4, 2)):
        g = invertible(a, draw)
        keys, queries = (Q.read(np.array([[draw.randint(-5, 5) for _ in range(d)] for _ in range(a)])) for _ in "KQ")
        back = Q.inverse(g).T
        found = carry_factors(queries, keys, Q.dot(g, queries), Q.dot(back, keys))
        assert (Q.dot(found, queries) == Q.dot(g, queries)).all()
        assert (Q.dot(Q.inverse(found).T, keys) == Q.dot(back, keys)).all()
    zero = Q.zeros(2, 2)
    assert carry_factors(zero, zero, zero, Q.identity(2)) is None
    assert carry_span(zero, zero) is None
    with pytest.raises(MatrixError, match="invertible matrix, got one of rank 0 < 2"):
        Q.inverse(zero)
    spec = attention([2, 2], [1])
    assert read_weights(spec, drawn(spec, 0)) == [x for v in drawn(spec, 0).values() for x in v.flat]
