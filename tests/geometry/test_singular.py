"""The strata of one lightning layer: ranks against independent computations, verdicts against the theory, proofs."""

from __future__ import annotations

import importlib.util
import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ffrank.errors import InputError, ModulusError, ResourceError, ShapeError, SpecError
from ffrank.geometry.local_rank import rank_at
from ffrank.geometry.singular import membership, strata
from ffrank.geometry.singular_proofs import kernel, singular_proofs
from ffrank.geometry.strata import Layer, coefficients, differential

P = 2**31 - 1


def row(table, rank_a, rank_v, aligned=None):
    (found,) = [x for x in table.table if (x.rank_a, x.rank_v, x.aligned) == (rank_a, rank_v, aligned)]
    return found


# ------------------------------------------------------------------------------------------------ known tables


def test_three_by_three():
    table = strata(3, 3, 3)
    assert (table.dimension, table.ambient, len(table.table)) == (17, 54, 17)
    for x in table.table:
        zeros = (x.rank_a == 0) + (x.rank_v == 0)
        assert x.differential == {0: 15 if x.aligned else 17, 1: 9, 2: 0}[zeros]
        assert (x.verdict == "singular") == (x.rank_a * x.rank_v <= 1)
        assert x.preimages == (None if zeros else 2 if x.aligned is False else 1)
        assert x.boundary == (bool(zeros) or x.aligned is True)
        assert x.dimension == 17
    assert row(table, 1, 1, False).span == 25
    assert (row(table, 1, 1, True).span, row(table, 1, 1, True).tangent) == (15, 30)
    assert row(table, 2, 2).span == 17


@pytest.mark.parametrize("d_out", [1, 3, 4])
def test_scores_of_bounded_rank(d_out):
    table = strata(4, d_out, 2)
    assert table.dimension == 12 + 4 * d_out - 1
    for x in table.table:
        smooth = x.rank_a == 2 and x.rank_v >= 1
        assert x.verdict == ("smooth" if smooth else "singular")
        if smooth:
            assert x.differential == x.span == x.tangent == table.dimension
            assert x.directions == "tangent to {rank A <= a}"
        elif x.rank_a == 1 and x.rank_v > 1:
            assert x.directions == "all matrices"
            assert x.span == 16 + 4 * d_out - 1 > table.dimension


def test_one_dimension_is_a_linear_space():
    for d_out in (1, 3):
        table = strata(1, d_out, 2)
        assert table.dimension == table.ambient == d_out
        assert {x.verdict for x in table.table} == {"smooth"}
        assert not any(x.boundary for x in table.table)
        assert [x.aligned for x in table.table if x.rank_a * x.rank_v] == [True]


@pytest.mark.parametrize(("d", "aligned"), [(2, "smooth"), (3, "singular"), (5, "singular")])
def test_reducible_forms(d, aligned):
    """d' = a = 1: generic functions have rank one, and both branches are the same."""
    table = strata(d, 1, 1)
    assert table.dimension == 3 * d - 2
    assert row(table, 1, 1, False).verdict == "smooth"
    assert row(table, 1, 1, False).span == table.dimension
    assert row(table, 1, 1, True).verdict == aligned
    assert row(table, 1, 1, True).boundary
    assert row(table, 0, 1).verdict == "singular"


@pytest.mark.parametrize("prime", [3, 5, 101, 2**31 - 1])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_ranks_do_not_depend_on_prime_and_seed(prime, seed):
    first, second = strata(3, 2, 2), strata(3, 2, 2, prime=prime, seed=seed, tokens=5)
    assert [x[:-1] for x in first.rows()] == [x[:-1] for x in second.rows()]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 6))
def test_the_rule_and_its_exceptions(d, d_out, a):
    table = strata(d, d_out, a)
    low = min(a, d)
    assert table.dimension == 2 * low * d - low**2 + d * d_out - 1
    for x in table.table:
        product = x.rank_a * x.rank_v
        singular = product <= 1 or (a < d and x.rank_a < a)
        if d == 1:
            singular = False
        elif d_out == a == 1:
            singular = product == 0 or (bool(x.aligned) and d > 2)
        assert x.verdict == ("singular" if singular else "smooth")
        assert (x.tangent > table.dimension) == singular
        assert x.differential <= x.span <= x.tangent <= table.ambient
        assert x.preimages is None or x.verdict == "singular" or x.aligned or x.span == table.dimension


def test_points_lie_in_their_strata():
    for x in strata(4, 3, 3, seed=7).table:
        A, V = np.array(x.A), np.array(x.V)
        assert np.linalg.matrix_rank(A) == x.rank_a
        assert np.linalg.matrix_rank(V) == x.rank_v
        if x.aligned is not None:
            assert np.linalg.matrix_rank(np.vstack([V, A.T])) == (1 if x.aligned else 2)


def test_large_sizes():
    table = strata(8, 8, 5)
    assert table.dimension == 118
    assert len(table.table) == 6 * 9 + 1


