"""Arithmetic mod p on whole blocks: the only part of the eliminations that knows how residues are stored.

No rounding ever happens: all float64 values are integers up to 2^53 in absolute value, and so are all partial sums of
a product in whatever order BLAS takes them (it is assumed to form them from the products of entries, as every
conventional one does). The bounds are stated at ``exact_limbs`` and in the classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ffrank.linalg.blocks import Block, empty_block

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ffrank.linalg.threads import Team

__all__ = ["Field", "FloatField", "MontgomeryField", "Pivots", "exact_limbs"]

_EXACT = 2**53  # float64 represents and adds integers exactly up to here


@dataclass
class Pivots:
    """What the panels of one elimination share.

    ``rows`` holds the original index of each row and is permuted along; ``cols`` receives the column of each
    pivot; ``state`` is (whether ``rows`` is still increasing, whether factors are wanted); ``swaps`` is scratch.
    """

    rows: NDArray[np.int64]
    cols: NDArray[np.int64]
    state: NDArray[np.int64]
    swaps: NDArray[np.int64]


class Field:
    """The field of p elements in one representation.

    Attributes
    ----------
    p
        The prime.
    dtype
        The type of the stored residues, 8 bytes wide.
    kmax
        The longest inner product that stays exact.
    base
        The widest triangle that is inverted outright, at most ``kmax``.
    stripe
        Rows of a product made at a time.
    winograd
        The half size from which a level of the Strassen-Winograd scheme pays.
    """

    p: int
    dtype: Any
    kmax: int
    base: int
    stripe: int
    winograd: int
    _kernels: Any  # the module, once it is loaded

    def load(self, A: NDArray[np.int64], to: Block, team: Team, *, transposed: bool = False) -> None:
        """Write the residues of A, or of its transpose, to a block. A and the block may share memory."""
        m, n = A.shape
        if m == 0 or n == 0:
            return
        direct = A.flags.c_contiguous and A.flags.writeable
        step = m if direct else max(16, 2**17 // n // 16 * 16)  # copies of a megabyte at a time

        def rows(_: int, a: int, b: int) -> None:
            for i in range(a, b, step):
                j = min(i + step, b)
                source = A[i:j] if direct else np.array(A[i:j], dtype=np.int64, order="C")
                self._load(source, to.part(0, n, i, j) if transposed else to.part(i, j, 0, n), transposed=transposed)

        team.share(0, m, 32.0 * m * n, rows)

    def store(self, block: Block) -> NDArray[np.int64]:
        """Return a block as int64 in [0, p)."""
        raise NotImplementedError

    def panel(self, W: Block, row: int, c0: int, c1: int, pivots: Pivots, team: Team) -> int:
        """Eliminate columns c0 .. c1 of a whole matrix below ``row``, L going to column ``row``; return the rank."""
        raise NotImplementedError

    def triangle(self, T: Block, *, unit: bool, upper: bool) -> Block:
        """Return I - T^-1 for a triangular block of size at most ``base``; ``unit`` diagonals are implied."""
        raise NotImplementedError

    def combine(self, D: Block, A: Block, B: Block, sign: int, team: Team) -> None:
        """D ← A + sign·B; D may be A or B."""
        raise NotImplementedError

    def is_zero(self, block: Block) -> bool:
        """Tell whether a block is zero, at once if its first row is not."""
        return bool(self._kernels.is_zero(block.f, block.o, block.m, block.n, block.ld))

    def subtract_product(self, C: Block, L: Block, X: Block, team: Team) -> None:
        """C ← C - L·X. C may be L or X themselves if the inner length is at most ``base``."""
        if C.m == 0 or C.n == 0 or L.n == 0:
            return
        work = float(C.m) * C.n * L.n

        def rows(slot: int, a: int, b: int) -> None:
            self._product(slot, C.part(a, b, 0, C.n), L.part(a, b, 0, L.n), X, team)

        def columns(slot: int, a: int, b: int) -> None:
            self._product(slot, C.part(0, C.m, a, b), L, X.part(0, X.m, a, b), team)

        # A thread must not write what another one reads.
        if C is L or (C is not X and C.m >= C.n):
            team.share(0, C.m, work, rows)
        else:
            team.share(0, C.n, work, columns)

    def _load(self, source: NDArray[np.int64], to: Block, *, transposed: bool) -> None:
        raise NotImplementedError

    def _product(self, slot: int, C: Block, L: Block, X: Block, team: Team) -> None:
        """Do the share of one thread."""
        raise NotImplementedError


def exact_limbs(p: int, limbs: int) -> tuple[float, int]:
    """Return the limb size S and the longest exact inner product of float64 residues.

    With |x| ≤ h = (p+3)//2 after a reduction, a product of inner length k stays exact in one limb if
    k·h² + 2p ≤ 2^53. In two limbs, one factor is S·H + L with |L| ≤ S/2 and |H| ≤ h/S + 1, and
    k·h·max(S/2, h/S + 1) + 2p ≤ 2^53 is needed.
    """
    shift = p.bit_length() // 2
    h = (p + 3) // 2
    widest = h if limbs == 1 else max((1 << shift) // 2, (h >> shift) + 1)
    return float(1 << shift), (_EXACT - 2 * p) // (h * widest)


class FloatField(Field):
    """Balanced float64 residues for p < 2^33, multiplied by BLAS in one limb or two; see ``exact_limbs``."""

    dtype = np.float64
    stripe = 512

    def __init__(self, p: int, limbs: int) -> None:
        from ffrank.linalg import kernels

        self._kernels = kernels
        self.p = p
        self.limbs = limbs
        self.winograd = 1000 if limbs == 1 else 500
        S, self.kmax = exact_limbs(p, limbs)
        self._constants = float(p), 1.0 / p, S
        self.base = min(32, self.kmax)
        self._panel = kernels.panel1 if limbs == 1 else kernels.panel2

    def _load(self, source: NDArray[np.int64], to: Block, *, transposed: bool) -> None:
        m, n = source.shape
        kernel = self._kernels.load_transposed if transposed else self._kernels.load
        buffer = np.empty(16 * n if transposed else n, np.int64)
        kernel(source.reshape(-1), m, n, self.p, to.f, to.o, to.ld, buffer)

    def store(self, block: Block) -> NDArray[np.int64]:
        """See ``Field``."""
        out = np.empty((block.m, block.n), np.int64)
        self._kernels.store(block.f, block.o, block.m, block.n, block.ld, self.p, out.reshape(-1))
        return out

    def panel(self, W: Block, row: int, c0: int, c1: int, pivots: Pivots, team: Team) -> int:
        """See ``Field``."""
        m, b = W.m - row, c1 - c0
        P, LT = team.scratch(0, "panel", m * b), team.scratch(0, "lower", m * b)
        found: int = self._panel(W.f, W.o + row * W.ld, W.ld, m, c0, b, W.n, row, pivots.rows[row:], pivots.state,
                                 P, LT, pivots.swaps, pivots.cols[row:], *self._constants)  # fmt: skip
        return found

    def triangle(self, T: Block, *, unit: bool, upper: bool) -> Block:
        """See ``Field``."""
        out = empty_block(T.m, T.m, np.float64)
        self._kernels.triangle(T.f, T.o, T.ld, T.m, unit, upper, *self._constants, out.f)
        return out

    def combine(self, D: Block, A: Block, B: Block, sign: int, team: Team) -> None:
        """See ``Field``."""
        p, inv, _ = self._constants

        def rows(_: int, a: int, b: int) -> None:
            self._kernels.combine(D.f, D.o + a * D.ld, D.ld, A.f, A.o + a * A.ld, A.ld, B.f, B.o + a * B.ld, B.ld,
                                  float(sign), b - a, D.n, p, inv)  # fmt: skip

        team.share(0, D.m, 32.0 * D.m * D.n, rows)

    def _product(self, slot: int, C: Block, L: Block, X: Block, team: Team) -> None:
        p, inv, S = self._constants
        kernels, limbs, k, n = self._kernels, self.limbs, L.n, C.n
        step = -(-k // -(-k // self.kmax))
        height = min(C.m, self.stripe // limbs)
        T = team.scratch(slot, "product", limbs * height * n)
        U = team.scratch(slot, "limbs", 2 * height * step) if limbs == 2 else T
        all_left, all_right = L.a, X.a
        for i in range(0, C.m, height):
            h = min(height, C.m - i)
            for q in range(0, k, step):
                w = min(step, k - q)
                left, right = all_left[i : i + h, q : q + w], all_right[q : q + w]
                if limbs == 2:
                    kernels.split2(L.f, L.o + i * L.ld + q, L.ld, h, w, S, U)
                    left = U[: 2 * h * w].reshape(2 * h, w)
                np.matmul(left, right, out=T[: limbs * h * n].reshape(limbs * h, n))
                if limbs == 2:
                    kernels.subtract2(C.f, C.o + i * C.ld, C.ld, T, h, n, p, inv, S)
                else:
                    kernels.subtract1(C.f, C.o + i * C.ld, C.ld, T, h, n, p, inv)


class MontgomeryField(Field):
    """Balanced 64-bit Montgomery residues for odd p < 2^61, multiplied by BLAS in three limbs of 21 bits.

    Notes
    -----
    Toom-Cook evaluation at 0, 1, -1, 2 and ∞ makes one product out of five of float64 matrices with
    entries up to 2^22 + 4, exact for inner lengths up to 508.
    """

    dtype = np.int64
    kmax = 508
    base = 32
    stripe = 128
    winograd = 400

    def __init__(self, p: int) -> None:
        from ffrank.linalg import kernels

        self._kernels = kernels
        self.p = p
        word = 2**64
        pinv = pow(p, -1, word)
        self._constants = p, pinv - word if pinv >= word // 2 else pinv, (p - 1) // 2
        powers = word % p, word**2 % p, word**3 % p, (word << 42) % p
        self._r1, self._r2, self._r3, self._shift = (x - p if 2 * x > p else x for x in powers)

    def _load(self, source: NDArray[np.int64], to: Block, *, transposed: bool) -> None:
        m, n = source.shape
        kernel = self._kernels.load_transposed_m if transposed else self._kernels.load_m
        buffer = np.empty(16 * n if transposed else n, np.int64)
        kernel(source.reshape(-1), m, n, *self._constants, self._r2, to.f, to.o, to.ld, buffer)

    def store(self, block: Block) -> NDArray[np.int64]:
        """See ``Field``."""
        out = np.empty((block.m, block.n), np.int64)
        self._kernels.store_m(block.f, block.o, block.m, block.n, block.ld, *self._constants, out.reshape(-1))
        return out

    def panel(self, W: Block, row: int, c0: int, c1: int, pivots: Pivots, team: Team) -> int:
        """See ``Field``."""
        m, b = W.m - row, c1 - c0
        P, L = team.scratch(0, "panel", m * b, np.int64), team.scratch(0, "lower", m * b, np.int64)
        found: int = self._kernels.panel_m(W.f, W.o + row * W.ld, W.ld, m, c0, b, W.n, row, pivots.rows[row:],
                                           pivots.state, P, L, pivots.swaps, pivots.cols[row:], *self._constants,
                                           self._r3)  # fmt: skip
        return found

    def triangle(self, T: Block, *, unit: bool, upper: bool) -> Block:
        """See ``Field``."""
        out = empty_block(T.m, T.m, np.int64)
        self._kernels.triangle_m(T.f, T.o, T.ld, T.m, unit, upper, *self._constants, self._r1, self._r3, out.f)
        return out

    def combine(self, D: Block, A: Block, B: Block, sign: int, team: Team) -> None:
        """See ``Field``."""
        p, _, h = self._constants

        def rows(_: int, a: int, b: int) -> None:
            self._kernels.combine_m(D.f, D.o + a * D.ld, D.ld, A.f, A.o + a * A.ld, A.ld, B.f, B.o + a * B.ld, B.ld,
                                    sign, b - a, D.n, p, h)  # fmt: skip

        team.share(0, D.m, 32.0 * D.m * D.n, rows)

    def _product(self, slot: int, C: Block, L: Block, X: Block, team: Team) -> None:
        kernels, k, n = self._kernels, L.n, C.n
        step = -(-k // -(-k // self.kmax))
        height = min(C.m, self.stripe)
        T = team.scratch(slot, "product", 5 * height * n)
        U = team.scratch(slot, "limbs", 5 * height * step)
        V = team.scratch(slot, "right", 5 * step * n)
        for q in range(0, k, step):
            w = min(step, k - q)
            kernels.toom(X.f, X.o + q * X.ld, X.ld, w, n, V)
            right = V[: 5 * w * n].reshape(5, w, n)
            for i in range(0, C.m, height):
                h = min(height, C.m - i)
                kernels.toom(L.f, L.o + i * L.ld + q, L.ld, h, w, U)
                np.matmul(U[: 5 * h * w].reshape(5, h, w), right, out=T[: 5 * h * n].reshape(5, h, n))
                kernels.subtract_m(C.f, C.o + i * C.ld, C.ld, T, h, n, *self._constants, self._shift)
