"""The symmetry finder: known groups come out, false fields do not pass, and the bounds of the test are true bounds."""

import json
from fractions import Fraction

import numpy as np
import pytest
import sympy

import ffrank
from ffrank.errors import InputError, ProgramError, ResourceError
from ffrank.geometry import identity
from ffrank.geometry.ansatz import Term, field_matrix, fields_norm
from ffrank.geometry.finder import check_symmetries, find_symmetries
from ffrank.geometry.generators import generator_matrix
from ffrank.geometry.identity import FieldShape, plan_identity
from ffrank.geometry.symmetry import families
from ffrank.models import build_program
from ffrank.models.spec import parse_spec
from ffrank.primes import DEFAULT_PRIME
from ffrank.program.points import draw_theta
from ffrank.program.symbolic import symbolic, symbols

P = DEFAULT_PRIME


@ffrank.parametrization(parameters={"Q": (2, 3), "K": (2, 3), "V": (3, 3)}, inputs={"X": (3, 2)})
def lightning(Q, K, V, X):
    return V @ X @ (X.T @ K.T @ Q @ X)


@ffrank.parametrization(parameters={"Q": (2, 3), "K": (2, 3), "V": (3, 3)}, inputs={"X": (3, 2)})
def softmax_layer(Q, K, V, X):
    return V @ X @ ffrank.softmax(X.T @ K.T @ Q @ X, 0)


def spanned(program, found, rows):
    """Whether the fields found and the columns ``rows`` span the same space at a random θ."""
    theta = draw_theta(program, P, 7)
    G = field_matrix(program, found.generators, theta, P)
    T = generator_matrix(program, rows, theta, P)
    both = ffrank.rank(np.concatenate([G, T], axis=1), P)
    return found.rank == ffrank.rank(T, P) == both


@pytest.mark.parametrize("ansatz", ["tensors", "coupled", "full"])
def test_lightning_layer(ansatz):
    found = find_symmetries(lightning, ansatz=ansatz)
    assert (found.rank, found.upper, found.rejected) == (5, 16, 0)  # GL_2 and the rescaling
    assert found.error <= -100
    spec = parse_spec({"kind": "attention", "widths": [3, 3], "attention_dims": [2], "tokens": 2})
    theta = draw_theta(lightning, P, 7)
    T = generator_matrix(build_program(spec), families(spec), theta, P)
    G = field_matrix(lightning, found.generators, theta, P)
    assert ffrank.rank(np.concatenate([G, T], axis=1), P) == 5


def test_softmax_layer_has_only_gl():
    found = find_symmetries(softmax_layer)
    assert (found.rank, found.upper, found.error <= -100) == (4, 17, True)
    assert all({t.target for t in g} == {"Q", "K"} for g in found.generators)


def test_softmax_layer_is_immune_to_shifts_of_keys():
    @ffrank.parametrization(parameters={"Q": (2, 3), "K": (2, 3), "b": (2, 1)}, inputs={"X": (3, 2)})
    def biased(Q, K, b, X):
        return X @ ffrank.softmax((K @ X + b).T @ Q @ X, 0)

    assert find_symmetries(biased).upper == 14 - 4 - 2


@pytest.mark.parametrize(
    ("spec", "ansatz"),
    [
        ({"kind": "mlp", "widths": [2, 3, 2], "activation": "cube", "bias": True}, "tensors"),
        ({"kind": "mlp", "widths": [2, 2, 1], "bias": True, "activation": "identity"}, "tensors"),
        ({"kind": "attention", "widths": [4, 4, 4], "attention_dims": [2, 2], "tokens": 3, "score": "softmax"}, "auto"),
        ({"kind": "attention", "widths": [3, 3], "attention_dims": [2], "tokens": 1}, "coupled"),
        (
            {"kind": "attention", "widths": [3, 3], "attention_dims": [2], "tokens": 2, "heads": 2, "value_dim": 2}
            | {"score": "normalized", "qk_bias": True},
            "auto",
        ),
    ],
)
def test_rules_of_architectures_are_rediscovered(spec, ansatz):
    spec = parse_spec(spec)
    program = build_program(spec)
    found = find_symmetries(program, ansatz=ansatz)
    assert found.rejected == 0
    assert spanned(program, found, families(spec))


def test_neuron_scalings_one_by_one():
    program = build_program(parse_spec({"kind": "mlp", "widths": [3, 3, 2], "activation": "cube"}))
    found = find_symmetries(program, ansatz="tensors")
    assert found.rank == len(found.generators) == 3
    assert any(abs(x) == 3 for g in found.generators for t in g for _, _, x in t.entries)


def test_fractional_solutions_are_cleared_of_denominators():
    @ffrank.parametrization(parameters={"a": (), "b": (), "c": ()}, inputs={"x": ()})
    def powers(a, b, c, x):
        return a**3 * b**5 * c**7 * x

    found = find_symmetries(powers)
    assert (found.rank, found.upper) == (2, 1)
    [g, h] = ({t.target: t.entries[0][2] for t in g} for g in found.generators[:2])
    for field in (g, h):
        assert 3 * field.get("a", 0) + 5 * field.get("b", 0) + 7 * field.get("c", 0) == 0


