"""Threads, memory, imports, the Strassen-Winograd products and long matrices."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
import threadpoolctl

import ffrank.linalg as la
from ffrank.errors import InputError, ResourceError
from ffrank.linalg import elimination, memory
from ffrank.linalg import threads as threads_module
from ffrank.linalg.blocks import Block
from ffrank.linalg.fields import FloatField, MontgomeryField
from ffrank.linalg.products import subtract_product
from ffrank.linalg.threads import Team, default_threads, one_blas_thread

from .planted import mul

FIELDS = {
    "one limb": FloatField(8388593, 1),
    "two limbs": FloatField(2**31 - 1, 2),
    "montgomery": MontgomeryField(2**61 - 1),
}


def blas_threads():
    return [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]


def low_rank(rng, p, m, n, r):
    return mul(rng.integers(0, p, (m, r)), rng.integers(0, p, (r, n)), p)


@pytest.mark.parametrize("p", [8388593, 2**31 - 1, 2**61 - 1])
def test_bits_do_not_depend_on_the_threads(monkeypatch, p):
    monkeypatch.setattr(threads_module, "_WORTH_SPLITTING", 1e4)
    monkeypatch.setattr(elimination, "_TOP", 40)
    rng = np.random.default_rng(0)
    for A in (rng.integers(0, p, (230, 240)), low_rank(rng, p, 260, 210, 130), low_rank(rng, p, 90, 500, 60)):
        one, two, three = (la.ple(A, p, threads=k) for k in (1, 2, 3))
        for other in (two, three):
            assert (one._work.a == other._work.a).all()
            assert (one.perm == other.perm).all()
        first = la.rank_profile(A, p, threads=1)
        for k in (2, 5):
            other = la.rank_profile(A, p, threads=k)
            assert (first.rows == other.rows).all()
            assert (first.cols == other.cols).all()
        R, S = (la.rref(A, p, threads=k)[0] for k in (1, 2))
        assert (R == S).all()


def test_blas_state_is_restored():
    before = blas_threads()
    A = np.random.default_rng(0).integers(0, 7, (400, 400))
    la.rank(A, 7, threads=2)
    assert blas_threads() == before
    with one_blas_thread():
        assert 1 in blas_threads()  # NumPy's, whatever other copies are loaded
    assert blas_threads() == before
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        _ = 1 // 0
    assert blas_threads() == before


def test_concurrent_callers():
    before = blas_threads()
    rng = np.random.default_rng(0)
    cases = [low_rank(rng, 8388593, 300, 300, r) for r in (10, 150, 299)]
    gate = threading.Barrier(3)

    def one(A):
        gate.wait()
        return la.rank(A, 8388593, threads=2)

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(one, cases)) == [10, 150, 299]
    assert blas_threads() == before


def test_default_number_of_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = default_threads()
    assert cores >= 1
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert default_threads() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "1000,2")
    assert default_threads() == cores
    monkeypatch.delenv("OMP_NUM_THREADS")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(default_threads).result() == 1


@pytest.mark.parametrize("bad", [0, -1, 1.5, "2"])
def test_wrong_number_of_threads(bad):
    with pytest.raises(InputError, match="thread"):
        la.rank(np.eye(2, dtype=int), 7, threads=bad)


def test_too_large_for_the_memory(monkeypatch):
    monkeypatch.setattr(memory, "_NEGLIGIBLE", 0)
    monkeypatch.setattr(memory, "available_memory", lambda: 8 * 99 * 100)
    A = np.zeros((100, 100), np.int64)
    for f in (la.rank, la.ple, la.rref, la.nullspace):
        with pytest.raises(ResourceError, match="needs 80,000 bytes, but 79,200 are available"):
            f(A, 7)
    assert la.rank(A, 7, overwrite=True) == 0
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    assert la.rank(A, 7) == 0


def test_available_memory():
    assert memory.available_memory() > 2**20


def test_overwrite_uses_the_memory_of_the_argument():
    A = np.random.default_rng(0).integers(0, 7, (50, 40))
    F = la.ple(A, 7, overwrite=True)
    assert np.shares_memory(F._work.a, A)


def test_import_is_light():
    heavy = "numba", "scipy", "galois", "flint", "sympy"
    code = f"import sys, ffrank.linalg; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_small_ranks_load_no_compiler():
    code = """
