"""Compiled arithmetic on lanes of residues: one fixed set of kernels for every program.

A node with s entries is an array (s, lanes), an adjoint an array (s, lanes) whose lanes are all pairs
(output, input). Entries are *balanced* residues: |x| ≤ h := p//2 + p//1024 + 1.

Exactness, for odd p < 2^31. ``_reduce`` takes |x| ≤ limit := min(2^63 - 2^32, p·2^40) to a balanced residue:
the float64 product x·(1/p) is wrong by at most 3·2^-53·|x|/p ≤ 3·2^-13, so its rounding q satisfies
|x - q·p| ≤ p/2 + 3p·2^-13 ≤ h (for p < 1024 the left side is below p/2 + 1/2, hence at most p//2), and
|q·p| ≤ |x| + h < 2^63. A sum of K products and one residue stays within the limit if K·h² + h ≤ limit;
:func:`terms` gives that K, which is at least 7.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_OPTIONS = {"cache": True, "nogil": True, "boundscheck": False, "error_model": "numpy"}


def terms(p: int) -> int:
    """How many products of balanced residues can be added before a reduction is due."""
    h = p // 2 + p // 1024 + 1
    limit = min(2**63 - 2**32, p * 2**40)
    return (limit - h) // (h * h)


@njit(inline="always", **_OPTIONS)
def _reduce(x, p, inverse):
    return x - np.int64(np.rint(np.float64(x) * inverse)) * p


@njit(**_OPTIONS)
def reduce_all(x, p, inverse):
    """Balance every entry of a flat array in place; entries within the limit."""
    for i in range(x.size):
        x[i] = _reduce(x[i], p, inverse)


@njit(**_OPTIONS)
def add(out, x, p, inverse):
    """``out += x`` for flat arrays."""
    for i in range(out.size):
        out[i] = _reduce(out[i] + x[i], p, inverse)


@njit(**_OPTIONS)
def multiply_add(out, x, y, p, inverse):
    """``out[e, o, b] += x[e, b]·y[e, o, b]``; a node that has one lane for all inputs has x of shape (e, 1)."""
    size, outputs, lanes = out.shape
    for e in range(size):
        for o in range(outputs):
            if x.shape[1] == 1:
                factor = x[e, 0]
                for b in range(lanes):
                    out[e, o, b] = _reduce(out[e, o, b] + factor * y[e, o, b], p, inverse)
            else:
                for b in range(lanes):
                    out[e, o, b] = _reduce(out[e, o, b] + x[e, b] * y[e, o, b], p, inverse)


@njit(**_OPTIONS)
def power(x, k, p, inverse):
    """Entrywise k-th power of a flat array, k ≥ 0."""
    out = np.empty_like(x)
    for i in range(x.size):
        base, result, n = x[i], np.int64(1), k
        while n > 0:
            if n & 1:
                result = _reduce(result * base, p, inverse)
            base = _reduce(base * base, p, inverse)
            n >>= 1
        out[i] = result
    return out


@njit(**_OPTIONS)
def _axpy4(acc, x, y, at, step, s):
    """Acc += Σ x[k]·y[at + k·step, :] for the four k from s."""
    x0, x1, x2, x3 = x[s], x[s + 1], x[s + 2], x[s + 3]
    y0, y1 = y[at], y[at + step]
    y2, y3 = y[at + 2 * step], y[at + 3 * step]
    for b in range(acc.size):
        acc[b] += (x0 * y0[b] + x1 * y1[b]) + (x2 * y2[b] + x3 * y3[b])


@njit(**_OPTIONS)
def contract_fixed(out, x, y, sizes, x_steps, y_steps, p, inverse, k_max):
    """``out[g, i, j, :] += Σ_s x[g, i, j, s]·y[g, i, j, s, :]`` where x is the same in all lanes.

    Indices are linear: x is flat and read at g·x_steps[0] + i·x_steps[1] + j·x_steps[2] + s·x_steps[3], and so are
    the rows of y.
    """
    groups, rows, columns, inner = sizes
    line = np.empty(inner, np.int64)
    for g in range(groups):
        for i in range(rows):
            for j in range(columns):
                acc = out[(g * rows + i) * columns + j]
                x_at = g * x_steps[0] + i * x_steps[1] + j * x_steps[2]
                y_at = g * y_steps[0] + i * y_steps[1] + j * y_steps[2]
                for s in range(inner):
                    line[s] = x[x_at + s * x_steps[3]]
                step = y_steps[3]
                since = 0
                s = 0
                while s + 4 <= inner:
                    _axpy4(acc, line, y, y_at + s * step, step, s)
                    s += 4
                    since += 4
                    if since + 4 > k_max:
                        for b in range(acc.size):
                            acc[b] = _reduce(acc[b], p, inverse)
                        since = 0
                while s < inner:
                    factor, z = line[s], y[y_at + s * step]
                    for b in range(acc.size):
                        acc[b] += factor * z[b]
                    s += 1
                for b in range(acc.size):
                    acc[b] = _reduce(acc[b], p, inverse)


@njit(**_OPTIONS)
def contract_varying(out, x, y, sizes, x_steps, y_steps, p, inverse, k_max):
    """The same where x[·, b] varies with the input b, and out and y are (·, outputs, inputs)."""
    groups, rows, columns, inner = sizes
    outputs, lanes = out.shape[1], out.shape[2]
    for g in range(groups):
        for i in range(rows):
            for j in range(columns):
                at = (g * rows + i) * columns + j
                x_at = g * x_steps[0] + i * x_steps[1] + j * x_steps[2]
                y_at = g * y_steps[0] + i * y_steps[1] + j * y_steps[2]
                for o in range(outputs):
                    acc = out[at, o]
                    since = 0
                    s = 0
                    while s + 2 <= inner:
                        u0, u1 = x[x_at + s * x_steps[3]], x[x_at + (s + 1) * x_steps[3]]
                        v0, v1 = y[y_at + s * y_steps[3], o], y[y_at + (s + 1) * y_steps[3], o]
                        for b in range(lanes):
                            acc[b] += u0[b] * v0[b] + u1[b] * v1[b]
                        s += 2
                        since += 2
                        if since + 2 > k_max:
                            for b in range(lanes):
                                acc[b] = _reduce(acc[b], p, inverse)
                            since = 0
                    if s < inner:
                        u0, v0 = x[x_at + s * x_steps[3]], y[y_at + s * y_steps[3], o]
                        for b in range(lanes):
                            acc[b] += u0[b] * v0[b]
                    for b in range(lanes):
                        acc[b] = _reduce(acc[b], p, inverse)


@njit(**_OPTIONS)
def to_rows(rows, first_row, outputs, first_output, first_column, adjoint, p):
    """Write an adjoint (e, o, b) into rows of the Jacobian, as residues 0 … p-1."""
    size, count, lanes = adjoint.shape
    for b in range(lanes):
        for o in range(count):
            row = rows[first_row + b * outputs + first_output + o]
            for e in range(size):
                v = adjoint[e, o, b]
                if v < 0:
                    v += p
                if v >= p:
                    v -= p
                row[first_column + e] = v


@njit(**_OPTIONS)
def _power_of(x, k, p, inverse):
    result = np.int64(1)
    while k > 0:
        if k & 1:
            result = _reduce(result * x, p, inverse)
        x = _reduce(x * x, p, inverse)
        k >>= 1
    return result


@njit(**_OPTIONS)
def inverse_all(x, p, inverse):
    """Entrywise inverse of a flat array by Fermat; 0 goes to 0."""
    out = np.empty_like(x)
    for i in range(x.size):
        out[i] = _power_of(x[i], p - 2, p, inverse)
    return out


@njit(**_OPTIONS)
def root_all(x, p, inverse, z):
    """Entrywise square root of a flat array by Tonelli and Shanks, the one in 1 … (p-1)/2; 0 where there is none.

    ``z`` is a non-residue mod p.
    """
    odd, twos = p - 1, 0
    while odd & 1 == 0:
        odd >>= 1
        twos += 1
    generator = _power_of(z, odd, p, inverse)
    out = np.zeros_like(x)
    for i in range(x.size):
        root = _power_of(x[i], (odd + 1) >> 1, p, inverse)
        t = _power_of(x[i], odd, p, inverse)
        c, m = generator, twos
        while (t - 1) % p != 0 and m > 0 and t % p != 0:
            k, power = 0, t
            while (power - 1) % p != 0 and k < m:
                power = _reduce(power * power, p, inverse)
                k += 1
            if k == m:
                break
            b = c
            for _ in range(m - k - 1):
                b = _reduce(b * b, p, inverse)
            root, c = _reduce(root * b, p, inverse), _reduce(b * b, p, inverse)
            t, m = _reduce(t * c, p, inverse), k
        if t % p != 0 and (root * root - x[i]) % p == 0:
            root %= p
            out[i] = min(root, p - root)
    return out
