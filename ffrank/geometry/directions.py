"""Directions of a generic fiber that no symmetry rule explains, lifted to small rational numbers where that succeeds.

The kernel of the Jacobian is computed at a point with small integer weights and keys that begin with a unit matrix.
There its echelon form has small rational entries, which residues mod one or a few primes determine.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd, isqrt, lcm
from typing import TYPE_CHECKING, Any

import numpy as np

from ffrank import linalg
from ffrank.geometry.generators import generator_matrix
from ffrank.geometry.matrices import listed
from ffrank.geometry.tangents import independent_rows
from ffrank.geometry.weights import reduce_weights, weights_dict
from ffrank.primes import residues, trial_prime
from ffrank.program.points import draw_theta

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ffrank.geometry.symmetry import Family
    from ffrank.program.ir import Program

    Residues = NDArray[np.int64]

__all__ = ["Direction", "unexplained_directions"]

_MOST_PRIMES = 4
_SIZES = (2, 5, 50)  # small weights to try, in absolute value
# Generators are used up on these first, so that directions are zero there: keys, then values.
_ORDER = {"K": 0, "b_k": 0, "U": 0, "W1": 0, "V": 1, "O": 1}


@dataclass(frozen=True)
class Direction:
    """A vector of the kernel of the Jacobian, at a point of its own, outside the span of the generators.

    Attributes
    ----------
    point
        The weights, by name: small integers, or residues mod ``prime``.
    blocks
        The tangent vector by parameter, only nonzero blocks: integers without common divisor, or residues.
    prime
        None if the direction is lifted to Q; there it was tested again mod a prime that was not used to find it.
    """

    point: dict[str, NDArray[Any]]
    blocks: dict[str, NDArray[Any]]
    prime: int | None

    @property
    def lifted(self) -> bool:
        """Whether entries are rational numbers, and not residues."""
        return self.prime is None

    def text(self) -> str:
        """One line for each row of every nonzero block."""
        lines = []
        for name, block in self.blocks.items():
            rows = np.atleast_2d(block)
            width = max(len(str(x)) for x in rows.flat)
            shown = ["[" + " ".join(str(x).rjust(width) for x in row) + "]" for row in rows]
            head = f"d {name} = "
            lines += [(head if i == 0 else " " * len(head)) + row for i, row in enumerate(shown)]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The point and the direction as nested lists."""
        return {
            "prime": self.prime,
            "point": {name: listed(x) for name, x in self.point.items()},
            "direction": {name: listed(x) for name, x in self.blocks.items()},
        }


def unexplained_directions(
    program: Program, found: list[Family], p: int, seed: int, ranks: tuple[int, int], bound: int
) -> tuple[Direction, ...]:
    """A basis of the kernel of the Jacobian modulo the generators, at a point where both ranks are generic.

    Parameters
    ----------
    ranks
        Generic ranks of Jacobian and generators; points with other ranks are not used.
    bound
        An upper bound of the first.
    """
    count = program.parameter_count - sum(ranks)
    for size in _SIZES:
        for units in (("K", "U", "V"), ("K", "U"), ()):
            small = _small_point(program, seed, size, units)
            lifted = _lifted(program, found, small, p, seed, ranks, bound)
            if lifted is not None:
                point = weights_dict(program, small)
                return tuple(_direction(program, point, vector) for vector in lifted)
    theta = draw_theta(program, p, seed)
    basis, _ = _modulo_generators(program, found, theta, p, seed, bound)
    point = weights_dict(program, theta)
    return tuple(Direction(point, _nonzero(weights_dict(program, v)), p) for v in basis[:count])