# -------------------------------------------------------------------------------------- independent computations


def random(rng, *shape):
    return rng.integers(0, P, shape)


@pytest.mark.parametrize(("d", "d_out"), [(1, 1), (2, 3), (4, 2)])
def test_coefficients_one_by_one(d, d_out):
    rng = np.random.default_rng(d)
    A, V = random(rng, d, d), random(rng, d_out, d)
    naive = [
        (int(V[i, k]) * int(A[n, m]) + (int(V[i, n]) * int(A[k, m]) if k < n else 0)) % P
        for i in range(d_out)
        for m in range(d)
        for k in range(d)
        for n in range(k, d)
    ]
    assert coefficients(A, V, P).tolist() == naive


def test_the_differential_is_the_bilinear_part():
    rng = np.random.default_rng(0)
    A, V, B, W = random(rng, 3, 3), random(rng, 2, 3), random(rng, 3, 3), random(rng, 2, 3)
    rest = coefficients((A + B) % P, (V + W) % P, P) - coefficients(A, V, P) - coefficients(B, W, P)
    direction = np.concatenate([W.reshape(-1), B.reshape(-1)]).astype(object)
    assert ((direction @ differential(A, V, P).astype(object) - rest) % P == 0).all()


def test_the_differential_along_factors():
    rng = np.random.default_rng(1)
    G, H, V, dG, dH = (rng.integers(-9, 9, s) for s in ((4, 2), (2, 4), (3, 4), (4, 2), (2, 4)))
    along = differential(G @ H, V, P, factors=(G, H))
    full = differential(G @ H, V, P)
    direction = np.concatenate([dG.reshape(-1), dH.reshape(-1)]).astype(object)
    turned = (dG @ H + G @ dH).reshape(-1).astype(object)
    assert along.shape == (12 + 16, 3 * 4 * 10)
    assert ((direction @ along[12:].astype(object) - turned @ full[12:].astype(object)) % P == 0).all()


@pytest.mark.parametrize("x", [x for x in strata(3, 3, 3).table if x.rank_v], ids=lambda x: f"{x.rank_a}{x.rank_v}")
def test_differential_ranks_from_the_network_itself(x):
    """With K = 1 every direction of A is one of Q: the network's Jacobian has the rank of the differential."""
    spec = {"kind": "attention", "widths": [3, 3], "attention_dims": [3], "tokens": 2}
    names = dict.fromkeys(("Q", "K", "V"))
    names |= {"Q": x.A, "K": np.eye(3, dtype=int), "V": x.V}
    found = rank_at(spec, {f"layer1.head1.{name}": value for name, value in names.items()})
    assert found.value == x.differential


def test_differential_ranks_along_factors_from_the_network_itself():
    """At rank A = a < d, with K of full rank, Q and K reach exactly the tangent directions."""
    spec = {"kind": "attention", "widths": [3, 2], "attention_dims": [1], "tokens": 2}
    for x in strata(3, 2, 1).table:
        if x.rank_a == 1 and x.rank_v:
            A = np.array(x.A)
            column = next(A[:, j] for j in range(3) if A[:, j].any())
            at = int(np.flatnonzero(column)[0])
            Q = [[Fraction(int(A[at, j]), int(column[at])) for j in range(3)]]
            weights = {"layer1.head1.Q": Q, "layer1.head1.K": [column.tolist()], "layer1.head1.V": x.V}
            assert rank_at(spec, weights).value == x.differential


def equations(a):
    """The ideal of the closure for d = 2, d' = 1: two binary quadratic forms with a common factor, or of rank one."""
    import sympy

    x = sympy.Symbol("x")
    c = sympy.symbols("c0:6")
    rows = sympy.Matrix(2, 3, c)
    first, second = (sum(row[k] * x**k for k in range(3)) for row in (rows[0, :], rows[1, :]))
    found = (
        [sympy.resultant(first, second, x)] if a == 2 else [rows[:, [i, j]].det() for i, j in ((0, 1), (0, 2), (1, 2))]
    )
    return c, sympy.Matrix([sympy.expand(e) for e in found])


