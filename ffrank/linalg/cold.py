"""The arithmetic of ``FloatField`` in NumPy alone: slower, but there is nothing to load or to compile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ffrank.linalg.blocks import Block, empty_block
from ffrank.linalg.fields import Field, Pivots, exact_limbs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ffrank.linalg.threads import Team

__all__ = ["ColdField"]


class ColdField(Field):
    """Balanced float64 residues for p < 2^33; see ``FloatField`` for the bounds."""

    dtype = np.float64
    stripe = 256
    winograd = 2**30

    def __init__(self, p: int, limbs: int) -> None:
        self.p = p
        self.limbs = limbs
        self._p, self._inv = float(p), 1.0 / p
        self._S, self.kmax = exact_limbs(p, limbs)
        self.base = min(32, self.kmax)

    def _reduce(self, x: NDArray[Any]) -> NDArray[Any]:
        """Reduce in place."""
        q = x * self._inv
        np.rint(q, out=q)
        q *= self._p
        x -= q
        return x

    def _split(self, x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        high = np.rint(x * (1.0 / self._S))
        return high, x - high * self._S

    def _times(self, L: NDArray[Any], X: NDArray[Any], multiply: Any) -> NDArray[Any]:
        """Return L·X mod p, for ``np.multiply`` or for ``np.matmul`` up to the inner length ``kmax``."""
        if self.limbs == 1:
            return self._reduce(multiply(L, X))
        high, low = self._split(L)
        t = self._reduce(multiply(high, X))
        t *= self._S
        t += self._reduce(multiply(low, X))
        return self._reduce(t)

    def _inverse(self, x: float) -> NDArray[Any]:
        g = pow(int(x), -1, self.p)
        return np.array([g - self.p if 2 * g > self.p else g], dtype=float)

    def _load(self, source: NDArray[np.int64], to: Block, *, transposed: bool) -> None:
        x = source % self.p
        x[x > self.p >> 1] -= self.p
        to.a[...] = x.T if transposed else x

    def store(self, block: Block) -> NDArray[np.int64]:
        """See ``Field``."""
        return block.a.astype(np.int64) % self.p

    def panel(self, W: Block, row: int, c0: int, c1: int, pivots: Pivots, team: Team) -> int:  # noqa: ARG002
        """See ``Field``; right-looking."""
        b = c1 - c0
        P = W.a[row:, c0:c1].copy()
        L = np.zeros_like(P)
        rows, found = pivots.rows[row:], 0
        for j in range(b):
            r = found
            free = r + np.flatnonzero(P[r:, j])
            if not len(free):
                continue
            s = int(free[np.argmin(rows[free])])
            for X in (P, L, rows[:, None], W.a[row:, :row], W.a[row:, c1:]):
                X[[r, s]] = X[[s, r]]
            L[r + 1 :, r] = self._times(P[r + 1 :, j], self._inverse(P[r, j]), np.multiply)
            P[r + 1 :, j:] -= self._times(L[r + 1 :, r, None], P[None, r, j:], np.multiply)
            self._reduce(P[r + 1 :, j:])
            pivots.cols[row + r] = c0 + j
            found += 1
            if found == len(P):
                break
        W.a[row:, c0:c1] = P
        for k in range(found):
            W.a[row + k + 1 :, row + k] = L[k + 1 :, k]
        return found

    def is_zero(self, block: Block) -> bool:
        """See ``Field``."""
        return not block.a.any()

    def triangle(self, T: Block, *, unit: bool, upper: bool) -> Block:
        """See ``Field``."""
        n = T.m
        out = empty_block(n, n, np.float64)
        inverse = np.zeros((n, n))
        t = T.a[::-1, ::-1] if upper else T.a
        for i in range(n):
            inverse[i] = -self._times(t[i : i + 1, :i], inverse[:i], np.matmul)[0]
            inverse[i, i] += 1.0
            if not unit:
                inverse[i] = self._times(inverse[i], self._inverse(t[i, i]), np.multiply)
        out.a[...] = self._reduce(np.eye(n) - (inverse[::-1, ::-1] if upper else inverse))
        return out

    def combine(self, D: Block, A: Block, B: Block, sign: int, team: Team) -> None:  # noqa: ARG002
        """See ``Field``."""
        D.a[...] = self._reduce(A.a + sign * B.a)

    def _product(self, slot: int, C: Block, L: Block, X: Block, team: Team) -> None:  # noqa: ARG002
        left, right, all_rows, k = L.a, X.a, C.a, L.n
        step = -(-k // -(-k // self.kmax))
        for i in range(0, C.m, self.stripe):
            c = all_rows[i : i + self.stripe]
            for q in range(0, k, step):
                c -= self._times(left[i : i + self.stripe, q : q + step], right[q : q + step], np.matmul)
                self._reduce(c)