def _direction(program: Program, point: dict[str, NDArray[Any]], vector: list[Fraction]) -> Direction:
    scale = lcm(*(x.denominator for x in vector))
    whole = [int(x * scale) for x in vector]
    common = gcd(*whole)
    entries = np.array([*(x // common for x in whole), None], dtype=object)[:-1]
    return Direction(point, _nonzero(weights_dict(program, entries)), None)


def _nonzero(blocks: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name: x for name, x in blocks.items() if x.any()}


def _small_point(program: Program, seed: int, size: int, units: tuple[str, ...]) -> list[Fraction]:
    """Integers from -size to size. Keys and inner values may begin with a unit matrix, values of head h with e_h."""
    message = f"ffrank small point 1\n{program.digest}\n{seed}\n{size}"
    drawn = residues(message, 2**31 - 1, program.parameter_count) % (2 * size + 1) - size
    for name, block in weights_dict(program, drawn).items():
        place, _, letter = name.rpartition(".")
        if letter not in units:
            continue
        if letter == "V":
            heads = [other for other in program.offsets if other.startswith(place.rstrip("0123456789"))]
            count = len({other.rpartition(".")[0] for other in heads})
            block.reshape(-1)[:count] = 0
            block.reshape(-1)[min(int(place.rpartition("head")[2]), block.size) - 1] = 1
        else:
            n = min(block.shape)
            block[:n, :n] = np.eye(n, dtype=np.int64)
    return [Fraction(int(x)) for x in drawn]


def _modulo_generators(
    program: Program, found: list[Family], theta: Residues, p: int, seed: int, bound: int
) -> tuple[Residues, tuple[int, int, tuple[int, ...]]]:
    """Rows of the echelon form of the kernel whose pivots no generator has; both ranks, and those pivots."""
    J = independent_rows(program, p, seed, theta, bound)
    T = generator_matrix(program, found, theta, p)
    names = [name for name, shape in program.parameters for _ in range(int(np.prod(shape)))]
    order = np.array(sorted(range(len(names)), key=lambda i: (_ORDER.get(names[i].rpartition(".")[2], 2), i)))
    kernel, pivots = linalg.rref(linalg.nullspace(J.matrix, p).T[:, order], p)
    used = linalg.rank_profile(T[order].T.copy(), p).cols if T.size else np.empty(0, np.int64)
    free = [row for row, column in enumerate(pivots) if column not in set(used.tolist())]
    basis = np.zeros((len(free), len(order)), np.int64)
    basis[:, order] = kernel[free]
    return basis, (J.rank, len(used), tuple(int(order[pivots[row]]) for row in free))


def _lifted(
    program: Program, found: list[Family], theta: list[Fraction], p: int, seed: int, ranks: tuple[int, int], bound: int
) -> list[list[Fraction]] | None:
    """The basis over Q at a small point; None if a rank is not generic there or the entries are not small."""
    total: NDArray[Any] | None = None
    modulus, kept, primes = 1, None, [p]
    while len(primes) <= _MOST_PRIMES:
        q = primes[-1]
        basis, found_here = _modulo_generators(program, found, reduce_weights(theta, q), q, seed, bound)
        if found_here[:2] != ranks or (kept is not None and found_here[2] != kept):
            return None
        kept = found_here[2]
        if total is None:
            total = basis.astype(object)
        else:
            step = (basis.astype(object) - total) * pow(modulus, -1, q) % q
            total = total + step * modulus
        modulus *= q
        primes.append(trial_prime(program.digest, seed, len(primes), frozenset(primes)))
        rows = [_rationals(row, modulus) for row in total]
        whole = [row for row in rows if row is not None]
        if len(whole) == len(rows) and _survives(program, whole, theta, primes[-1], seed):
            return whole
    return None


def _rationals(row: NDArray[Any], modulus: int) -> list[Fraction] | None:
    """The fractions with numerators and denominators below the root of modulus/2, if there are any."""
    bound, out = isqrt(modulus // 2), []
    for x in row:
        r0, r1, t0, t1 = modulus, int(x), 0, 1
        while r1 > bound:
            q = r0 // r1
            r0, r1, t0, t1 = r1, r0 - q * r1, t1, t0 - q * t1
        if abs(t1) > bound or gcd(r1, t1) != 1:
            return None
        out.append(Fraction(r1, t1))
    return out


def _survives(program: Program, rows: list[list[Fraction]], theta: list[Fraction], p: int, seed: int) -> bool:
    """Whether a Jacobian mod another prime kills the lifted vectors."""
    J = independent_rows(program, p, seed, reduce_weights(theta, p), program.parameter_count)
    if any(x.denominator % p == 0 for row in rows for x in row):
        return False
    columns = np.array([reduce_weights(row, p) for row in rows], np.int64).T
    return not linalg.matmul(J.matrix, columns, p).any()
