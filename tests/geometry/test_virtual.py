"""Virtual weights: the network factors through them, they can be taken back, and their count is the dimension."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from ffrank.errors import InputError, ShapeError
from ffrank.geometry.symmetry import rank_one_tokens
from ffrank.geometry.values import evaluate
from ffrank.geometry.virtual import (
    VirtualWeights,
    factors_through,
    from_virtual,
    to_virtual,
    virtual_dimension,
    virtual_program,
    virtual_proof,
    virtual_spec,
)
from ffrank.geometry.weights import read_target, read_weights
from ffrank.program.symbolic import symbolic, symbols
from tests.geometry.group_elements import attention, drawn

CASES = [
    c
    for c in json.loads((Path(__file__).parents[1] / "reference" / "cases.json").read_text())
    if c["spec"]["kind"] == "attention"
    and c["spec"].get("heads", 1) == 1
    and not {"residual", "norm", "mlp_width", "qk_bias"} & set(c["spec"])
]
OTHERS = [
    attention([3, 2, 3], [2, 2], tokens=3, score="softmax", causal=True),
    attention([3, 4, 2], [1, 2], tokens=3, score="normalized", value_dim=2),
    attention([3, 2, 4], [2, 1], causal=True, value_dim=1),
]


def same(first, second):
    return all((a == b).all() for a, b in zip(first.named().values(), second.named().values(), strict=True))


@pytest.mark.parametrize("spec", [c["spec"] for c in CASES] + OTHERS, ids=json.dumps)
def test_the_network_factors_through_virtual_weights(spec):
    assert factors_through(spec)


def test_factoring_can_fail(monkeypatch):
    """With another map of the virtual weights the check notices."""
    spec = attention([3, 3, 3], [2, 2])
    monkeypatch.setattr(
        "ffrank.geometry.virtual.to_virtual",
        lambda s, W, prime: VirtualWeights((v := to_virtual(s, W, prime=prime)).M[::-1], v.L),
    )
    assert not factors_through(spec)


def test_factoring_over_q():
    spec = attention([3, 2, 4], [2, 3])
    W, x = drawn(spec, 1, 5), [1, -2, 0, 3, 1, 1]
    virtual = to_virtual(spec, W)
    theta = [v for M in virtual.named().values() for v in M.flat]
    program = read_target(spec)[0]
    assert evaluate(program, read_weights(program, W), x) == evaluate(virtual_program(spec), theta, x)


def test_factoring_in_symbols():
    spec = attention([2, 1, 2], [1, 1], tokens=1)
    program = read_target(spec)[0]
    leaves = symbols(program)
    virtual = to_virtual(spec, dict(zip([name for name, _ in program.parameters], leaves[:-1], strict=True)))
    short = symbolic(virtual_program(spec), [*virtual.named().values(), leaves[-1]])
    assert all(sympy.expand(a - b) == 0 for a, b in zip(symbolic(program).flat, short.flat, strict=True))


def test_the_induction_is_proven_for_symbolic_sizes():
    proof = virtual_proof()
    assert proof.holds
    assert "R" in proof.text()
    assert r"\[" in proof.latex()


# ------------------------------------------------------------------------------------------------------- back


@pytest.mark.parametrize("prime", [None, 101, 2**31 - 1])
@pytest.mark.parametrize("spec", [c["spec"] for c in CASES] + OTHERS, ids=json.dumps)
def test_there_and_back(spec, prime):
    W = drawn(spec, 3, 6)
    if prime:
        W = {name: np.vectorize(lambda v: int(v) % prime, otypes=[object])(x) for name, x in W.items()}
    virtual = to_virtual(spec, W, prime=prime)
    back = from_virtual(spec, virtual, prime=prime)
    assert {name: x.shape for name, x in back.items()} == {name: x.shape for name, x in W.items()}
    assert same(virtual, to_virtual(spec, back, prime=prime))
    again = from_virtual(spec, to_virtual(spec, back, prime=prime), prime=prime)
    assert all((again[name] == back[name]).all() for name in back)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data())
def test_there_and_back_at_any_sizes_and_special_weights(data):
    widths = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    dims = data.draw(st.lists(st.integers(1, 4), min_size=len(widths) - 1, max_size=len(widths) - 1))
    spec = attention(widths, dims, value_dim=data.draw(st.sampled_from([None, 1, 2])))
    virtual = to_virtual(spec, drawn(spec, data.draw(st.integers(0, 99)), data.draw(st.integers(0, 2))))
    assert same(virtual, to_virtual(spec, from_virtual(spec, virtual)))


def test_what_no_weights_give_is_refused():
    spec = attention([2, 1, 2], [1, 1])
    unit, zero = np.eye(2, dtype=int), np.zeros((2, 2), int)
    with pytest.raises(InputError, match=r"expected rank M_1 ≤ attention_dims\[0\] = 1, got rank 2"):
        from_virtual(spec, VirtualWeights((unit, zero), zero))
    with pytest.raises(InputError, match="layers after 1 see 2 dimensions, more than width 1"):
        from_virtual(spec, VirtualWeights((zero, zero), unit))
    with pytest.raises(InputError, match="rank of the values of layer 1 ≤ value_dim = 1, got rank 2"):
        from_virtual(attention([2, 2], [1], value_dim=1), VirtualWeights((zero,), unit))
    with pytest.raises(ShapeError, match="expected 2 matrices"):
        from_virtual(spec, VirtualWeights((zero,), zero))


@pytest.mark.parametrize(
    "change", [{"heads": 2}, {"residual": True}, {"norm": "rms"}, {"mlp_width": 2}, {"qk_bias": True}]
)
def test_other_architectures_are_refused(change):
    with pytest.raises(InputError, match="one head, without skip, norm, MLP and qk_bias"):
        virtual_spec(attention([2, 2], [1], **change))


def test_missing_and_misshapen_weights_are_refused():
    spec = attention([2, 2], [1])
    with pytest.raises(InputError, match=r"expected layer1.head1.Q, which is missing"):
        to_virtual(spec, {})
    with pytest.raises(ShapeError, match=r"layer1.head1.Q: expected shape \(1, 2\)"):
        to_virtual(spec, {**drawn(spec, 0), "layer1.head1.Q": np.eye(2, dtype=int)})


# --------------------------------------------------------------------------------------------- the dimension


@pytest.mark.parametrize("case", CASES, ids=lambda c: json.dumps(c["spec"]))
def test_the_dimension_by_way_of_virtual_weights(case):
    """It is the dimension unless tokens of rank one hide the skew part of some M_i."""
    found = virtual_dimension(case["spec"])
    assert found.jacobian == case["dimension"] <= found.dimension
    if found.agrees:
        assert found.dimension == case["dimension"]
    else:
        assert any(rank_one_tokens(virtual_spec(case["spec"])))
    assert json.loads(found.to_json())["agrees"] == found.agrees


def test_a_bottleneck_and_a_wide_hidden_layer():
    assert virtual_dimension(attention([4, 3, 4], [2, 2])).agrees
    assert virtual_dimension(attention([2, 4, 3], [2, 2])).dimension == 12
    assert virtual_dimension(attention([5, 4, 1], [2, 1])).agrees  # where layer 2 does not see all of its input


def test_virtual_weights_as_json():
    spec = attention([2, 1], [1])
    content = json.loads(to_virtual(spec, {k: x / Fraction(2) for k, x in drawn(spec, 0, 3).items()}).to_json())
    assert set(content) == {"M1", "L"}
