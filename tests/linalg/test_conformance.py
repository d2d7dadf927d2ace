"""One suite for every engine: each representation, each panel width, against FLINT and the slow twin."""

from __future__ import annotations

import functools

import flint
import numpy as np
import pytest

import ffrank.linalg as la
from ffrank.linalg import choose, elimination, ranks, results, systems
from ffrank.linalg.cold import ColdField
from ffrank.linalg.fields import FloatField, MontgomeryField

from . import naive
from .planted import PRIMES, mul, planted, shapes

ENGINES = {
    "one limb": (lambda p: FloatField(p, 1), lambda p: p < 2**26),
    "two limbs": (lambda p: FloatField(p, 2), lambda p: p < 2**33),
    "montgomery": (MontgomeryField, lambda p: p > 2),
    "cold, one limb": (lambda p: ColdField(p, 1), lambda p: p < 2**26),
    "cold, two limbs": (lambda p: ColdField(p, 2), lambda p: p < 2**33),
}
CASES = [(name, p) for name, (_, fits) in ENGINES.items() for p in PRIMES if fits(p)]
FEWER = {2, 257, 67108859, 8589934583, 2305843009213693951}  # for the slow engine and the odd panel width


def use(monkeypatch, field, width=None):
    """Make the public functions use this engine, and panels of this width that are tall from 30 rows on."""
    for module in (ranks, results, systems):
        monkeypatch.setattr(module, "field_for", lambda p, work: field)
    if width is not None:
        monkeypatch.setattr(elimination, "_TOP", 10)
        monkeypatch.setattr(ranks, "panel_width", lambda field, m: min(width, field.base))


def flint_rref(A, p):
    M = flint.nmod_mat(*A.shape, (A % p).ravel().tolist(), p)
    R, r = M.rref()
    return np.array([int(x) for x in R.entries()], dtype=np.int64).reshape(A.shape), r


def flint_pivots(A, p):
    """Return the pivot columns, without reading the whole form."""
    M = flint.nmod_mat(*A.shape, (A % p).ravel().tolist(), p)
    R, r = M.rref()
    pivots, j = [], 0
    for k in range(r):
        while int(R[k, j]) == 0:
            j += 1
        pivots.append(j)
    return pivots


@functools.cache
def profiled(p):
    """Return the matrices of ``shapes`` with their profiles by FLINT."""
    cases = []
    for name, A in shapes(np.random.default_rng(p % 1000), p):
        profiles = ([], []) if 0 in A.shape else (flint_pivots(A.T, p), flint_pivots(A, p))
        cases.append((name, A, *profiles))
    return cases


def check_factors(A, p):
    F = la.ple(A, p)
    m, n = A.shape
    assert F.shape == (m, n)
    assert F.L.shape == (m, F.rank)
    assert F.E.shape == (F.rank, n)
    for X in (F.L, F.E):
        assert ((X >= 0) & (p > X)).all()
    assert (mul(F.L, F.E, p) == A[F.perm] % p).all()
    return F


@pytest.mark.parametrize(
    ("engine", "p", "width"),
    [(name, p, None) for name, p in CASES if "cold" not in name or p in FEWER]
    + [(name, p, 7) for name, p in CASES if "cold" not in name and p in FEWER],
)
def test_profiles_and_factors(monkeypatch, engine, p, width):
    use(monkeypatch, ENGINES[engine][0](p), width)
    for name, A, rows, cols in profiled(p):
        before = A.copy()
        got = la.rank_profile(A, p)
        assert (got.rank, got.rows.tolist(), got.cols.tolist()) == (len(cols), rows, cols), name
        F = check_factors(A, p) if width is None else la.ple(A, p)
        assert (F.rank, F.rows.tolist(), F.cols.tolist()) == (len(cols), rows, cols), name
        assert (before == A).all(), name
        again = la.rank_profile(A.copy(), p, overwrite=True)
        assert (again.rows.tolist(), again.cols.tolist()) == (rows, cols), name