@pytest.mark.parametrize(("a", "codimension"), [(2, 1), (1, 2)])
def test_verdicts_from_equations(a, codimension):
    """A point is singular if and only if the gradients of the equations have too small a rank there."""
    table = strata(2, 1, a)
    assert table.ambient - table.dimension == codimension
    c, found = equations(a)
    for x in table.table:
        values = coefficients(np.array(x.A), np.array(x.V), P)
        at = dict(zip(c, (int(v) - P * (int(v) > P // 2) for v in values), strict=True))
        assert not any(found.subs(at))
        assert (found.jacobian(c).subs(at).rank() < codimension) == (x.verdict == "singular")


# ---------------------------------------------------------------------------------------------- refusals, output


@pytest.mark.parametrize(
    ("arguments", "more", "error", "words"),
    [
        ((0, 3, 3), {}, SpecError, "d: expected a size from 1"),
        ((3, 99, 3), {}, SpecError, "d_out"),
        ((3, 3, 2.0), {}, SpecError, "a: expected an integer"),
        ((3, 3, True), {}, SpecError, "a: expected an integer"),
        ((3, 3, 3), {"tokens": 1}, SpecError, "tokens: expected at least 2"),
        ((3, 3, 3), {"prime": 2}, ModulusError, "prime"),
        ((3, 3, 3), {"prime": 9}, ModulusError, "composite"),
        ((3, 3, 3), {"seed": -1}, InputError, "seed"),
    ],
)
def test_refusals(arguments, more, error, words):
    with pytest.raises(error, match=words):
        strata(*arguments, **more)


def test_output():
    table = strata(2, 2, 2)
    content = json.loads(table.to_json())
    assert content["dimension"] == 7
    assert len(content["strata"]) == len(table.rows()) == 10
    assert content["strata"][4]["verdict"] == "singular"
    assert all(len(x) == len(table.headings) for x in table.rows())
    assert table.to_json() == strata(2, 2, 2).to_json()


def test_drawing(tmp_path, monkeypatch):
    table, path = strata(2, 2, 2), tmp_path / "strata.svg"
    if importlib.util.find_spec("matplotlib"):
        table.draw(path)
        assert "<svg" in path.read_text(encoding="utf-8")
        with pytest.raises(InputError, match="cannot be written"):
            table.draw(tmp_path / "none" / "strata.svg")

    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr("ffrank.geometry.singular.importlib.import_module", absent)
    with pytest.raises(InputError, match="needs matplotlib"):
        table.draw(path)


# ---------------------------------------------------------------------------------------------------- boundary


@pytest.mark.parametrize(
    ("q", "status", "boundary", "signature"),
    [
        ([[1, 0], [0, 1]], "closure", False, (2, 0)),
        ([[-1, 0], [0, Fraction(-1, 3)]], "closure", False, (0, 2)),
        ([[0, 1], [1, 0]], "value", False, (1, 1)),
        ([[1, 2], [2, 4]], "value", True, (1, 0)),
        ([[0, 0], [0, 0]], "value", True, (0, 0)),
        ([[-5]], "value", False, (0, 1)),
        ([[0, 1, 1], [1, 0, 1], [1, 1, 0]], "outside", False, (1, 2)),
    ],
)
def test_membership(q, status, boundary, signature):
    found = membership(q)
    assert (found.status, found.boundary, found.signature) == (status, boundary, signature)


def test_a_boundary_value_is_a_limit_of_functions_that_are_none():
    f = np.array([2, -1, 3])
    square = np.outer(f, f).astype(object)
    assert membership(square.tolist()).boundary
    for n in (1, 10, 10**9):
        near = square.copy()
        near[0][0] += Fraction(1, n)
        assert membership(near.tolist()).status == "closure"


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.integers(-4, 4), min_size=6, max_size=6))
def test_values_are_products(entries):
    """A product of two real forms is a value; so is every form that is one by its eigenvalues."""
    f, g = np.array(entries[:3]), np.array(entries[3:])
    q = np.outer(f, g) + np.outer(g, f)
    assert membership(q.tolist()).status == "value"
    form = np.outer(f, f) - 2 * np.outer(g, g)
    eigenvalues = np.linalg.eigvalsh(form)
    counted = int((eigenvalues > 1e-9).sum()), int((eigenvalues < -1e-9).sum())
    assert membership(form.tolist()).signature == counted


@pytest.mark.parametrize(
    ("q", "error"),
    [
        ([], ShapeError),
        ([[1, 2]], ShapeError),
        ([[1, 2], [3, 4]], ShapeError),
        ([[0.5]], InputError),
        ([[None]], InputError),
        ([["1/2"]], InputError),
    ],
)
def test_membership_refuses(q, error):
    with pytest.raises(error):
        membership(q)


# ------------------------------------------------------------------------------------------------------ proofs


@pytest.mark.parametrize(("d", "d_out"), [(1, 1), (2, 1), (2, 2), (3, 2)])
def test_proofs(d, d_out):
    proofs = singular_proofs(d, d_out)
    assert [p.rule for p in proofs] == ["coefficients", "swap", "kernel vectors", "kernels"]
    assert all(p.holds for p in proofs)
    assert all(p.text() and p.latex() for p in proofs)


@pytest.mark.parametrize("aligned", [None, False, True])
def test_kernels_by_sympy(aligned):
    ranks = (2, 2) if aligned is None else (1, 1)
    vectors = kernel(Layer(3, 2, 3), *ranks, aligned)
    assert len(vectors) == (3 if aligned else 1)


def test_no_symbols_for_large_sizes():
    with pytest.raises(ResourceError, match="d_out: expected a size from 1 to 4"):
        singular_proofs(2, 5)
