"""Every compiled kernel of this package, in one file because numba's cache sees edits of one file only.

Conventions
-----------
*Addressing.* A matrix is a flat buffer ``F``, an offset ``o`` and a row length ``ld``: entry (i, j) is
``F[o + i*ld + j]``. Slices of two-dimensional arrays have a stride unknown to the compiler and would not
be vectorised.

*Residues.* Float kernels hold residues as float64 integers with |x| ≤ h = (p+3)//2. Reduction takes
q = round(x/p) and returns x - q·p. For |x| < 2^53 the computed quotient is off by at most 2/p before it is
rounded, so the result is below p/2 + 2, hence at most h; it is zero exactly when p divides x, because
p/2 + 2 < p for p ≥ 5, and for p = 2, 3 the arguments stay far below 2^50, where the error vanishes.
All sums are integers below 2^53, so every rounding is exact and the order of summation does not matter:
the caller keeps k·h² + 2p ≤ 2^53 (one limb) or k·h·max(S/2, h/S + 1) + 2p ≤ 2^53 (two limbs).

*Rounding.* (x + MAGIC) - MAGIC is the integer nearest to x for |x| < 2^51. Fast-math is limited to fused
multiply-add and to ignoring the sign of zero.

Integer kernels, for 61-bit primes, hold Montgomery residues as balanced int64; see the second half.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

MAGIC = 6755399441055744.0  # 1.5 * 2^52


def _can_cache() -> bool:
    """Tell whether Numba finds a place for compiled code; without one, every process compiles anew."""
    try:
        njit(cache=True)(_can_cache)
    except RuntimeError:
        return False
    return True


_CACHE = _can_cache()
_FLOAT = {"cache": _CACHE, "nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}
_INTEGER = {"cache": _CACHE, "nogil": True, "error_model": "numpy"}


# ------------------------------------------------------------------------------------------------
# Scalars
# ------------------------------------------------------------------------------------------------
@njit(**_FLOAT)
def reduce(x, p, inv):
    """Return the balanced residue of the integer x, |x| < 2^53."""
    return x - ((x * inv + MAGIC) - MAGIC) * p


@njit(**_FLOAT)
def product(a, b, p, inv, S):
    """Return a·b mod p for balanced a, b and p < 2^33; S is the limb size of p."""
    high = (b * (1.0 / S) + MAGIC) - MAGIC
    low = b - high * S
    return reduce(reduce(a * high, p, inv) * S + reduce(a * low, p, inv), p, inv)


@njit(**_INTEGER)
def inverse_mod(a, p):
    """Return 1/a mod p in [0, p), for any p < 2^62 (extended Euclid)."""
    a %= p
    t0, t1, r0, r1 = 0, 1, p, a
    while r1 != 0:
        q = r0 // r1
        t0, t1 = t1, t0 - q * t1
        r0, r1 = r1, r0 - q * r1
    return t0 % p


@njit(**_INTEGER)
def balanced_inverse(a, p):
    """Return 1/a mod p between -(p-1)/2 and p/2."""
    g = inverse_mod(a, p)
    return g - p if 2 * g > p else g


# ------------------------------------------------------------------------------------------------
# Float residues: in and out
# ------------------------------------------------------------------------------------------------
@njit(**_INTEGER)
def balance(A, o, m, n, p, out):
    """Write the balanced residues of m·n int64 entries from A[o] on to the int64 buffer ``out``."""
    h = p >> 1
    for i in range(m):
        a = A[o + i * n : o + i * n + n]
        b = out[i * n : i * n + n]
        wild = 0
        for j in range(n):
            x = a[j]
            wild |= (x | (p - 1 - x)) < 0
        if wild:
            for j in range(n):
                x = a[j] % p
                b[j] = x - p if x > h else x
        else:
            for j in range(n):
                x = a[j]
                b[j] = x - p if x > h else x


@njit(**_INTEGER)
def load(A, m, n, p, F, o, ld, buffer):
    """Convert an m×n int64 matrix to balanced float64; F may be the same memory as A."""
    for i in range(m):
        balance(A, i * n, 1, n, p, buffer)
        f = F[o + i * ld : o + i * ld + n]
        for j in range(n):
            f[j] = buffer[j]


@njit(**_INTEGER)
def load_transposed(A, m, n, p, F, o, ld, buffer):
    """As ``load``, to the transpose: F is n×m. ``buffer`` has 16·n entries."""
    for i in range(0, m, 16):
        w = min(16, m - i)
        balance(A, i * n, w, n, p, buffer)
        for j in range(n):
            f = F[o + j * ld + i : o + j * ld + i + w]
            for k in range(w):
                f[k] = buffer[k * n + j]


@njit(**_INTEGER)
def store(F, o, m, n, ld, p, out):
    """Write an m×n block of float residues as int64 in [0, p) to the C-contiguous ``out``."""
    for i in range(m):
        f = F[o + i * ld : o + i * ld + n]
        u = out[i * n : i * n + n]
        for j in range(n):
            x = np.int64(f[j])
            x = x + p if x < 0 else x
            u[j] = x - p if x >= p else x


@njit(**_INTEGER)
def is_zero(F, o, m, n, ld):
    """Tell whether a block is zero; the first nonzero row ends the search."""
    for i in range(m):
        f = F[o + i * ld : o + i * ld + n]
        hit = 0
        for j in range(n):
            hit |= f[j] != 0
        if hit:
            return False
    return True


# ------------------------------------------------------------------------------------------------
# Float residues: what surrounds a product
# ------------------------------------------------------------------------------------------------
@njit(**_FLOAT)
def subtract1(F, o, ld, T, m, n, p, inv):
    """C ← C - T mod p for an m×n block C of F; |T| + h ≤ 2^53."""
    for i in range(m):
        c = F[o + i * ld : o + i * ld + n]
        t = T[i * n : i * n + n]
        for j in range(n):
            c[j] = reduce(c[j] - t[j], p, inv)


@njit(**_FLOAT)
def subtract2(F, o, ld, T, m, n, p, inv, S):
    """C ← C - (S·H + L) mod p, T holding H (m×n) and then L."""
    for i in range(m):
        c = F[o + i * ld : o + i * ld + n]
        high = T[i * n : i * n + n]
        low = T[(m + i) * n : (m + i) * n + n]
        for j in range(n):
            x = reduce(high[j], p, inv)
            c[j] = reduce(reduce(c[j] - low[j], p, inv) - x * S, p, inv)


@njit(**_FLOAT)
def combine(D, od, ldd, A, oa, lda, B, ob, ldb, sign, m, n, p, inv):
    """D ← A + sign·B mod p on m×n blocks."""
    for i in range(m):
        d = D[od + i * ldd : od + i * ldd + n]
        a = A[oa + i * lda : oa + i * lda + n]
        b = B[ob + i * ldb : ob + i * ldb + n]
        for j in range(n):
            d[j] = reduce(a[j] + sign * b[j], p, inv)


@njit(**_FLOAT)
def split2(F, o, ld, m, n, S, out):
    """Write the limbs of a block: out holds H (m×n), then L, with block = S·H + L and |L| ≤ S/2."""
    si = 1.0 / S
    for i in range(m):
        a = F[o + i * ld : o + i * ld + n]
        high = out[i * n : i * n + n]
        low = out[(m + i) * n : (m + i) * n + n]
        for j in range(n):
            q = (a[j] * si + MAGIC) - MAGIC
            high[j] = q
            low[j] = a[j] - q * S


# ------------------------------------------------------------------------------------------------
# Float residues: panels
# ------------------------------------------------------------------------------------------------
@njit(**_INTEGER)
def panel_in(F, o, ld, m, c0, b, P):
    """Copy columns c0 .. c0+b of m rows to P, transposed: column j is P[j*m : (j+1)*m]."""
    i = 0
    while i + 8 <= m:
        for j in range(b):
            for k in range(8):
                P[j * m + i + k] = F[o + (i + k) * ld + c0 + j]
        i += 8
    while i < m:
        for j in range(b):
            P[j * m + i] = F[o + i * ld + c0 + j]
        i += 1


@njit(**_INTEGER)
def panel_out(F, o, ld, m, c0, b, width, lcol, r, P, LT, swaps, cols):
    """Apply the row swaps outside the panel; write L below the diagonal at column lcol, and E."""
    for k in range(r):
        s = swaps[k]
        if s != k:
            x = F[o + k * ld : o + k * ld + width]
            y = F[o + s * ld : o + s * ld + width]
            for j in range(lcol):
                t = x[j]
                x[j] = y[j]
                y[j] = t
            for j in range(c0 + b, width):
                t = x[j]
                x[j] = y[j]
                y[j] = t
    for i0 in range(0, m, 8):
        for i in range(i0, min(m, i0 + 8)):
            for k in range(min(i, r)):
                F[o + i * ld + lcol + k] = LT[k * m + i]
    for k in range(r):
        for j in range(cols[k] - c0, b):
            F[o + k * ld + c0 + j] = P[j * m + k]


@njit(**_INTEGER)
def first_pivot(c, r, m, rows, state):
    """Return the nonzero c[i], i ≥ r, of smallest original row, or -1. state[0]: rows[r:] is increasing."""
    if state[0]:
        for i in range(r, m):
            if c[i] != 0:
                return i
        return -1
    best = -1
    for i in range(r, m):
        if c[i] != 0 and (best < 0 or rows[i] < rows[best]):
            best = i
    return best


@njit(**_INTEGER)
def swap_in_panel(P, LT, m, b, j, r, s, rows, state):
    """Swap rows r and s of the panel's columns j.. and of its L."""
    for k in range(r):
        t = LT[k * m + r]
        LT[k * m + r] = LT[k * m + s]
        LT[k * m + s] = t
    for k in range(j, b):
        t = P[k * m + r]
        P[k * m + r] = P[k * m + s]
        P[k * m + s] = t
    t = rows[r]
    rows[r] = rows[s]
    rows[s] = t
    state[0] = 0