import sys
import numpy as np, ffrank.linalg as la
from ffrank.linalg import choose
A = np.arange(90000).reshape(300, 300) ** 2 % 1009
F, again = la.ple(A, 2**31 - 1), la.rank_profile(A, 2**31 - 1)
assert "numba" not in sys.modules
choose._cold_work = 1e9
compiled = la.ple(A, 2**31 - 1)
assert "numba" in sys.modules
B = A[again.rows, :2]
for x, y in ((F.perm, compiled.perm), (F.L, compiled.L), (F.E, compiled.E), (F.cols, again.cols)):
    assert (x == y).all()
assert (F.solve_minor(B) == compiled.solve_minor(B)).all()  # factors made without serve the compiled solver
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_factors_can_be_pickled():
    A = np.random.default_rng(0).integers(0, 7, (30, 20))
    F = la.ple(A, 7)
    G = pickle.loads(pickle.dumps(F))
    assert (G.solve_minor(A[G.rows]) == F.solve_minor(A[F.rows])).all()
    assert (G.E == F.E).all()


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("threads", [1, 2])
def test_winograd_products(monkeypatch, name, threads):
    field = FIELDS[name]
    monkeypatch.setattr(field, "winograd", 9)
    rng = np.random.default_rng(5)
    for m, k, n in ((18, 18, 18), (19, 37, 21), (80, 75, 90), (17, 40, 40)):
        A, B, C = (rng.integers(0, field.p, shape) for shape in ((m, k), (k, n), (m, n)))
        with Team(threads, 0) as team:
            blocks = [Block.of(np.zeros((X.shape[0] + 1, X.shape[1] + 3), field.dtype)) for X in (C, A, B)]
            parts = [W.part(1, 1 + X.shape[0], 2, 2 + X.shape[1]) for W, X in zip(blocks, (C, A, B), strict=True)]
            for part, X in zip(parts, (C, A, B), strict=True):
                field.load(X, part, team)
            subtract_product(field, team, *parts)
        assert (field.store(parts[0]) == (C - mul(A, B, field.p)) % field.p).all()
        assert not blocks[0].a[0].any()
        assert not blocks[0].a[:, -1].any()


@pytest.mark.parametrize("p", [2, 8388593, 2**31 - 1, 2**61 - 1])
def test_long_matrices_by_chunks(p):
    """New pivots in the first, a middle and the last chunk, in rows that are not the first free ones."""
    rng = np.random.default_rng(2)
    A = np.zeros((40, 1500), np.int64)
    A[[30, 5, 17]] = low_rank(rng, p, 3, 1500, 2)
    A[:, :300] = low_rank(rng, p, 40, 300, 7)
    A[9, 700] = A[2, 1100] = A[38, 1499] = 1
    rows, cols = (la.ple(A, p).rows.tolist(), la.ple(A, p).cols.tolist())
    for X, order in ((A, 1), (np.ascontiguousarray(A.T), -1), (A.T, -1)):
        got = la.rank_profile(X, p)
        assert [got.rows.tolist(), got.cols.tolist()][::order] == [rows, cols]
    assert cols[-1] == 1499


@pytest.mark.slow
@pytest.mark.parametrize("p", [8388593, 33554393, 2**31 - 1, 8589934583, 2**61 - 1])
def test_large_ranks(p):
    """Sizes that cross kmax, stripes, panels and the Winograd threshold, with a planted defect."""
    rng = np.random.default_rng(3)
    n = 1300 if p < 2**33 else 900
    A = la.matmul(rng.integers(0, p, (n, n - 7)), rng.integers(0, p, (n - 7, n + 40)), p)
    A[n // 3] = 0
    A[:, 9] = A[:, 7]
    assert la.rank(A, p) == n - 7
    F = la.ple(A, p, threads=2)
    assert F.rank == n - 7
    assert (la.matmul(F.L, F.E, p) == A[F.perm]).all()
    extreme = np.where(rng.random((n, n)) < 0.5, (p - 1) // 2, (p + 1) // 2)
    assert la.rank(extreme, p, threads=1) == la.rank(extreme.T, p, threads=2)
