"""Each rule is proven, each spoiled rule is not, and a field that is proven also kills a differential."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import pytest

from ffrank.errors import InputError
from ffrank.geometry.proofs import RULES, check, letters, prove
from ffrank.geometry.symmetry import families
from ffrank.models.spec import parse_spec

L = letters()


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_is_proven(rule: str) -> None:
    proof = prove(rule)
    assert [step.because for step in proof.steps if not step.holds] == []
    assert proof.holds


def test_the_rules_of_the_format_are_all_there() -> None:
    assert set(RULES) >= {
        "general-linear",
        "split-orthogonal",
        "rescaling",
        "value-basis",
        "attention-basis",
        "neuron-basis",
        "neuron-scaling",
        "layer-basis",
        "translation",
    }


def readers(change: Any) -> dict[Any, Any]:
    return {W: change(W) for W in (L.Q2, L.K2, L.V2, L.U2, L.W)}


w1, bias, w2 = L.W1[L.n, L.i], L.b_n[L.n, 0], L.W2[L.o, L.n]
kept = {w1: L.c_n * w1, bias: L.c_n * bias}
mixed = {L.K: L.F * L.K + L.G * L.Q, L.Q: L.H * L.K - L.F.T * L.Q}
mixed_biases = {L.b_k: L.F * L.b_k + L.G * L.b_q, L.b_q: L.H * L.b_k - L.F.T * L.b_q}
turned = {L.Q: L.E * L.Q, L.K: -L.E.T * L.K}

lifted = L.K_j * L.gram.I * L.K.T * L.Q

# Fields that look like the rule and are wrong.
WRONG_FIELDS = {
    "general-linear: sign": ("general-linear", {L.Q: L.E * L.Q, L.K: L.E.T * L.K}),
    "general-linear: transpose": ("general-linear", {L.Q: L.E * L.Q, L.K: -L.E * L.K}),
    "general-linear: keys forgotten": ("general-linear", {L.Q: L.E * L.Q}),
    "general-linear-bias: biases forgotten": ("general-linear-bias", turned),
    "general-linear-bias: sign": (
        "general-linear-bias",
        turned | {L.b_q: L.E * L.b_q, L.b_k: L.E.T * L.b_k},
    ),
    "general-linear-bias: transpose": (
        "general-linear-bias",
        turned | {L.b_q: L.E * L.b_q, L.b_k: -L.E * L.b_k},
    ),
    "split-orthogonal: sign": ("split-orthogonal", mixed | {L.Q: L.H * L.K + L.F.T * L.Q}),
    "split-orthogonal: transpose": ("split-orthogonal", mixed | {L.Q: L.H * L.K - L.F * L.Q}),
    "split-orthogonal: not skew": ("split-orthogonal", mixed | {L.K: L.F * L.K + L.E * L.Q}),
    "split-orthogonal: queries forgotten": ("split-orthogonal", {L.K: L.F * L.K + L.G * L.Q}),
    "split-orthogonal-bias: biases forgotten": ("split-orthogonal-bias", mixed),
    "split-orthogonal-bias: sign": (
        "split-orthogonal-bias",
        mixed | mixed_biases | {L.b_q: L.H * L.b_k + L.F.T * L.b_q},
    ),
    "split-orthogonal-bias: not skew": (
        "split-orthogonal-bias",
        {
            L.K: L.E * L.Q,
            L.b_k: L.E * L.b_q,
        },
    ),
    "rescaling: sign": ("rescaling", {L.Q: L.c * L.Q, L.b_q: L.c * L.b_q, L.V: L.c * L.V, L.O: L.c * L.O}),
    "rescaling: bias forgotten": ("rescaling", {L.Q: L.c * L.Q, L.V: -L.c * L.V, L.O: -L.c * L.O}),
    "rescaling: twice": (
        "rescaling",
        {L.Q: L.c * L.Q, L.b_q: L.c * L.b_q, L.V: -2 * L.c * L.V, L.O: -2 * L.c * L.O},
    ),
    "value-basis: sign": ("value-basis", {L.U: L.E_v * L.U, L.O: L.O * L.E_v}),
    "value-basis: transpose": ("value-basis", {L.U: L.E_v * L.U, L.O: -L.O * L.E_v.T}),
    "attention-basis: sign": ("attention-basis", {L.B: L.C * L.B, L.W1: L.W1 * L.C}),
    "attention-basis: transpose": ("attention-basis", {L.B: L.C * L.B, L.W1: -L.W1 * L.C.T}),
    "neuron-basis: sign": ("neuron-basis", {L.W1: L.C_m * L.W1, L.W2: L.W2 * L.C_m}),
    "neuron-basis: transpose": ("neuron-basis", {L.W1: L.C_m * L.W1, L.W2: -L.W2 * L.C_m.T}),
    "neuron-scaling: sign": ("neuron-scaling", kept | {w2: L.k * L.c_n * w2}),
    "neuron-scaling: exponent missing": ("neuron-scaling", kept | {w2: -L.c_n * w2}),
    "neuron-scaling: exponent": ("neuron-scaling", kept | {w2: -(L.k + 1) * L.c_n * w2}),
    "neuron-scaling: bias forgotten": ("neuron-scaling", {w1: L.c_n * w1, w2: -L.k * L.c_n * w2}),
    "layer-basis: sign": ("layer-basis", {L.B: L.C * L.B, L.b: L.C * L.b} | readers(lambda W: W * L.C)),
    "layer-basis: transpose": (
        "layer-basis",
        {L.B: L.C * L.B, L.b: L.C * L.b} | readers(lambda W: -W * L.C.T),
    ),
    "layer-basis: keys contragredient": (
        "layer-basis",
        {L.B: L.C * L.B, L.b: L.C * L.b} | readers(lambda W: -W * L.C) | {L.K2: L.K2 * L.C.T},
    ),
    "layer-basis: bias forgotten": ("layer-basis", {L.B: L.C * L.B} | readers(lambda W: -W * L.C)),
    "translation: sign": ("translation", {L.b: L.s, L.b2: L.W * L.s}),
    "translation: next bias forgotten": ("translation", {L.b: L.s}),
    "head-mixing: sign": ("head-mixing", {L.V: L.c * L.V_j, L.Q_j: L.c * lifted}),
    "head-mixing: values forgotten": ("head-mixing", {L.Q_j: -L.c * lifted}),
    "head-mixing: scores forgotten": ("head-mixing", {L.V: L.c * L.V_j}),
    "head-mixing: keys not inverted": ("head-mixing", {L.V: L.c * L.V_j, L.Q_j: -L.c * L.K_j * L.K.T * L.Q}),
    "head-mixing: the other scores": ("head-mixing", {L.V: L.c * L.V_j, L.Q_j: -L.c * L.Q_j}),
    "head-mixing: queries copied": ("head-mixing", {L.V: L.c * L.V_j, L.Q_j: -L.c * L.Q}),
    "layer-unreached: any direction": ("layer-unreached", {L.Q2: L.Q2 * L.C}),
    "layer-unreached: what is reached": ("layer-unreached", {L.V2: L.V2 * L.reach * L.reach.T}),
    "attention-unreached: any direction": ("attention-unreached", {L.W1: L.W1 * L.C}),
    "unseen-scores: values too": ("unseen-scores", {L.Q: L.any_Q, L.V: L.c * L.V}),
    "unseen-scores: inner values too": ("unseen-scores", {L.U: L.E_v * L.U}),
    "unseen-scores-rank-one: values too": ("unseen-scores-rank-one", {L.Q: L.any_Q, L.V: L.c * L.V}),
    "score-scaling: values too": ("score-scaling", {L.Q: L.c * L.Q, L.b_q: L.c * L.b_q, L.V: -L.c * L.V}),
    "score-scaling: bias forgotten": ("score-scaling", {L.Q: L.c * L.Q}),
    "score-scaling: a matrix": ("score-scaling", {L.Q: L.E * L.Q, L.b_q: L.E * L.b_q}),
    "key-bias: queries' bias": ("key-bias", {L.b_q: L.s_k}),
    "key-bias: keys too": ("key-bias", {L.b_k: L.s_k, L.K: L.any_K}),
    "key-bias: sign": ("key-bias", {L.b_k: -L.s_k}),
    "layer-norm-input: any direction": ("layer-norm-input", {L.Q: L.any_Q}),
    "layer-norm-input: rows": ("layer-norm-input", {L.Q: L.Q * L.one_d * L.zd.T}),
    **{
        f"{place}-{name}": (f"{place}-{rule}", change)
        for place, W in (("attention", L.W1), ("layer", L.Q2))
        for name, rule, change in (
            ("rotation: not skew", "rotation", {L.B: L.C * L.B, W: -W * L.C}),
            ("rotation: sign", "rotation", {L.B: L.skew * L.B, W: W * L.skew}),
            ("rotation: readers forgotten", "rotation", {L.B: L.skew * L.B}),
            ("norm-scaling: a matrix", "norm-scaling", {L.B: L.C * L.B}),
            ("norm-scaling: twice", "norm-scaling", {L.B: 2 * L.c * L.B}),
            ("mean: not constant", "mean", {L.B: L.z * L.row.T}),
            ("mean: everything", "mean", {L.B: L.c * L.B}),
        )
    },
}

WRONG_ACTIONS = {
    "general-linear: inverse missing": ("general-linear", {L.Q: L.g * L.Q, L.K: L.g.T * L.K}),
    "general-linear: transpose missing": ("general-linear", {L.Q: L.g * L.Q, L.K: L.g.I * L.K}),
    "general-linear-bias: biases forgotten": ("general-linear-bias", {L.Q: L.g * L.Q, L.K: L.g.I.T * L.K}),
    "rescaling: not inverse": (
        "rescaling",
        {L.Q: L.c * L.Q, L.b_q: L.c * L.b_q, L.V: L.c * L.V, L.O: L.c * L.O},
    ),
    "value-basis: inverse missing": ("value-basis", {L.U: L.g_v * L.U, L.O: L.O * L.g_v}),
    "attention-basis: transpose": ("attention-basis", {L.B: L.g_e * L.B, L.W1: L.W1 * L.g_e.I.T}),
    "neuron-basis: inverse missing": ("neuron-basis", {L.W1: L.g_m * L.W1, L.W2: L.W2 * L.g_m}),
    "neuron-scaling: exponent": ("neuron-scaling", kept | {w2: L.c_n ** (1 - L.k) * w2}),
    "neuron-scaling: sign": ("neuron-scaling", kept | {w2: L.c_n**L.k * w2}),
    "layer-basis: inverse missing": (
        "layer-basis",
        {L.B: L.g_e * L.B, L.b: L.g_e * L.b} | readers(lambda W: W * L.g_e),
    ),
    "translation: sign": ("translation", {L.b: L.b + L.s, L.b2: L.b2 + L.W * L.s}),
    "head-mixing: sign": ("head-mixing", {L.V: L.V + L.c * L.V_j, L.Q_j: L.Q_j + L.c * lifted}),
    "head-mixing: factor": ("head-mixing", {L.V: L.V + L.c * L.V_j, L.Q_j: L.Q_j - lifted}),
    "layer-unreached: not killed": ("layer-unreached", {L.K2: L.K2 * L.g_e}),
    "score-scaling: bias forgotten": ("score-scaling", {L.Q: L.c * L.Q}),
    "layer-rotation: transpose missing": (
        "layer-rotation",
        {L.B: L.orthogonal * L.B} | {W: W * L.orthogonal for W in (L.Q2, L.K2, L.V2, L.U2)},
    ),
    "layer-rotation: not orthogonal": (
        "layer-rotation",
        {L.B: L.g_e * L.B} | {W: W * L.g_e.I for W in (L.Q2, L.K2, L.V2, L.U2)},
    ),
    "layer-norm-scaling: a matrix": ("layer-norm-scaling", {L.B: L.C * L.B}),
    "attention-mean: not constant": ("attention-mean", {L.B: L.B + L.z * L.row.T}),
}


# Architectures in which every rule occurs.
PLACES = [
    {"widths": [2, 3, 2], "attention_dims": [3, 2], "heads": 2, "norm": "layer", "mlp_width": 2, "value_dim": 1},
    {"widths": [2, 5, 2], "attention_dims": [2, 1], "heads": 2, "norm": "none", "mlp_width": 3},
    {"widths": [2, 3, 2], "attention_dims": [3, 2], "norm": "rms", "mlp_width": 2, "activation": "identity"},
    {"widths": [2, 2], "attention_dims": [2], "score": "softmax", "qk_bias": True},
    {"widths": [2, 2], "attention_dims": [2], "score": "softmax", "tokens": 1},
    {"widths": [2, 2], "attention_dims": [2], "score": "normalized"},
    {"widths": [2, 2], "attention_dims": [2], "tokens": 1},
]


def test_every_rule_that_occurs_has_a_proof() -> None:
    specs = [parse_spec({"kind": "attention", "tokens": 2, **place}) for place in PLACES]
    specs += [parse_spec({"kind": "mlp", "widths": [2, 2, 2], "activation": "identity", "bias": True})]
    found = {family.rule for spec in specs for family in families(spec)}
    assert found <= set(RULES)
    assert {rule.removesuffix("-bias").removesuffix("-rank-one") for rule in RULES} - found == {
        "rank-one-tokens",
        "key",  # what is left of key-bias
    }


@pytest.mark.parametrize("name", WRONG_FIELDS)
def test_a_wrong_field_is_not_proven(name: str) -> None:
    rule, field = WRONG_FIELDS[name]
    assert not prove(rule, field=field).holds


@pytest.mark.parametrize("name", WRONG_ACTIONS)
def test_a_wrong_action_is_not_proven(name: str) -> None:
    rule, action = WRONG_ACTIONS[name]
    assert not prove(rule, action=action).holds


def test_every_rule_with_a_field_has_a_wrong_variant() -> None:
    assert {rule for rule, _ in WRONG_FIELDS.values()} | {"rank-one-tokens"} == set(RULES)


# What the lemma on tokens of rank one would need in the cases that it leaves out.
token, other = L.u * L.w.T, L.x * L.w.T
WRONG_TOKENS = {
    "a skip connection with another row": (token + L.u * (L.w.T * L.R), L.u * L.w.T * 2),
    "biased keys": ((L.K * token + L.b_k * L.ones).T * (L.Q * token), token.T * L.K.T * L.Q * token),
    "scores of general tokens": (L.X.T * L.K.T * L.Q * L.X, L.X.T * L.Q.T * L.K * L.X),
    "an activation that is not a power": ((1 + L.p_n * L.sigma) ** L.k, (1 + L.p_n) ** L.k * L.sigma**L.k),
    "a wrong exponent": ((L.p_n * L.sigma) ** L.k, L.p_n**L.k * L.sigma),
    "shapes": (L.w, L.u),
}


@pytest.mark.parametrize("name", WRONG_TOKENS)
def test_what_fails_for_general_tokens(name: str) -> None:
    assert not check(name, *WRONG_TOKENS[name]).holds


def test_the_form_of_rank_one_tokens_is_a_column_times_a_row() -> None:
    columns_times_rows = [step.right for step in prove("rank-one-tokens").steps if len(step.right.args) == 2]
    shapes = [
        [factor.shape for factor in right.args] for right in columns_times_rows if getattr(right, "is_Matrix", False)
    ]
    assert len(shapes) == 3
    assert all(column[1] == 1 and row[0] == 1 for column, row in shapes)


def test_first_order_means_first_order() -> None:
    E2 = L.eps**2 * L.E * L.Q
    assert check("", L.Q + E2, L.Q, first_order=True).holds
    assert not check("", L.Q + E2, L.Q).holds
    assert not check("", L.Q + L.eps * L.E * L.Q, L.Q, first_order=True).holds


def test_unknown_rules_are_refused() -> None:
    with pytest.raises(InputError, match=r"expected one of the rules general-linear, .*got 'general'"):
        prove("general")


def test_nothing_moved_is_proven_and_no_steps_are_not() -> None:
    assert prove("general-linear", field={}, action={}).holds
    assert not type(prove("translation"))("x", "", (), (), (), "").holds


@pytest.mark.parametrize("rule", RULES)
def test_proofs_can_be_read(rule: str) -> None:
    proof = prove(rule)
    text, tex = proof.text(), proof.latex()
    assert text.startswith(f"{rule}. {proof.statement}")
    assert text.endswith(proof.conclusion)
    assert all(step.because in text and step.because in tex for step in proof.steps)
    assert tex.count(r"\[") == tex.count(r"\]") == len(proof.steps + proof.action + proof.substitution)
    assert "epsilon" not in text
    assert "MatMul" not in text + tex


def test_the_printed_field() -> None:
    text = prove("split-orthogonal").text()
    assert "K -> K + ε*(F*K + G*Q)" in text
    assert "Q -> Q + ε*(H*K - Fᵀ*Q)" in text
    assert r"Q \mapsto Q + \epsilon E Q" in prove("general-linear").latex()


def test_importing_does_not_load_sympy() -> None:
    code = "import sys, ffrank.geometry.proofs; sys.exit('sympy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --------------------------------------------- the proven fields, put into a function with numbers in it


def numbers(symbol: Any, sizes: dict[Any, int], draw: random.Random, skew: bool = False) -> Any:
    import sympy

    rows, columns = (int(size.subs(sizes)) for size in symbol.shape)
    matrix = sympy.Matrix(rows, columns, lambda *_: draw.randint(-9, 9))
    return matrix - matrix.T if skew else matrix


@pytest.mark.parametrize("rule", ["general-linear", "split-orthogonal", "rescaling"])
@pytest.mark.parametrize("tokens", [1, 3])
def test_the_field_kills_the_differential_of_a_layer(rule: str, tokens: int) -> None:
    """d/dε of V X Xᵀ Kᵀ Q X along the field is zero, for split-orthogonal only if t = 1."""
    import sympy

    sizes = {L.a: 2, L.d: 3, L.e: 2, L.t: tokens, L.v: 1}
    draw = random.Random(tokens)
    symbols = [L.Q, L.K, L.V, L.X, L.E, L.F, L.G, L.H]
    values = {x.name: numbers(x, sizes, draw, skew=x in (L.G, L.H)) for x in symbols}
    values["c"] = sympy.Integer(5)
    names = {"Transpose": sympy.Transpose, **values}

    def moved(parameter: Any) -> Any:
        change = dict(prove(rule).substitution).get(parameter, parameter)
        return sympy.expand(sympy.sympify(str(change).replace(".T", ".transpose()"), locals=names).doit())

    Q, K, V, X = moved(L.Q), moved(L.K), moved(L.V), values["X"]
    slope = sympy.expand(V * X * X.T * K.T * Q * X).diff(sympy.Symbol("epsilon")).subs({"epsilon": 0})
    assert slope.is_zero_matrix == (rule != "split-orthogonal" or tokens == 1)