@njit(**_FLOAT)
def panel1(F, o, ld, m, c0, b, width, lcol, rows, state, P, LT, swaps, cols, p, inv, S):
    """Eliminate b columns of m rows, one limb, b ≤ kmax; return the rank found.

    Left-looking on a transposed copy: column j receives all earlier pivots at once, so that each of its
    entries is reduced once. ``cols`` receives the pivot columns, ``rows`` is permuted along.
    """
    panel_in(F, o, ld, m, c0, b, P)
    u = np.empty(b)
    ip = np.int64(p)
    r = 0
    for j in range(b):
        c = P[j * m : j * m + m]
        for k in range(r):
            x = reduce(c[k], p, inv)
            u[k] = x
            c[k] = x
            t = LT[k * m : k * m + m]
            for i in range(k + 1, r):
                c[i] -= t[i] * x
        for i0 in range(r, m, 1024):
            e = min(m, i0 + 1024)
            d = c[i0:e]
            w = e - i0
            k = 0
            while k + 8 <= r:
                u0, u1, u2, u3 = u[k], u[k + 1], u[k + 2], u[k + 3]
                u4, u5, u6, u7 = u[k + 4], u[k + 5], u[k + 6], u[k + 7]
                q = k * m + i0
                l0, l1 = LT[q : q + w], LT[q + m : q + m + w]
                l2, l3 = LT[q + 2 * m : q + 2 * m + w], LT[q + 3 * m : q + 3 * m + w]
                l4, l5 = LT[q + 4 * m : q + 4 * m + w], LT[q + 5 * m : q + 5 * m + w]
                l6, l7 = LT[q + 6 * m : q + 6 * m + w], LT[q + 7 * m : q + 7 * m + w]
                for i in range(w):
                    d[i] -= ((l0[i] * u0 + l1[i] * u1) + (l2[i] * u2 + l3[i] * u3)) + (
                        (l4[i] * u4 + l5[i] * u5) + (l6[i] * u6 + l7[i] * u7)
                    )
                k += 8
            while k < r:
                x = u[k]
                t = LT[k * m + i0 : k * m + i0 + w]
                for i in range(w):
                    d[i] -= t[i] * x
                k += 1
            for i in range(w):
                d[i] = reduce(d[i], p, inv)
        s = first_pivot(c, r, m, rows, state)
        if s < 0:
            continue
        swaps[r] = s
        if s != r:
            swap_in_panel(P, LT, m, b, j, r, s, rows, state)
        cols[r] = c0 + j
        g = np.float64(balanced_inverse(np.int64(c[r]), ip))
        t = LT[r * m : r * m + m]
        for i in range(r + 1, m):
            t[i] = reduce(c[i] * g, p, inv)
        r += 1
        if r == m:
            break
    if state[1]:
        finish_columns(P, LT, m, r, j + 1, b, p, inv, S)
    panel_out(F, o, ld, m, c0, b, width, lcol, r, P, LT, swaps, cols)
    return r