def test_a_bias_that_the_next_bias_undoes():
    """dv = s, do = -W s is affine; that softmax weights add up to 1 makes it a symmetry."""

    @ffrank.parametrization(
        parameters={"Q": (2, 2), "V": (2, 2), "v": (2,), "W": (2, 2), "o": (2,)}, inputs={"X": (2, 2)}
    )
    def layer(Q, V, v, W, o, X):
        values = V @ X + v.reshape(2, 1)
        return W @ values @ ffrank.softmax(X.T @ Q @ X, 0) + o.reshape(2, 1)

    found = find_symmetries(layer, ansatz="tensors")
    assert found.upper == 16 - 4 - 2
    assert any(t.source == "" for g in found.generators for t in g)


def test_constant_fields_of_a_matrix():
    """Where means are removed, dW = 1·uᵀ is not seen; L·W gives only two of these four directions."""

    @ffrank.parametrization(parameters={"W": (2, 4)}, inputs={"x": (4,)})
    def centred(W, x):
        y = W @ (x * x + x)
        return 2 * y - y.sum()

    assert find_symmetries(centred, ansatz="tensors").upper == 4


def test_nothing_without_symmetry():
    @ffrank.parametrization(parameters={"W": (2, 2), "v": (2,)}, inputs={"x": (2,)})
    def rigid(W, v, x):
        return W @ x + v * (x**2)

    network = build_program(parse_spec({"kind": "mlp", "widths": [2, 3, 1], "activation": "tanh"}))
    for program in (rigid, network):
        for ansatz in ("tensors", "full"):
            found = find_symmetries(program, ansatz=ansatz)
            assert (found.generators, found.rank, found.rejected) == ((), 0, 0)
            assert found.upper == program.parameter_count


def test_a_map_without_inputs():
    @ffrank.parametrization(parameters={"u": (2, 1), "v": (1, 2)}, inputs={})
    def outer(u, v):
        return u @ v

    assert find_symmetries(outer).upper == 3


def gl(entry, sign=-1):
    """The field of GL_2 on (Q, K) for an elementary matrix."""
    i, j = entry
    return (Term("Q", 0, "Q", 2, 2, ((i, j, 1),)), Term("K", 0, "K", 2, 2, ((j, i, sign),)))


@pytest.mark.parametrize("program", [lightning, softmax_layer])
def test_a_false_generator_is_rejected(program):
    given = [gl((0, 0)), gl((0, 1), 1), gl((1, 0)), (Term("V", 0, "V", 3, 3, ((0, 1, 1),)),), gl((1, 1), -2)]
    found = check_symmetries(program, given)
    assert found.generators == (given[0], given[2])
    assert (found.rank, found.rejected) == (2, 3)


def test_a_field_that_vanishes_mod_the_prime_of_the_search_is_rejected():
    """p·(a false field) solves the equations mod p, but is no symmetry."""
    x = DEFAULT_PRIME
    given = [(Term("V", 0, "V", 3, 3, ((0, 1, x),)),)]
    assert check_symmetries(lightning, given).generators == ()


def test_square_roots_suppose_that_they_are_independent():
    @ffrank.parametrization(parameters={"W": (2, 2)}, inputs={"x": (2,)})
    def normalised(W, x):
        y = W @ x
        return y / ffrank.sqrt((y * y).sum())

    found = find_symmetries(normalised)
    assert found.upper == 3
    assert found.error <= -100
    assert found.assumes_independent_roots
    assert not find_symmetries(lightning).assumes_independent_roots


def test_too_many_square_roots_leave_the_error_open(monkeypatch):
    @ffrank.parametrization(parameters={"W": (5, 2)}, inputs={"X": (2, 2)})
    def roots(W, X):
        return ffrank.sqrt((W @ X).sum(1) ** 2 + 1)

    assert find_symmetries(roots).error <= -100
    monkeypatch.setattr(identity, "_MOST_ROOTS", 4)
    found = find_symmetries(roots)
    assert (found.upper, found.error, found.degree) == (10, None, None)


def test_layer_norm_with_gain_and_shift():
    """Scales and shifts go into the next layer, and the mean that was removed is not seen: dW = u/gain."""

    @ffrank.parametrization(parameters={"gain": (3,), "shift": (3,), "W": (2, 3), "b": (2,)}, inputs={"x": (3,)})
    def layer(gain, shift, W, b, x):
        y = 3 * x - x.sum()
        return W @ (y / ffrank.sqrt((y * y).sum() + 1) * gain + shift) + b

    found = find_symmetries(layer, ansatz="tensors")
    assert found.upper == 6  # W·diag(gain) on the plane of means 0, and one shift
    assert found.error <= -100
    assert any(t.over == "gain" for g in found.generators for t in g)
    wrong = (Term("W", None, "", 6, 3, ((0, 0, 1), (1, 1, 1), (2, 2, -1)), "gain"),)
    assert check_symmetries(layer, [wrong]).generators == ()


