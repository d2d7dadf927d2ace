"""The Jacobian at fixed rational weights as a matrix of polynomials in X with integer coefficients.

Write θ = n/L with integers n and one denominator L. If f has degree at most e in θ, then L^(e-1)·∂f/∂θ is the
derivative by n of L^e·f, a polynomial in n, L and X with integer coefficients. The factor changes neither rank nor
kernel.
All bounds err upwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb, lcm
from typing import TYPE_CHECKING, Any

import numpy as np

from ffrank import linalg
from ffrank.geometry.weights import reduce_weights
from ffrank.linalg import rank_over_q
from ffrank.primes import trial_prime
from ffrank.program.bounds import bits, output_bounds
from ffrank.program.evaluate import Evaluator
from ffrank.program.ir import digest, interpret

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ffrank.program.ir import Instruction, Program

__all__ = ["Expansion", "FixedWeights", "expand"]

_MOST_WORK = 100_000_000  # residues of the expanded Jacobian, over all primes: a few seconds
_MOST_ENTRIES = 10_000_000  # of it mod one prime
_MOST_LIFTING = 20_000_000  # r²·(P - r), the cost of one step of lifting the kernel to Q
_ATTEMPTS = 3


@dataclass(frozen=True)
class FixedWeights:
    """A polynomial program at rational weights.

    Attributes
    ----------
    program, theta
        The map and its P weights.
    name
        Digest of both, from which primes and inputs are drawn.
    denominator
        L, the least common denominator.
    degree
        e, a bound of the degree in θ.
    low, high
        Bounds of the degrees in X of all monomials.
    norm_bits
        The absolute coefficients of an entry of the integer Jacobian add up to at most 2^norm_bits.
    """

    program: Program
    theta: tuple[Fraction, ...]
    name: str
    denominator: int
    degree: int
    low: int
    high: int
    norm_bits: int

    @classmethod
    def of(cls, program: Program, theta: Sequence[Fraction]) -> FixedWeights:
        """Compute the bounds."""
        L = lcm(*(x.denominator for x in theta))
        largest = max([L, *(abs(x.numerator) * (L // x.denominator) for x in theta)])
        bounds, e = output_bounds(program), _degree(program)
        norm = bounds.norm + bits(max(e, 1)) + max(e - 1, 0) * bits(largest)
        name = digest({"program": program.digest, "weights": [str(x) for x in theta]})
        return cls(program, tuple(theta), name, L, e, bounds.low, bounds.high, norm)

    def jacobian(self, inputs: NDArray[np.int64], p: int) -> NDArray[np.int64]:
        """∂f/∂θ mod p at integer inputs, of shape (N·m, P); p must not divide L."""
        return Evaluator(self.program, p, reduce_weights(self.theta, p)).jacobian(inputs % p)


def _degree(program: Program) -> int:
    def meaning(instruction: Instruction, degrees: list[int]) -> int:
        match instruction.op:
            case "mul" | "matmul":
                return sum(degrees)
            case "pow":
                return degrees[0] * int(instruction.attribute)
            case _:
                return max(degrees, default=0)

    leaves = [1] * len(program.parameters) + [0] * len(program.inputs)
    return interpret(program, leaves, meaning)[program.output]


@dataclass(frozen=True)
class Expansion:
    """The rank over Q over all inputs, with what proves it from both sides.

    Attributes
    ----------
    rank
        The rank.
    prime
        Modulo this prime a minor of that size is not zero.
    kernel
        P - rank independent vectors over Q that the Jacobian kills for all X.
    """

    rank: int
    prime: int
    kernel: tuple[tuple[Fraction, ...], ...]


def expand(fixed: FixedWeights) -> Expansion | None:
    """Prove the rank over Q of the Jacobian over all inputs, unless that is too much work.

    Integer inputs are taken that determine every polynomial of the program's degrees in X: the points of a simplex of
    the integer lattice. The pivot rows mod one prime are computed over Z, by Chinese remainders beyond the bound of
    their entries; they give kernel vectors over Q. These are checked at all inputs mod so many primes that only zero is
    left.

    Returns
    -------
    Expansion or None
        A theorem; None if it would take too much work.
    """
    program, n, D = fixed.program, fixed.program.input_count, fixed.high
    homogeneous = fixed.low == D and n > 0
    if min(n, D) > 64:
        return None
    entries = comb(n + D - 1, D) if homogeneous else comb(n + D, D)
    entries *= program.output_count * program.parameter_count
    entry_bits = fixed.norm_bits + D * bits(max(D, 1))
    if entries > _MOST_ENTRIES or (entry_bits // 30 + 2) * entries > _MOST_WORK:
        return None
    points = _simplex(n, D) if homogeneous else _simplex(n + 1, D)[:, :n]
    primes = _Primes(fixed)
    for attempt in range(_ATTEMPTS):
        p = primes[attempt]
        found = linalg.rank_profile(fixed.jacobian(points, p), p)
        if found.rank**2 * (program.parameter_count - found.rank) > _MOST_LIFTING:
            return None
        minor = _pivot_rows(fixed, points, found.rows, entry_bits, primes)
        vectors = _kernel(minor, program.parameter_count)
        scaled = [[int(x * lcm(*(y.denominator for y in vector))) for x in vector] for vector in vectors]
        largest = max((abs(x) for vector in scaled for x in vector), default=0)
        needed = entry_bits + bits(program.parameter_count) + bits(largest)
        if (needed // 30 + 1) * entries > _MOST_WORK:
            return None
        if _kills(fixed, points, scaled, needed, primes):
            return Expansion(found.rank, p, vectors)
    return None


class _Primes:
    """Different primes between 2^30 and 2^31 that do not divide the denominator."""

    def __init__(self, fixed: FixedWeights) -> None:
        self._fixed = fixed
        self._found: list[int] = []
        self._refused: frozenset[int] = frozenset()
        self._index = 0

    def __getitem__(self, at: int) -> int:
        while len(self._found) <= at:
            p = trial_prime(self._fixed.name, 0, self._index, self._refused | frozenset(self._found))
            self._index += 1
            if self._fixed.denominator % p:
                self._found.append(p)
            else:
                self._refused |= {p}
        return self._found[at]


def _pivot_rows(
    fixed: FixedWeights, points: NDArray[np.int64], rows: NDArray[np.int64], entry_bits: int, primes: _Primes
) -> NDArray[Any]:
    """Some rows of the integer Jacobian, whose entries are at most 2^entry_bits in absolute value."""
    m = fixed.program.output_count
    needed, place = np.unique(rows // m, return_inverse=True)
    J: NDArray[Any] = np.zeros((len(rows), fixed.program.parameter_count), dtype=object)
    modulus, at = 1, 0
    while modulus.bit_length() <= entry_bits + 2:
        p = primes[at]
        at += 1
        scale = pow(fixed.denominator, max(fixed.degree - 1, 0), p)
        part = fixed.jacobian(points[needed], p)[place * m + rows % m] * scale % p
        step = (part - (J % p).astype(np.int64)) * pow(modulus, -1, p) % p
        J = J + step.astype(object) * modulus
        modulus *= p
    return np.where(modulus < 2 * J, J - modulus, J)


def _kernel(rows: NDArray[Any], P: int) -> tuple[tuple[Fraction, ...], ...]:
    """The kernel over Q of independent rows."""
    if not len(rows):
        return tuple(tuple(Fraction(i == j) for i in range(P)) for j in range(P))
    tall = np.concatenate([rows] * -(-P // len(rows)))  # with no more columns than rows, relations are between columns
    found = rank_over_q(tall)
    others = np.setdiff1d(np.arange(P), found.cols)
    vectors = []
    for j, free in enumerate(others):
        vector = [Fraction(0)] * P
        vector[free] = Fraction(1)
        for i, column in enumerate(found.cols):
            vector[column] = -Fraction(int(found.numerators[i, j]), int(found.denominators[j]))
        vectors.append(tuple(vector))
    return tuple(vectors)


def _kills(
    fixed: FixedWeights, points: NDArray[np.int64], vectors: list[list[int]], needed: int, primes: _Primes
) -> bool:
    """Whether the Jacobian at the points kills integer vectors, if no product exceeds 2^needed in absolute value."""
    modulus, at = 1, 0
    while vectors and modulus.bit_length() <= needed + 1:
        p = primes[at]
        at += 1
        columns = np.array([[x % p for x in vector] for vector in vectors], np.int64).T
        if linalg.matmul(fixed.jacobian(points, p), columns, p).any():
            return False
        modulus *= p
    return True


def _simplex(n: int, total: int) -> NDArray[np.int64]:
    """All points of N^n, n ≥ 1, with coordinates that add up to ``total``.

    They determine a form of this degree: on them it is a polynomial of at most this degree in the first n - 1
    coordinates, at the principal lattice of a simplex.
    """
    bars = np.array(list(combinations(range(total + n - 1), n - 1)), np.int64).reshape(
        comb(total + n - 1, total), n - 1
    )
    ends = np.pad(bars, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, total + n - 1)))
    return np.diff(ends, axis=1) - 1