@njit(**_FLOAT)
def finish_columns(P, LT, m, r, j0, b, p, inv, S):
    """Solve with L in the columns that are left when the rows have run out (r = m)."""
    for j in range(j0, b):
        c = P[j * m : j * m + m]
        for k in range(r):
            x = c[k]
            t = LT[k * m : k * m + m]
            for i in range(k + 1, r):
                c[i] = reduce(c[i] - product(t[i], x, p, inv, S), p, inv)


@njit(**_FLOAT)
def panel2(F, o, ld, m, c0, b, width, lcol, rows, state, P, LT, swaps, cols, p, inv, S):
    """As ``panel1`` with the multipliers in two limbs, for p < 2^33."""
    panel_in(F, o, ld, m, c0, b, P)
    si = 1.0 / S
    uh = np.empty(b)
    ul = np.empty(b)
    H = np.empty(m)
    ip = np.int64(p)
    r = 0
    for j in range(b):
        c = P[j * m : j * m + m]
        for i in range(r):
            H[i] = 0.0
        for k in range(r):
            x = reduce(reduce(c[k], p, inv) + reduce(H[k], p, inv) * S, p, inv)
            high = (x * si + MAGIC) - MAGIC
            low = x - high * S
            uh[k] = high
            ul[k] = low
            c[k] = x
            t = LT[k * m : k * m + m]
            for i in range(k + 1, r):
                c[i] -= t[i] * low
                H[i] -= t[i] * high
        for i0 in range(r, m, 1024):
            e = min(m, i0 + 1024)
            w = e - i0
            d = c[i0:e]
            g = H[i0:e]
            for i in range(w):
                g[i] = 0.0
            k = 0
            while k + 4 <= r:
                u0, u1, u2, u3 = ul[k], ul[k + 1], ul[k + 2], ul[k + 3]
                v0, v1, v2, v3 = uh[k], uh[k + 1], uh[k + 2], uh[k + 3]
                q = k * m + i0
                l0, l1 = LT[q : q + w], LT[q + m : q + m + w]
                l2, l3 = LT[q + 2 * m : q + 2 * m + w], LT[q + 3 * m : q + 3 * m + w]
                for i in range(w):
                    d[i] -= (l0[i] * u0 + l1[i] * u1) + (l2[i] * u2 + l3[i] * u3)
                    g[i] -= (l0[i] * v0 + l1[i] * v1) + (l2[i] * v2 + l3[i] * v3)
                k += 4
            while k < r:
                x = ul[k]
                y = uh[k]
                t = LT[k * m + i0 : k * m + i0 + w]
                for i in range(w):
                    d[i] -= t[i] * x
                    g[i] -= t[i] * y
                k += 1
            for i in range(w):
                y = reduce(g[i], p, inv)
                d[i] = reduce(reduce(d[i], p, inv) + y * S, p, inv)
        s = first_pivot(c, r, m, rows, state)
        if s < 0:
            continue
        swaps[r] = s
        if s != r:
            swap_in_panel(P, LT, m, b, j, r, s, rows, state)
        cols[r] = c0 + j
        x = np.float64(balanced_inverse(np.int64(c[r]), ip))
        t = LT[r * m : r * m + m]
        for i in range(r + 1, m):
            t[i] = product(c[i], x, p, inv, S)
        r += 1
        if r == m:
            break
    if state[1]:
        finish_columns(P, LT, m, r, j + 1, b, p, inv, S)
    panel_out(F, o, ld, m, c0, b, width, lcol, r, P, LT, swaps, cols)
    return r


