"""Properties on matrices that Hypothesis draws."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import ffrank.linalg as la

from . import naive
from .planted import PRIMES, mul, planted


@st.composite
def cases(draw):
    """Return (A, r, p): a matrix of rank exactly r, from sparse to dense."""
    p = draw(st.sampled_from(PRIMES))
    m, n = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    r = draw(st.integers(0, min(m, n)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return planted(rng, p, m, n, r, draw(st.sampled_from([0.0, 0.2, 0.5, 2.0]))), r, p


@given(cases())
@settings(max_examples=150, deadline=None)
def test_the_profile_is_a_witness(case):
    A, r, p = case
    got, transposed = la.rank_profile(A, p), la.rank_profile(A.T, p)
    assert got.rank == r == transposed.rank
    assert got.rows.tolist() == transposed.cols.tolist()
    assert got.cols.tolist() == transposed.rows.tolist()
    assert naive.det(A[np.ix_(got.rows, got.cols)], p) != 0
    assert (got.rows.tolist(), got.cols.tolist()) == naive.rank_profiles(A, p, *A.shape)


@given(cases())
@settings(max_examples=100, deadline=None)
def test_pivots_make_the_rank_profile_matrix(case):
    """Every leading block has as many pivots as its rank."""
    A, _, p = case
    F = la.ple(A, p)
    pivots = list(zip(F.perm[: F.rank].tolist(), F.cols.tolist(), strict=True))
    for i in range(1, A.shape[0] + 1):
        for j in range(1, A.shape[1] + 1):
            inside = sum(a < i and b < j for a, b in pivots)
            assert inside == len(naive.rref(A[:i, :j], p, j)[1])


@given(cases())
@settings(max_examples=100, deadline=None)
def test_factors_forms_and_kernels(case):
    A, r, p = case
    m, n = A.shape
    F = la.ple(A, p)
    assert (mul(F.P, mul(F.L, F.E, p), p) == A).all()
    R, pivots = la.rref(A, p)
    assert (R.tolist(), pivots.tolist()) == naive.rref(A, p, n)
    right, left = la.nullspace(A, p), la.nullspace(A, p, side="left")
    assert right.shape == (n, n - r)
    assert left.shape == (m - r, m)
    assert naive.matmul(A, right, p) == [[0] * (n - r)] * m
    assert naive.matmul(left, A, p) == [[0] * n] * (m - r)


@given(cases(), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_solutions_or_witnesses(case, seed):
    A, _, p = case
    b = np.random.default_rng(seed).integers(0, p, A.shape[0])
    S = la.solve(A, b, p)
    if S.consistent:
        assert (mul(A, S.X[:, None], p)[:, 0] == b).all()
    else:
        assert not mul(S.witness[None], A, p).any()
        assert mul(S.witness[None], b[:, None], p).any()
