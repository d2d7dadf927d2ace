"""Fibers: explained where they should be, and the directions that are not are found, lifted and named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ffrank import linalg
from ffrank.errors import InputError, ModulusError
from ffrank.geometry import directions
from ffrank.geometry.fibers import fiber_proofs, fibers
from ffrank.geometry.formulas import ambient_tokens
from ffrank.geometry.generators import generator_matrix
from ffrank.geometry.symmetry import families
from ffrank.geometry.tangents import independent_rows
from ffrank.geometry.weights import read_target, read_weights, reduce_weights
from ffrank.program.evaluate import Evaluator
from ffrank.program.trace import parametrization
from tests.geometry.group_elements import attention

P = 2**31 - 1
CASES = json.loads((Path(__file__).parents[1] / "reference" / "cases.json").read_text())
MIXING = [attention([3, 3], [3], heads=h) for h in (2, 3)]


@pytest.mark.parametrize("case", CASES, ids=lambda c: json.dumps(c["spec"]))
def test_the_symmetries_explain_the_fiber_unless_the_ambient_space_is_full(case):
    found = fibers(case["spec"])
    assert found.dimension == case["dimension"]
    assert found.parameters == case["parameters"] == found.dimension + found.fiber
    if case["spec"]["kind"] == "attention":
        full = found.dimension == ambient_tokens(found.architecture)
        assert found.explained or full
    assert len(found.unexplained) == found.fiber - found.orbit
    assert found.explained == (not found.unexplained)


@pytest.mark.parametrize(
    "spec",
    [
        attention([3, 3, 3], [2, 2], heads=2, residual=True),
        attention([3, 3, 3], [2, 2], tokens=3, norm="rms"),
        attention([3, 3, 3], [2, 2], tokens=3, norm="layer"),
        attention([3, 3], [2], score="softmax", norm="rms", residual=True, mlp_width=3, activation="silu"),
        attention([3, 3], [2], tokens=3, score="normalized", heads=2),
        attention([2, 2], [2], tokens=3, score="softmax", qk_bias=True),
        {"kind": "mlp", "widths": [3, 3, 2], "activation": "cube", "bias": True},
    ],
    ids=str,
)
def test_other_architectures(spec):
    assert fibers(spec).explained


def test_a_pre_norm_block_has_the_base_change_of_its_scores_only():
    found = fibers(attention([3, 3], [2], score="softmax", norm="rms", residual=True, mlp_width=3, activation="silu"))
    assert found.rows() == [("general-linear", "GL(2)", "layer 1 head 1", "4")]
    assert found.fiber == 4


# --------------------------------------------------------------------------------- heads that mix, found and named


@pytest.mark.parametrize("spec", MIXING, ids=["2 heads", "3 heads"])
def test_without_the_mixing_rule_exactly_the_mixing_directions_are_left(spec):
    heads = spec["heads"]
    found, whole = fibers(spec, without=["head-mixing"]), fibers(spec)
    assert whole.explained
    assert whole.orbit == found.orbit + heads * (heads - 1)
    assert len(found.unexplained) == heads * (heads - 1)
    assert all(x.lifted for x in found.unexplained)
    program, architecture = read_target(spec)
    theta = reduce_weights(read_weights(spec, found.unexplained[0].point), P)
    known = families(architecture)
    T = generator_matrix(program, [f for f in known if f.rule != "head-mixing"], theta, P)
    mixing = generator_matrix(program, [f for f in known if f.rule == "head-mixing"], theta, P)
    left = np.array([reduce_weights(tangent(program, x), P) for x in found.unexplained]).T
    size = T.shape[1] + heads * (heads - 1)
    assert linalg.rank(T, P) == T.shape[1]
    assert linalg.rank(np.hstack([T, left]), P) == size
    assert linalg.rank(np.hstack([T, mixing]), P) == size
    assert linalg.rank(np.hstack([T, left, mixing]), P) == size


@pytest.mark.parametrize("spec", MIXING, ids=["2 heads", "3 heads"])
def test_the_mixing_can_be_read_off(spec):
    """Keys are unit matrices at the point, so dQ_j = -Q_h says that A_j loses A_h while V_h gains V_j."""
    pairs = set()
    for direction in fibers(spec, without=["head-mixing"]).unexplained:
        (values,) = (name for name in direction.blocks if name.endswith("V"))
        (queries,) = (name for name in direction.blocks if name.endswith("Q"))
        point, h, j = direction.point, values[: -len("V")], queries[: -len("Q")]
        assert (point[h + "K"] == np.eye(3)).all()
        sign = 1 if (direction.blocks[values] == point[j + "V"]).all() else -1
        assert (direction.blocks[values] == sign * point[j + "V"]).all()
        assert (direction.blocks[queries] == -sign * point[h + "Q"]).all()
        pairs.add((h, j))
    assert len(pairs) == spec["heads"] * (spec["heads"] - 1)


def tangent(program, direction):
    blocks = {name: np.zeros(shape, int) for name, shape in program.parameters} | direction.blocks
    return read_weights(program, blocks)


@pytest.mark.parametrize(
    ("spec", "without"),
    [
        (MIXING[0], ["head-mixing"]),
        (MIXING[0], ["rescaling", "head-mixing"]),
        (attention([3, 3, 3], [1, 3]), ["split-orthogonal"]),
        (attention([2, 3, 2], [2, 2]), ["layer-basis"]),
        (attention([2, 2], [2], tokens=3, score="softmax", qk_bias=True), ["key-bias"]),
        (attention([3, 3], [2], norm="layer"), ["layer-norm-input"]),
        ({"kind": "mlp", "widths": [2, 3, 2]}, []),
    ],
    ids=str,
)
def test_directions_lie_in_the_kernel_outside_the_orbit(spec, without):
    found = fibers(spec, without=without)
    program, architecture = read_target(spec)
    assert found.unexplained
    assert all(x.lifted for x in found.unexplained)
    p = 1_000_000_007
    theta = reduce_weights(read_weights(spec, found.unexplained[0].point), p)
    columns = np.array([reduce_weights(tangent(program, x), p) for x in found.unexplained]).T
    J = independent_rows(program, p, 5, theta, program.parameter_count)
    assert not linalg.matmul(J.matrix, columns, p).any()
    T = generator_matrix(program, [f for f in families(architecture) if f.rule not in without], theta, p)
    assert linalg.rank(np.hstack([T, columns]), p) == J.matrix.shape[1] - J.rank


def test_directions_are_printed_by_block():
    found = fibers(MIXING[0], without=["head-mixing"])
    text = found.unexplained[0].text().splitlines()
    assert any(line.startswith("d layer1.head1.V = [") for line in text)
    assert not any("K =" in line for line in text)  # generators take care of keys
    assert len({len(line) for line in text[:3]}) == 1
    entry = json.loads(found.to_json())["unexplained"][0]
    assert entry["prime"] is None
    assert set(entry["direction"]) == set(found.unexplained[0].blocks)


def test_directions_stay_residues_where_lifting_fails(monkeypatch):
    monkeypatch.setattr(directions, "_SIZES", ())
    found = fibers(MIXING[0], without=["head-mixing"])
    assert [x.prime for x in found.unexplained] == [P, P]
    program, _ = read_target(MIXING[0])
    theta = np.concatenate([x.reshape(-1) for x in found.unexplained[0].point.values()]).astype(np.int64)
    J = Evaluator(program, P, theta).jacobian(np.arange(30, dtype=np.int64).reshape(5, 6))
    vector = reduce_weights(tangent(program, found.unexplained[0]), P)
    assert not linalg.matmul(J, vector[:, None], P).any()


# ------------------------------------------------------------------------------------------------------- the rest


def test_factors_are_grouped_and_named():
    found = fibers(attention([3, 3, 3], [2, 2], heads=2))
    assert found.headings == ("rule", "group", "where", "dimension")
    assert found.rows() == [
        ("general-linear", "GL(2)", "layer 1 head 1, 2; layer 2 head 1, 2", "16"),
        ("rescaling", "GL(1)", "layer 1 head 1, 2; layer 2 head 1, 2", "4"),
        ("layer-basis", "GL(3)", "layer 1", "9"),
    ]
    assert (found.generators, found.orbit, found.fiber) == (29, 29, 29)
    assert "finitely many orbits" in found.explanation
    groups = {f.rule: f.group for f in fibers(attention([3, 4, 3], [1, 3], norm="rms")).factors}
    assert groups["layer-rotation"] == "O(4)"
    assert {f.rule: f.group for f in fibers(attention([3, 3], [2], tokens=1)).factors} == {
        "split-orthogonal": "O(2, 2)",
        "rescaling": "GL(1)",
    }
    assert "GL(3) less its scalings" in {f.group for f in fibers(MIXING[1]).factors}


def test_dependent_generators_count_once():
    found = fibers(attention([3, 3], [4]))
    assert found.generators == 17
    assert found.orbit == found.fiber < 17


@pytest.mark.parametrize("p", [3, 5, 101, 2**31 + 11])
def test_small_primes_are_refused(p):
    with pytest.raises(ModulusError, match="1048576 < p"):
        fibers(MIXING[0], prime=p)


def test_seeds_do_not_matter():
    assert len({(f.dimension, f.orbit) for f in (fibers(MIXING[0], seed=s) for s in range(5))}) == 1


def test_the_result_as_json():
    content = json.loads(fibers(attention([3, 3], [2])).to_json())
    assert content["explained"] is True
    assert content["fiber"] == content["orbit"] == 5
    assert content["factors"][0]["places"] == [[1, 1]]


@pytest.mark.parametrize(
    ("spec", "rules"),
    [
        (attention([3, 3], [3], heads=2), ["general-linear", "rescaling", "head-mixing"]),
        (attention([2, 2], [2], qk_bias=True), ["general-linear-bias", "rescaling"]),
        (
            attention([3, 3, 3], [1, 3]),
            ["general-linear", "rescaling", "layer-basis", "rank-one-tokens", "split-orthogonal"],
        ),
        (attention([2, 2], [1], tokens=1, score="softmax"), ["unseen-scores"]),
        (attention([1, 2], [1], tokens=2, score="normalized"), ["unseen-scores-rank-one"]),
        ({"kind": "mlp", "widths": [2, 2, 2]}, ["neuron-scaling"]),
    ],
    ids=str,
)
def test_proofs_of_the_rules_that_occur(spec, rules):
    proofs = fiber_proofs(spec)
    assert [proof.rule for proof in proofs] == rules
    for proof in proofs:
        assert proof.holds
        assert proof.statement in proof.text()
        assert r"\mapsto" in proof.latex() or proof.rule == "rank-one-tokens"


def test_what_cannot_be_used_is_refused():
    @parametrization(parameters={"w": (2,)}, inputs={"x": (2,)})
    def own(w, x):
        return w * x

    with pytest.raises(InputError, match="a program of your own has no symmetry rules"):
        fibers(own)
    with pytest.raises(InputError, match=r"rules that occur \(general-linear, rescaling\), got head-mixing"):
        fibers(attention([3, 3], [2]), without=["head-mixing"])
    with pytest.raises(InputError, match="seed"):
        fibers(attention([3, 3], [2]), seed=-1)
    with pytest.raises(ModulusError):
        fibers(attention([3, 3], [2]), prime=15)
