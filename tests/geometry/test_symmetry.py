"""Every symmetry rule at random points: the Jacobian kills the generators, and a wrong generator is noticed."""

import itertools

import numpy as np
import pytest

from ffrank import linalg
from ffrank.certificate.lower import jacobian_at
from ffrank.geometry.generators import generator_matrix
from ffrank.geometry.symmetry import families, rank_one_tokens
from ffrank.models import build_program
from ffrank.models.spec import parse_spec
from ffrank.program.evaluate import Evaluator
from ffrank.program.points import draw_points, draw_theta

P = 2**31 - 1
ATTENTION = {"kind": "attention", "attention_dims": [2, 3], "tokens": 2}


def attention_specs():
    """All combinations of the options on two layers, at shapes that make each rule appear."""
    options = itertools.product((1, 2), (None, 1, 2), (False, True), (False, True), (None, 1, 3), (False, True))
    for heads, value_dim, causal, residual, mlp_width, qk_bias in options:
        widths = [2, 2, 2] if residual else [2, 3, 2]
        rest = {"heads": heads, "value_dim": value_dim, "causal": causal, "residual": residual}
        spec = {**ATTENTION, **rest, "widths": widths, "mlp_width": mlp_width, "qk_bias": qk_bias}
        yield spec
        if mlp_width:
            yield {**spec, "activation": "identity"}
            yield {**spec, "activation": {"power": 5}, "tokens": 1}


def transformer_specs():
    """Scores, norms and activations beyond polynomials."""
    scores = ("lightning", "softmax", "normalized")
    for score, norm, residual, t in itertools.product(scores, ("none", "rms", "layer"), (False, True), (1, 2)):
        spec = {**ATTENTION, "score": score, "norm": norm, "residual": residual, "tokens": t, "widths": [3, 3, 3]}
        yield {**spec, "qk_bias": True}
        yield {**spec, "mlp_width": 2, "activation": "identity" if residual else "square", "causal": True}
        yield {**spec, "mlp_width": 3, "activation": "silu", "heads": 2, "value_dim": 2}
    for activation in ("tanh", "sigmoid"):
        yield {**ATTENTION, "score": "softmax", "widths": [2, 4, 3], "mlp_width": 2, "activation": activation}
        yield {"kind": "mlp", "widths": [2, 3, 2], "activation": activation, "bias": True}


OTHERS = [
    {**ATTENTION, "widths": [1, 2, 1], "tokens": 3, "score": "normalized"},
    {**ATTENTION, "widths": [3, 3], "attention_dims": [3], "heads": 3},
    {**ATTENTION, "widths": [2, 2, 4], "attention_dims": [3, 2], "heads": 2, "causal": True, "norm": "rms"},
    {**ATTENTION, "widths": [1, 4, 5, 2], "attention_dims": [1, 2, 2], "heads": 2},
    {**ATTENTION, "widths": [2, 5, 4, 2], "attention_dims": [1, 2, 2], "value_dim": 3, "mlp_width": 2},
    {**ATTENTION, "widths": [2, 5, 4, 2], "attention_dims": [1, 2, 2], "mlp_width": 4, "activation": "identity"},
    {**ATTENTION, "widths": [1, 2, 1], "tokens": 3},
    {**ATTENTION, "widths": [2, 1, 2], "tokens": 3, "heads": 2, "causal": True},
    {**ATTENTION, "widths": [3, 3, 3], "attention_dims": [1, 3]},
    {**ATTENTION, "widths": [3, 3, 3, 2], "attention_dims": [1, 2, 2], "mlp_width": 2},
    {**ATTENTION, "widths": [1, 1, 1], "residual": True, "tokens": 3, "heads": 2},
    {"kind": "mlp", "widths": [2, 3, 2, 2], "activation": "square"},
    {"kind": "mlp", "widths": [2, 3, 2, 2], "activation": "cube", "bias": True},
    {"kind": "mlp", "widths": [2, 3, 2, 2], "activation": "identity"},
    {"kind": "mlp", "widths": [2, 3, 2, 2], "activation": "identity", "bias": True},
]


def product_with_jacobian(spec, p, seed=0):
    program = build_program(parse_spec(spec))
    T = generator_matrix(program, families(parse_spec(spec)), draw_theta(program, p, seed), p)
    J = jacobian_at(program, p, seed, range(1, 4))
    return J, T, J.astype(object) @ T.astype(object) % p


@pytest.mark.parametrize("spec", [*attention_specs(), *transformer_specs(), *OTHERS], ids=str)
def test_the_jacobian_kills_every_generator(spec):
    J, T, product = product_with_jacobian(spec, P)
    assert T.shape == (J.shape[1], sum(f.dimension for f in families(parse_spec(spec))))
    assert T.any(axis=0).all()
    assert not product.any()


@pytest.mark.parametrize("spec", OTHERS, ids=str)
@pytest.mark.parametrize("p", [3, 5, 65537])
def test_the_jacobian_kills_every_generator_at_small_primes(spec, p):
    """Where a rational rule has no value at the point its generators vanish as a whole."""
    if spec.get("norm", "none") == "none" and spec.get("score") != "normalized":
        for seed in range(8):
            assert not product_with_jacobian(spec, p, seed)[2].any()


@pytest.mark.parametrize("spec", OTHERS, ids=str)
def test_no_column_survives_a_change(spec):
    """The check above can fail: a wrong entry in a row of T whose column of J is not zero shows."""
    J, T, _ = product_with_jacobian(spec, P)
    seen = np.flatnonzero(J.any(axis=0))[0]
    T[seen] = (T[seen] + 1) % P
    assert (J.astype(object) @ T.astype(object) % P).any(axis=0).all()


def test_rank_one_tokens_is_right_where_it_says_so():
    """Where the rule claims rank 1, the 2×2 minors of the tokens vanish; compare with the exact hidden tokens."""
    for spec in [*attention_specs(), *transformer_specs(), *OTHERS]:
        if spec["kind"] != "attention" or spec.get("norm", "none") != "none":
            continue
        claimed = rank_one_tokens(parse_spec(spec))
        for i in range(1, len(claimed)):
            cut = {**spec, "widths": spec["widths"][: i + 1], "attention_dims": spec["attention_dims"][:i]}
            program = build_program(parse_spec(cut))
            rank = tokens_rank(program)
            assert rank <= 1 or not claimed[i], cut
        assert claimed[0] == (spec["tokens"] == 1 or (spec["widths"][0] == 1 and not spec.get("qk_bias", False)))


def tokens_rank(program):
    theta = draw_theta(program, P, 0)
    points = draw_points(program, P, 0, theta, [1])
    tokens = Evaluator(program, P, theta).values(points.inputs, points.draws).reshape(program.shapes[program.output])
    return linalg.rank(np.array(tokens), P)


def test_the_split_orthogonal_group_contains_the_general_linear_one():
    one_token = parse_spec({"kind": "attention", "widths": [3, 2], "attention_dims": [2], "tokens": 1})
    two_tokens = parse_spec({"kind": "attention", "widths": [3, 2], "attention_dims": [2], "tokens": 2})
    small, large = families(two_tokens)[0], families(one_token)[0]
    assert (small.rule, small.dimension) == ("general-linear", 4)
    assert (large.rule, large.dimension) == ("split-orthogonal", 6)
    program = build_program(one_token)
    theta = draw_theta(program, P, 0)
    both = [generator_matrix(program, [f], theta, P) for f in (small, large)]
    assert linalg.rank(np.hstack(both), P) == linalg.rank(both[1], P)