@njit(**_FLOAT)
def triangle(F, o, ld, n, unit, upper, p, inv, S, out):
    """Write I - T^-1 to ``out`` (n×n, n ≤ kmax) for the triangular block T at F; ``unit`` diagonals are implied.

    Row i of the inverse is (e_i - sum of T[i, k] times row k) / T[i, i], the sum taken in two limbs.
    """
    high = np.empty(n)
    low = np.empty(n)
    for a in range(n):
        i = n - 1 - a if upper else a
        row = out[i * n : i * n + n]
        for j in range(n):
            high[j] = 0.0
            low[j] = 0.0
        for b in range(a):
            k = n - 1 - b if upper else b
            x = F[o + i * ld + k]
            xh = (x * (1.0 / S) + MAGIC) - MAGIC
            xl = x - xh * S
            t = out[k * n : k * n + n]
            for j in range(n):
                high[j] -= xh * t[j]
                low[j] -= xl * t[j]
        for j in range(n):
            row[j] = reduce(reduce(high[j], p, inv) * S + reduce(low[j], p, inv), p, inv)
        row[i] += 1.0
        if not unit:
            g = np.float64(balanced_inverse(np.int64(F[o + i * ld + i]), np.int64(p)))
            for j in range(n):
                row[j] = product(row[j], g, p, inv, S)
    for i in range(n):
        row = out[i * n : i * n + n]
        row[i] -= 1.0
        for j in range(n):
            row[j] = reduce(-row[j], p, inv)