@pytest.mark.parametrize(("engine", "p"), CASES)
def test_every_planted_rank_against_the_twin(monkeypatch, engine, p):
    use(monkeypatch, ENGINES[engine][0](p), 3)
    rng = np.random.default_rng(7)
    for m, n in ((1, 1), (6, 6), (5, 9), (9, 4)):
        for r in range(min(m, n) + 1):
            for density in (0.0, 0.3, 2.0):
                A = planted(rng, p, m, n, r, density)
                rows, cols = naive.rank_profiles(A, p, m, n)
                got = la.rank_profile(A, p)
                assert got.rank == r
                assert (got.rows.tolist(), got.cols.tolist()) == (rows, cols)
                R, pivots = la.rref(A, p)
                assert (R.tolist(), pivots.tolist()) == naive.rref(A, p, n)
                assert naive.det(A[np.ix_(got.rows, got.cols)], p) != 0


@pytest.mark.parametrize(("engine", "p"), CASES)
def test_what_follows_from_the_factors(monkeypatch, engine, p):
    use(monkeypatch, ENGINES[engine][0](p))
    rng = np.random.default_rng(3)
    for m, n, r in ((40, 40, 40), (70, 50, 33), (50, 70, 41), (140, 130, 130), (10, 10, 0), (1, 30, 1)):
        A = mul(rng.integers(0, p, (m, r)), rng.integers(0, p, (r, n)), p)
        F = la.ple(A, p)
        B = rng.integers(0, p, (F.rank, 5))
        M = A[np.ix_(F.rows, F.cols)]
        assert (mul(M, F.solve_minor(B), p) == B).all()
        assert (mul(M.T, F.solve_minor_transposed(B), p) == B).all()
        if F.rank:
            assert (F.solve_minor(B[:, 0]) == F.solve_minor(B)[:, 0]).all()
        R, pivots = la.rref(A, p)
        expected, rank = flint_rref(A, p)
        assert (expected == R).all()
        assert pivots.tolist() == F.cols.tolist()
        assert len(pivots) == rank
        for side in ("right", "left"):
            N = la.nullspace(A, p, side=side)
            assert N.shape == ((n, n - rank) if side == "right" else (m - rank, m))
            assert not (mul(A, N, p) if side == "right" else mul(N, A, p)).any()
            assert la.rank(N, p) == min(N.shape)
        X = rng.integers(0, p, (n, 3))
        B = mul(A, X, p)
        assert (la.matmul(A, X, p) == B).all()
        S = la.solve(A, B, p)
        assert S.consistent
        assert (mul(A, S.X, p) == B).all()
        assert (S.X[:, 1] == la.solve(A, B[:, 1], p).X).all()
        if rank < m:
            y = la.nullspace(A, p, side="left")[-1]
            B[int(np.flatnonzero(y)[-1]), 0] += 1
            S = la.solve(A, B, p)
            assert not S.consistent
            assert not mul(S.witness[None], A, p).any()
            assert mul(S.witness[None], B, p).any()
        if m == n:
            expected = int(flint.nmod_mat(n, n, A.ravel().tolist(), p).det())
            assert la.det(A, p) == expected
            if rank == n:
                assert (mul(A, la.inverse(A, p), p) == np.eye(n, dtype=np.int64)).all()


@pytest.mark.parametrize(("engine", "p"), CASES)
def test_products_at_the_extremes(monkeypatch, engine, p):
    """Inner lengths past kmax with the largest residues, of equal and of opposite sign."""
    field = ENGINES[engine][0](p)
    use(monkeypatch, field)
    k = min(3 * field.kmax + 5, 1700)
    h = (p - 1) // 2 or 1
    for x in (h, p - h, p - 1):
        A, B = np.full((3, k), x), np.full((k, 4), h)
        assert (la.matmul(A, B, p) == k * x * h % p).all()


def test_chosen_engines():
    assert choose.field_for(8388593, 1e9).limbs == 1
    assert choose.field_for(2147483647, 1e9).limbs == 2
    assert isinstance(choose.field_for(2305843009213693951, 1e9), MontgomeryField)
