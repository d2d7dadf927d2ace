"""The kernels in NumPy: the same functions on the same arrays, without the half second that loading numba takes.

:class:`ffrank.program.evaluate.Evaluator` uses them for small work in a process that has not loaded numba.
Exactness: the residues here are balanced, |x| ≤ p//2 < 2^30, so a product is below 2^60 and is reduced at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Residues = NDArray[np.int64]
    Steps = tuple[int, ...]

__all__ = [
    "add",
    "contract_fixed",
    "contract_varying",
    "inverse_all",
    "multiply_add",
    "power",
    "root_all",
    "terms",
    "to_rows",
]


def terms(_p: int) -> int:
    """Every product is reduced at once."""
    return 1


def _balanced(x: Residues, p: int) -> Residues:
    residue = x % p
    return residue - p * (residue > p // 2)


def add(out: Residues, x: Residues, p: int, _inverse: float) -> None:
    """``out += x``."""
    out[...] = _balanced(out + x, p)


def multiply_add(out: Residues, x: Residues, y: Residues, p: int, _inverse: float) -> None:
    """``out[e, o, b] += x[e, b]·y[e, o, b]``, where x may have one lane for all."""
    out[...] = _balanced(out + x[:, None] * y, p)


def power(x: Residues, k: int, p: int, _inverse: float) -> Residues:
    """Entrywise k-th power, k ≥ 0."""
    result, base = np.ones_like(x), x
    while k:
        if k & 1:
            result = _balanced(result * base, p)
        base = _balanced(base * base, p)
        k >>= 1
    return result


def _indices(sizes: Steps, steps: Steps) -> NDArray[np.intp]:
    """The linear index of every (g, i, j, s), as an array (g·i·j, s)."""
    grids = np.ogrid[tuple(slice(n) for n in sizes)]
    flat = np.zeros(sizes, np.intp)
    for grid, step in zip(grids, steps, strict=True):
        flat += grid * step
    return flat.reshape(-1, sizes[-1])


def contract_fixed(
    out: Residues, x: Residues, y: Residues, sizes: Steps, x_steps: Steps, y_steps: Steps, p: int, *_: float
) -> None:
    """``out[g, i, j, :] += Σ_s x[g, i, j, s]·y[g, i, j, s, :]`` where x is the same in all lanes."""
    for at_x, at_y in zip(_indices(sizes, x_steps).T, _indices(sizes, y_steps).T, strict=True):
        out[...] = _balanced(out + x[at_x, None] * y[at_y], p)


def contract_varying(
    out: Residues, x: Residues, y: Residues, sizes: Steps, x_steps: Steps, y_steps: Steps, p: int, *_: float
) -> None:
    """The same where x[·, b] varies with the input b, and out and y are (·, outputs, inputs)."""
    for at_x, at_y in zip(_indices(sizes, x_steps).T, _indices(sizes, y_steps).T, strict=True):
        out[...] = _balanced(out + x[at_x, None] * y[at_y], p)


def to_rows(
    rows: Residues, first_row: int, outputs: int, first_output: int, first_column: int, adjoint: Residues, p: int
) -> None:
    """Write an adjoint (e, o, b) into rows of the Jacobian, as residues 0 … p-1."""
    size, count, lanes = adjoint.shape
    block = rows[first_row : first_row + lanes * outputs].reshape(lanes, outputs, -1)
    block[:, first_output : first_output + count, first_column : first_column + size] = (adjoint % p).transpose(2, 1, 0)


def inverse_all(x: Residues, p: int, inverse: float) -> Residues:
    """Entrywise inverse by Fermat; 0 goes to 0."""
    return power(x, p - 2, p, inverse)


def root_all(x: Residues, p: int, _inverse: float, z: int) -> Residues:
    """Entrywise square root by Tonelli and Shanks, the one in 1 … (p-1)/2; 0 where there is none."""
    odd, twos = p - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    generator = pow(z, odd, p)
    return np.array([_root(int(v) % p, p, odd, twos, generator) for v in x], np.int64)


def _root(v: int, p: int, odd: int, twos: int, generator: int) -> int:
    if v == 0 or pow(v, (p - 1) // 2, p) != 1:
        return 0
    root, t, c, m = pow(v, (odd + 1) // 2, p), pow(v, odd, p), generator, twos
    while t != 1:
        k, square = 0, t
        while square != 1:
            square, k = square * square % p, k + 1
        b = pow(c, 1 << (m - k - 1), p)
        root, c = root * b % p, b * b % p
        t, m = t * c % p, k
    return min(root, p - root)