# ------------------------------------------------------------------------------------------------
# Montgomery residues, for odd p < 2^61
#
# The buffer holds x·R mod p with R = 2^64 as a balanced int64, |x| ≤ h = (p-1)/2 < 2^60. ``redc`` maps a
# signed 128-bit T to T/R mod p: the raw quotient is at most |T|/2^64 + p/2 in absolute value, so one
# conditional correction by p makes it balanced whenever |T| ≤ 32·h², since 32·h²/2^64 ≤ 2h.
# ------------------------------------------------------------------------------------------------
_I64, _I128 = ir.IntType(64), ir.IntType(128)
THIRD = np.int64(-6148914691236517205)  # 1/3 mod 2^64: times it, a multiple of 3 is divided by 3


def _wide(builder, high, low):
    shifted = builder.shl(builder.sext(high, _I128), ir.Constant(_I128, 64))
    return builder.or_(shifted, builder.zext(low, _I128))


@intrinsic
def mac(typingctx, high, low, a, b):  # noqa: ARG001  (numba reads the names)
    """Return the 128-bit (high, low) + a·b, signed."""
    sig = types.UniTuple(types.int64, 2)(types.int64, types.int64, types.int64, types.int64)

    def codegen(context, builder, signature, args):
        high, low, a, b = args
        v = builder.mul(builder.sext(a, _I128), builder.sext(b, _I128))
        v = builder.add(_wide(builder, high, low), v)
        top = builder.trunc(builder.ashr(v, ir.Constant(_I128, 64)), _I64)
        return context.make_tuple(builder, signature.return_type, (top, builder.trunc(v, _I64)))

    return sig, codegen


@intrinsic
def redc_raw(typingctx, high, low, p, pinv):  # noqa: ARG001
    """Return (T - (T·pinv mod 2^64)·p) / 2^64 for the 128-bit T = (high, low) and pinv = 1/p mod 2^64."""
    sig = types.int64(types.int64, types.int64, types.int64, types.int64)

    def codegen(context, builder, signature, args):  # noqa: ARG001
        high, low, p, pinv = args
        q = builder.mul(low, pinv)
        v = builder.mul(builder.sext(q, _I128), builder.sext(p, _I128))
        v = builder.sub(_wide(builder, high, low), v)
        return builder.trunc(builder.ashr(v, ir.Constant(_I128, 64)), _I64)

    return sig, codegen


@njit(**_INTEGER)
def centre(x, p, h):
    """Return the balanced residue of x, |x| ≤ p + h."""
    if x > h:
        x -= p
    elif x < -h:
        x += p
    return x


@njit(**_INTEGER)
def redc(high, low, p, pinv, h):
    """Return T/R mod p, balanced, for |T| ≤ 32·h²."""
    return centre(redc_raw(high, low, p, pinv), p, h)