def test_json_has_integers_only():
    found = find_symmetries(lightning)
    text = json.dumps(found.to_json())
    again = json.loads(text, parse_float=lambda x: pytest.fail(f"a float: {x}"))
    assert again["value"] == 16
    assert again["generators"][0][0]["entries"]
    assert find_symmetries(lightning).to_json() == found.to_json()


def test_what_cannot_be_searched():
    with pytest.raises(InputError, match="exponent"):
        find_symmetries(lightning, error=0)

    @ffrank.parametrization(parameters={"W": (60, 60)}, inputs={"x": (60,)})
    def large(W, x):
        return W @ x

    with pytest.raises(ResourceError, match="unknowns"):
        find_symmetries(large)

    @ffrank.parametrization(parameters={"a": ()}, inputs={"x": ()})
    def nowhere(a, x):
        return x / (a - a)

    with pytest.raises(ProgramError, match="denominator"):
        find_symmetries(nowhere)


# --------------------------------------------------------------------------------- the bounds against SymPy


@ffrank.parametrization(parameters={"a": (2,), "W": (2, 2)}, inputs={"x": (2,)})
def polynomial(a, W, x):
    return (W @ x) ** 3 - a * 2 * x.sum() ** 2 + (W @ W @ x)[::1]


@ffrank.parametrization(parameters={"a": (2,), "W": (2, 2)}, inputs={"x": (2,)})
def rational(a, W, x):
    y = W @ x
    z = y / (a * x + 2) + x / y.sum()
    return z * Fraction(2, 3) / (1 + z * z)


FIELD = (
    Term("a", 0, "a", 2, 2, ((0, 1, -5), (1, 1, 3))),
    Term("W", 1, "W", 2, 2, ((0, 0, 2),)),
    Term("a", None, "", 2, 1, ((0, 0, 4),)),
)


def derivative(program):
    """J·g of FIELD in SymPy, entry by entry."""
    a, W, _ = symbols(program)
    g = {a[0]: -5 * a[1] + 4, a[1]: 3 * a[1], W[0, 0]: 2 * W[0, 0], W[1, 0]: 2 * W[1, 0]}
    out = symbolic_with_reciprocals(program)
    return [sum(sympy.diff(f, w) * d for w, d in g.items()) for f in out.reshape(-1)]


def symbolic_with_reciprocals(program):
    if not any(i.op == "recip" for i in program.instructions):
        return symbolic(program)
    (a, W, x) = symbols(program)
    y = W.dot(x)
    z = y / (a * x + 2) + x / y.sum()
    return z * sympy.Rational(2, 3) / (1 + z * z)


@pytest.mark.parametrize("program", [polynomial, rational])
def test_degrees_and_norms_are_bounds(program):
    norm = fields_norm(program, [FIELD])
    assert norm == 4  # 5 + 4 = 9 ≤ 2^4
    plan = plan_identity(program, FieldShape(1, norm, {}), -100)
    for entry in derivative(program):
        numerator = sympy.Poly(sympy.fraction(sympy.together(entry))[0], *entry.free_symbols)
        assert numerator.total_degree() <= plan.degree
        if program is polynomial:
            assert sum(abs(c) for c in numerator.coeffs()) <= 2**plan.norm_bits
    assert plan.degree < 200


def test_degrees_with_a_root_bound_the_norm():
    @ffrank.parametrization(parameters={"a": (), "b": ()}, inputs={"x": ()})
    def rooted(a, b, x):
        return a / ffrank.sqrt(x * x + b) + b * x

    a, b, x, s = sympy.symbols("a b x s")
    q = x**2 + b
    # g = a ∂_a + 2b ∂_b; J·g times q s, a polynomial u + v s whose norm is u² - v² q
    moved = sympy.expand(sympy.simplify((a / s - b * a / (q * s) + 2 * b * x) * s * q))
    v, u = moved.coeff(s, 1), moved.coeff(s, 0)
    norm = sympy.Poly(sympy.expand(u**2 - v**2 * q), a, b, x)
    field = (Term("a", 0, "a", 1, 1, ((0, 0, 1),)), Term("b", 0, "b", 1, 1, ((0, 0, 2),)))
    plan = plan_identity(rooted, FieldShape(1, fields_norm(rooted, [field]), {}), -100)
    assert norm.total_degree() <= plan.degree
    assert sum(abs(c) for c in norm.coeffs()) <= 2**plan.norm_bits


def test_more_fields_and_a_smaller_error_take_more_trials():
    plans = [plan_identity(softmax_layer, FieldShape(n, 1, {}), e) for n, e in ((1, -20), (1, -100), (2**20, -100))]
    assert plans[0].trials < plans[1].trials <= plans[2].trials
    assert all(plan.error <= e for plan, e in zip(plans, (-20, -100, -100), strict=True))
