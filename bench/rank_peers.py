"""Peers of the rank benchmark: other libraries behind one signature, each absent without harm.

A peer takes a NumPy matrix and a prime, and returns a function to be timed; conversion happens before, unless the
name says so. FFLAS-FFPACK and NTL are compiled on the spot if their headers are there (Debian: fflas-ffpack,
libgivaro-dev, libntl-dev, libopenblas-dev).
"""

from __future__ import annotations

import ctypes
import functools
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

Run = Callable[[], int]

FFLAS = r"""
#include <cstdint>
#include <givaro/modular.h>
#include <givaro/modular-balanced.h>
#include <fflas-ffpack/fflas-ffpack.h>
template <class F> static size_t run(int64_t p, size_t m, size_t n, const int64_t* A, double* t) {
    F field(p);
    typename F::Element* B = FFLAS::fflas_new(field, m, n);
    for (size_t i = 0; i < m * n; i++) field.init(B[i], A[i]);
    FFLAS::Timer clock; clock.clear(); clock.start();
    size_t r = FFPACK::Rank(field, m, n, B, n);
    clock.stop(); *t = clock.realtime();
    FFLAS::fflas_delete(B);
    return r;
}
extern "C" size_t peer(int k, int64_t p, size_t m, size_t n, const int64_t* A, double* t) {
    if (k == 0) return run<Givaro::ModularBalanced<double>>(p, m, n, A, t);
    if (k == 1) return run<Givaro::Modular<double>>(p, m, n, A, t);
    return run<Givaro::Modular<int64_t>>(p, m, n, A, t);
}
"""
NTL = r"""
#include <cstdint>
#include <chrono>
#include <NTL/mat_lzz_p.h>
extern "C" size_t peer(int, int64_t p, size_t m, size_t n, const int64_t* A, double* t) {
    NTL::zz_p::init(p);
    NTL::mat_zz_p B; B.SetDims(m, n);
    for (size_t i = 0; i < m; i++) for (size_t j = 0; j < n; j++) B[i][j] = NTL::to_zz_p(A[i * n + j]);
    auto start = std::chrono::steady_clock::now();
    size_t r = NTL::gauss(B);
    *t = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return r;
}
"""


@functools.cache
def compiled(name: str) -> ctypes.CDLL | None:
    source, libraries = {
        "fflas": (FFLAS, ["-lopenblas", "-lgivaro", "-lgmpxx", "-lgmp"]),
        "ntl": (NTL, ["-lntl", "-lgmp", "-lpthread"]),
    }[name]
    folder = Path(tempfile.mkdtemp(prefix="ffrank-bench-"))
    (folder / "peer.cpp").write_text(source)
    command = ["g++", "-O3", "-march=native", "-w", "-fPIC", "-shared", "-std=gnu++17", "peer.cpp", "-o", "peer.so"]
    try:
        subprocess.run([*command, *libraries], cwd=folder, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        print(f"skipped: {name} does not compile here", file=sys.stderr)
        return None
    library = ctypes.CDLL(str(folder / "peer.so"))
    library.peer.restype = ctypes.c_size_t
    return library


def foreign(name: str, kind: int, A: np.ndarray, p: int) -> Run | None:
    """Return a call of a compiled peer; the copy into its own type is part of it."""
    library = compiled(name)
    if library is None:
        return None
    seconds = ctypes.c_double()

    def run() -> int:
        m, n = (ctypes.c_size_t(size) for size in A.shape)
        at = ctypes.c_void_p(A.ctypes.data)
        return int(library.peer(ctypes.c_int(kind), ctypes.c_int64(p), m, n, at, ctypes.byref(seconds)))

    return run


def flint(A: np.ndarray, p: int) -> Run | None:
    try:
        import flint as library
    except ImportError:
        return absent("python-flint")
    M = library.nmod_mat(*A.shape, A.ravel().tolist(), p)
    return M.rank


def flint_converting(A: np.ndarray, p: int) -> Run | None:
    try:
        import flint as library
    except ImportError:
        return absent("python-flint")
    return lambda: library.nmod_mat(*A.shape, A.ravel().tolist(), p).rank()


def galois(A: np.ndarray, p: int) -> Run | None:
    try:
        import galois as library
        import sympy
    except ImportError:
        return absent("galois")
    M = library.GF(p, primitive_element=int(sympy.primitive_root(p)), verify=False)(A)
    return lambda: int(np.linalg.matrix_rank(M))


def sympy(A: np.ndarray, p: int) -> Run | None:
    try:
        from sympy import GF
        from sympy.polys.matrices import DomainMatrix
    except ImportError:
        return absent("SymPy")
    M = DomainMatrix([[GF(p)(x) for x in line] for line in A.tolist()], A.shape, GF(p))
    return M.rank


def pari(A: np.ndarray, p: int) -> Run | None:
    try:
        from cypari import pari as library
    except ImportError:
        return absent("cypari")
    M = library.matrix(*A.shape, A.ravel().tolist()) * library(f"Mod(1,{p})")
    return lambda: int(M.matrank())


def numpy_float(A: np.ndarray, _: int) -> Run:
    """The rank of the integers in floating point, which is another question and often another answer."""
    return lambda: int(np.linalg.matrix_rank(A.astype(float)))


@functools.cache
def absent(name: str) -> None:
    print(f"skipped: {name} is not installed", file=sys.stderr)