@njit(**_INTEGER)
def product_m(a, b, p, pinv, h):
    """Return the Montgomery product a·b/R."""
    x, y = mac(np.int64(0), np.int64(0), a, b)
    return redc(x, y, p, pinv, h)


@njit(**_INTEGER)
def load_m(A, m, n, p, pinv, h, r2, F, o, ld, buffer):
    """Convert an m×n int64 matrix to Montgomery residues; F may be the same memory as A."""
    for i in range(m):
        balance(A, i * n, 1, n, p, buffer)
        f = F[o + i * ld : o + i * ld + n]
        for j in range(n):
            f[j] = product_m(buffer[j], r2, p, pinv, h)


@njit(**_INTEGER)
def load_transposed_m(A, m, n, p, pinv, h, r2, F, o, ld, buffer):
    """As ``load_m``, to the transpose: F is n×m. ``buffer`` has 16·n entries."""
    for i in range(0, m, 16):
        w = min(16, m - i)
        balance(A, i * n, w, n, p, buffer)
        for j in range(n):
            f = F[o + j * ld + i : o + j * ld + i + w]
            for k in range(w):
                f[k] = product_m(buffer[k * n + j], r2, p, pinv, h)


@njit(**_INTEGER)
def store_m(F, o, m, n, ld, p, pinv, h, out):
    """Write an m×n block of Montgomery residues as int64 in [0, p) to the C-contiguous ``out``."""
    for i in range(m):
        for j in range(n):
            y = F[o + i * ld + j]
            x = redc(y >> 63, y, p, pinv, h)
            out[i * n + j] = x + p if x < 0 else x


@njit(**_INTEGER)
def toom(F, o, ld, m, n, out):
    """Write the five float64 matrices a(0), a(∞), a(1), a(-1), a(2) of the limbs a0 + a1·t + a2·t².

    t = 2^21; |a0|, |a1| ≤ 2^20 and |a2| ≤ 2^18 + 1, so |a(1)|, |a(-1)| < 2^21.2 and |a(2)| ≤ 2^22 + 4.
    """
    half = 1 << 20
    mask = (1 << 21) - 1
    size = m * n
    for i in range(m):
        f = F[o + i * ld : o + i * ld + n]
        o0 = out[i * n : i * n + n]
        o1 = out[size + i * n : size + i * n + n]
        o2 = out[2 * size + i * n : 2 * size + i * n + n]
        o3 = out[3 * size + i * n : 3 * size + i * n + n]
        o4 = out[4 * size + i * n : 4 * size + i * n + n]
        for j in range(n):
            x = f[j]
            a0 = ((x + half) & mask) - half
            x = (x - a0) >> 21
            a1 = ((x + half) & mask) - half
            a2 = (x - a1) >> 21
            o0[j] = a0
            o1[j] = a2
            o2[j] = a0 + a1 + a2
            o3[j] = a0 - a1 + a2
            o4[j] = a0 + 2 * a1 + 4 * a2


@njit(**_INTEGER)
def subtract_m(F, o, ld, T, m, n, p, pinv, h, K):
    """C ← C - V/R, V interpolated from the five products in T (integers below 2^53); K = 2^42·R mod p.

    V = c0 + c1·t + c2·t² + c3·t³ + c4·t⁴ with |c0|, |c1| < 2^51 and the upper part below 2^90, so both
    arguments of ``redc`` are in its range.
    """
    size = m * n
    for i in range(m):
        f = F[o + i * ld : o + i * ld + n]
        for j in range(n):
            at = i * n + j
            c0 = np.int64(T[at])
            c4 = np.int64(T[size + at])
            plus = np.int64(T[2 * size + at])
            minus = np.int64(T[3 * size + at])
            two = np.int64(T[4 * size + at])
            c2 = ((plus + minus) >> 1) - c0 - c4
            odd = (plus - minus) >> 1
            c3 = (((two - c0 - 4 * c2 - 16 * c4) >> 1) - odd) * THIRD
            c1 = odd - c3
            x, y = mac(c2 >> 63, c2, c3, np.int64(1 << 21))
            x, y = mac(x, y, c4, np.int64(1 << 42))
            v = redc(x, y, p, pinv, h)
            x, y = mac(c0 >> 63, c0, c1, np.int64(1 << 21))
            x, y = mac(x, y, v, K)
            f[j] = centre(f[j] - redc(x, y, p, pinv, h), p, h)


@njit(**_INTEGER)
def combine_m(D, od, ldd, A, oa, lda, B, ob, ldb, sign, m, n, p, h):
    """D ← A + sign·B mod p on m×n blocks."""
    for i in range(m):
        d = D[od + i * ldd : od + i * ldd + n]
        a = A[oa + i * lda : oa + i * lda + n]
        b = B[ob + i * ldb : ob + i * ldb + n]
        for j in range(n):
            d[j] = centre(a[j] + sign * b[j], p, h)


@njit(**_INTEGER)
def inverse_m(a, p, pinv, h, r3):
    """Return the Montgomery form of 1/a for a Montgomery residue a; r3 = R³ mod p."""
    return product_m(balanced_inverse(a, p), r3, p, pinv, h)


@njit(**_INTEGER)
def panel_m(F, o, ld, m, c0, b, width, lcol, rows, state, P, L, swaps, cols, p, pinv, h, r3):
    """As ``panel1`` for Montgomery residues, b ≤ 32; P and L are m×b, row-major: rows meet in dot products."""
    zero = np.int64(0)
    for i in range(m):
        for j in range(b):
            P[i * b + j] = F[o + i * ld + c0 + j]
    u = np.empty(b, np.int64)
    r = 0
    for j in range(b):
        for i in range(m):
            x, y = zero, zero
            t = L[i * b : i * b + b]
            for q in range(min(i, r)):
                x, y = mac(x, y, t[q], u[q])
            v = centre(P[i * b + j] - redc(x, y, p, pinv, h), p, h)
            P[i * b + j] = v
            if i < r:
                u[i] = v
        if r == m:
            continue
        s = first_pivot(P[j : m * b : b], r, m, rows, state)
        if s < 0:
            continue
        swaps[r] = s
        if s != r:
            for k in range(r):
                v = L[r * b + k]
                L[r * b + k] = L[s * b + k]
                L[s * b + k] = v
            for k in range(j, b):
                v = P[r * b + k]
                P[r * b + k] = P[s * b + k]
                P[s * b + k] = v
            v = rows[r]
            rows[r] = rows[s]
            rows[s] = v
            state[0] = 0
        cols[r] = c0 + j
        g = inverse_m(P[r * b + j], p, pinv, h, r3)
        for i in range(r + 1, m):
            L[i * b + r] = product_m(P[i * b + j], g, p, pinv, h)
        r += 1
        if r == m and not state[1]:
            break
    for k in range(r):
        s = swaps[k]
        if s != k:
            for j in range(width):
                if j < lcol or j >= c0 + b:
                    v = F[o + k * ld + j]
                    F[o + k * ld + j] = F[o + s * ld + j]
                    F[o + s * ld + j] = v
    for i in range(m):
        for k in range(min(i, r)):
            F[o + i * ld + lcol + k] = L[i * b + k]
    for k in range(r):
        for j in range(cols[k] - c0, b):
            F[o + k * ld + c0 + j] = P[k * b + j]
    return r


@njit(**_INTEGER)
def triangle_m(F, o, ld, n, unit, upper, p, pinv, h, r1, r3, out):
    """As ``triangle`` for Montgomery residues and n ≤ 32; r1 = R mod p stands for 1."""
    for a in range(n):
        i = n - 1 - a if upper else a
        g = r1 if unit else inverse_m(F[o + i * ld + i], p, pinv, h, r3)
        lo, hi = (i + 1, n) if upper else (0, i)
        for j in range(n):
            x, y = np.int64(0), np.int64(0)
            for k in range(lo, hi):
                x, y = mac(x, y, F[o + i * ld + k], out[k * n + j])
            v = -redc(x, y, p, pinv, h)
            if j == i:
                v = centre(v + r1, p, h)
            out[i * n + j] = v if unit else product_m(v, g, p, pinv, h)
    for i in range(n):
        for j in range(n):
            x = -out[i * n + j]
            out[i * n + j] = centre(x + r1, p, h) if i == j else x
