"""Do two sets of weights give the same function? Decided over Q, for weights that are rational numbers.

"No" is always a theorem: an input at which an output entry differs. "Yes" is one where both weights are equal, where
all coefficients of the difference are covered, or where a symmetry carries one into the other; else trials mod
random primes at random inputs say so, with an error bound.
"""

from __future__ import annotations

import json
import operator
from dataclasses import dataclass
from fractions import Fraction
from math import comb, lcm
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from ffrank.errors import InputError
from ffrank.geometry.local_exact import _simplex
from ffrank.geometry.matrices import listed
from ffrank.geometry.quotients import Quotient, denominators, output_quotient
from ffrank.geometry.values import enclose, evaluate
from ffrank.geometry.weights import read_target, read_weights, reduce_weights, weights_dict
from ffrank.primes import residues, trial_prime
from ffrank.program.bounds import output_bounds
from ffrank.program.evaluate import Evaluator
from ffrank.program.ir import digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ffrank.models.spec import Spec
    from ffrank.program.ir import Program

    Residues = NDArray[np.int64]

__all__ = ["Difference", "SameFunction", "same_function"]

_POOL = 50_697_473  # primes between 2^30 and 2^31, less 64
_MOST_TRIALS = 64
_MOST_WORK = 10_000_000  # entries of all nodes at all points mod all primes
_SMALL_INPUTS = 12
_MOST_REDRAWS = 64
_PRECISIONS = (128, 512, 2048)

Kind = Literal["difference", "equal weights", "all coefficients", "symmetry", "trials", "open"]
_WHY: dict[Kind, str] = {
    "difference": "no: an output entry differs at the input given",
    "equal weights": "yes: the weights are equal",
    "all coefficients": "yes: the difference vanishes at inputs that determine all its coefficients, mod enough primes",
    "symmetry": "yes: a symmetry of the architecture carries one into the other",
    "trials": "yes, unless all trials missed a difference",
    "open": "open: no symmetry was found and no input shows a difference",
}


@dataclass(frozen=True)
class Difference:
    """An input at which two functions differ.

    Attributes
    ----------
    input
        The input by name, integers.
    output
        Position of the entry.
    first, second
        The values there, as intervals (low, high); both ends are equal where values are rational.
    """

    input: dict[str, NDArray[Any]]
    output: tuple[int, ...]
    first: tuple[Fraction, Fraction]
    second: tuple[Fraction, Fraction]


@dataclass(frozen=True)
class SameFunction:
    """Whether two sets of weights give the same function, and why.

    Attributes
    ----------
    same
        The answer; None if it is open (only with exponentials or square roots).
    kind
        What it rests on.
    error
        For kind ``"trials"``: "yes" is wrong with probability at most 2^error.
    degree, norm_bits
        Of the difference's numerator as a polynomial in the input with integer coefficients: bounds of its degree,
        and of log2 of the sum of their absolute values. None with exponentials or square roots.
    primes
        That were used.
    difference
        For the answer no.
    """

    same: bool | None
    kind: Kind
    error: int | None
    degree: int | None
    norm_bits: int | None
    primes: tuple[int, ...]
    difference: Difference | None

    def __bool__(self) -> bool:
        return self.same is True

    @property
    def explanation(self) -> str:
        """The answer in one sentence."""
        chance = f", with probability at most 2^{self.error}" if self.error is not None else ""
        return f"{_WHY[self.kind]}{chance}."

    def to_json(self) -> str:
        """The result as JSON."""
        content: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.difference is not None:
            found = self.difference
            content["difference"] = {
                "input": {name: listed(x) for name, x in found.input.items()},
                "output": list(found.output),
                "first": [str(x) for x in found.first],
                "second": [str(x) for x in found.second],
            }
        content["explanation"] = self.explanation
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def same_function(spec: Any, W1: Any, W2: Any, *, error: int = -60, seed: SupportsIndex = 0) -> SameFunction:
    """Decide whether the weights W1 and W2 give the same function.

    Parameters
    ----------
    spec : mapping, path, spec, or Program
    W1, W2 : mapping, or path
        Weights, as for ``read_weights``; floats are the dyadic rationals that they stand for.
    error
        Exponent of 2 that trials have to reach; they are used where covering all coefficients is too much work.
    seed
        Chooses inputs and primes, 0 ≤ seed < 2^64.

    Returns
    -------
    SameFunction
        True is a theorem unless ``kind`` is ``"trials"``; False always is one. With exponentials or square roots
        the answer can be open.

    Raises
    ------
    SpecError, ShapeError, InputError
        If the spec or the weights cannot be used, or no 64 trials reach the error.
    """
    program, architecture = read_target(spec)
    if isinstance(error, bool) or not isinstance(error, int) or not -10_000 <= error <= -1:
        raise InputError(f"error: expected an exponent of 2 from -10000 to -1, got {error!r}")
    pair = _Pair.of(program, read_weights(program, W1), read_weights(program, W2), operator.index(seed))
    if pair.first == pair.second:
        return SameFunction(True, "equal weights", None, None, None, (), None)
    if any(i.op in ("exp", "sqrt") for i in program.instructions):
        return _transcendental(pair, architecture)
    return _rational(pair, error)


@dataclass(frozen=True)
class _Pair:
    """Two sets of weights of one program, and what random numbers are drawn from."""

    program: Program
    first: list[Fraction]
    second: list[Fraction]
    denominator: int
    name: str

    @classmethod
    def of(cls, program: Program, first: list[Fraction], second: list[Fraction], seed: int) -> _Pair:
        L = lcm(*(x.denominator for x in (*first, *second)))
        weights = [[str(x) for x in theta] for theta in (first, second)]
        return cls(program, first, second, L, digest({"program": program.digest, "pair": weights, "seed": seed}))

    def primes(self) -> Iterator[int]:
        """Random primes between 2^30 and 2^31 that do not divide the denominators, all different."""
        used: frozenset[int] = frozenset()
        index = 0
        while True:
            p = trial_prime(self.name, 0, index, used)
            used, index = used | {p}, index + 1
            if self.denominator % p:
                yield p

    def small_inputs(self) -> list[list[int]]:
        """A few inputs that a person can read."""
        n, sizes = self.program.input_count, [1, 1, 1, 2, 2, 2, 5, 5, 5, 9, 9, 9][:_SMALL_INPUTS]
        drawn = [residues(f"ffrank small input 1\n{self.name}\n{i}", 2**31 - 1, n) for i in range(len(sizes))]
        return [[int(x) for x in v % (2 * size + 1) - size] for v, size in zip(drawn, sizes, strict=True)]

    def difference(self, inputs: Residues, p: int) -> tuple[Residues, NDArray[np.bool_]]:
        """f(θ_1, X) - f(θ_2, X) mod p, and for which inputs both are defined."""
        values, defined = [], np.ones(len(inputs), bool)
        for theta in (self.first, self.second):
            evaluator = Evaluator(self.program, p, reduce_weights(theta, p))
            defined &= evaluator.undefined(inputs % p, ())[0] < 0
            values.append(evaluator.values(inputs % p))
        return (values[0] - values[1]) % p, defined

    def witness(self, x: list[int]) -> SameFunction | None:
        """The answer no, if the functions differ at x over Q."""
        try:
            both = [evaluate(self.program, theta, x) for theta in (self.first, self.second)]
        except ZeroDivisionError:
            return None
        return self.no(x, *([(v, v) for v in side] for side in both))

    def no(
        self, x: list[int], first: list[tuple[Fraction, Fraction]], second: list[tuple[Fraction, Fraction]]
    ) -> SameFunction | None:
        """The answer no, if intervals of one entry are disjoint."""
        for at, (a, b) in enumerate(zip(first, second, strict=True)):
            if a[1] < b[0] or b[1] < a[0]:
                shape = self.program.shapes[self.program.output]
                where = tuple(int(i) for i in np.unravel_index(at, shape))
                return SameFunction(False, "difference", None, None, None, (), Difference(self.named(x), where, a, b))
        return None

    def named(self, x: list[int]) -> dict[str, NDArray[Any]]:
        """An input by name."""
        entries, at, out = np.array([*x, None], dtype=object)[:-1], 0, {}
        for name, shape in self.program.inputs:
            size = int(np.prod(shape))
            out[name] = entries[at : at + size].reshape(shape)
            at += size
        return out


# -------------------------------------------------------------------------------------------- rational maps


def _rational(pair: _Pair, error: int) -> SameFunction:
    bound = output_quotient(pair.program, pair.first, pair.denominator).minus(
        output_quotient(pair.program, pair.second, pair.denominator), pair.denominator
    )
    p = next(pair.primes())
    small = np.array(pair.small_inputs(), np.int64).reshape(-1, pair.program.input_count)
    differs, defined = pair.difference(small, p)
    for at in np.flatnonzero(differs.any(axis=1) & defined):
        found = pair.witness([int(x) for x in small[at]])
        if found is not None:
            return found
    covered = _cover(pair, bound)
    return _trials(pair, bound, error) if covered is None else covered


def _cover(pair: _Pair, bound: Quotient) -> SameFunction | None:
    """Test all inputs of a lattice that determines polynomials of this degree; None if that is too much work."""
    program, n, D = pair.program, pair.program.input_count, bound.degree
    if bound.has_denominator or min(n, D) > 64:
        return None
    limits = output_bounds(program)
    homogeneous = limits.low == limits.high == D and n > 0
    points = comb(n + D - 1, D) if homogeneous else comb(n + D, D)
    bits = bound.norm + D * D.bit_length() + 1
    if points * sum(program.sizes) * (bits // 30 + 2) > _MOST_WORK:
        return None
    grid = _simplex(n, D) if homogeneous else _simplex(n + 1, D)[:, :n]
    modulus, used = 1, []
    for p in pair.primes():
        differs, _ = pair.difference(grid, p)
        if differs.any():
            return pair.witness([int(x) for x in grid[int(differs.any(axis=1).argmax())]])
        used.append(p)
        modulus *= p
        if modulus.bit_length() > bits + 1:
            return SameFunction(True, "all coefficients", None, D, bound.norm, tuple(used), None)
    raise AssertionError


def _trials(pair: _Pair, bound: Quotient, error: int) -> SameFunction:
    """Random inputs mod random primes.

    A nonzero numerator vanishes at a trial if its prime divides all coefficients, or else with probability at most
    degree/p. Undefined inputs are drawn again, so that chance is divided by the one that an input is defined.
    """
    program, goal = pair.program, Fraction(1, 2**-error)
    pool = max(1, _POOL - pair.denominator.bit_length() // 30)
    miss = Fraction(bound.degree, 2**30) + Fraction(bound.norm // 30, pool)
    lost = Fraction(0)
    for theta in (pair.first, pair.second):
        for count, degree, norm in denominators(program, theta, pair.denominator):
            lost += count * (Fraction(degree, 2**30) + Fraction(norm // 30 + 1, pool))
    miss = miss / (1 - lost) if lost < 1 else Fraction(1)
    if miss >= 1 or miss**_MOST_TRIALS > goal:
        raise InputError(f"no {_MOST_TRIALS} trials reach an error of 2^{error}: degrees or weights are too large")
    chance, used, primes = Fraction(1), [], pair.primes()
    while chance > goal:
        p = next(primes)
        for again in range(_MOST_REDRAWS):
            x = residues(f"ffrank same 1\n{pair.name}\n{p}\n{again}", p, program.input_count)
            differs, defined = pair.difference(x[None], p)
            if defined[0]:
                break
        else:
            raise InputError("a denominator vanishes at every input that was tried: the function is not defined")
        if differs.any():
            found = pair.witness([int(v) for v in x])
            if found is not None:
                return found
        used.append(p)
        chance *= miss
    reached = -((chance.denominator // chance.numerator).bit_length() - 1)
    return SameFunction(True, "trials", reached, bound.degree, bound.norm, tuple(used), None)


# --------------------------------------------------------------------------------- exponentials and roots


def _transcendental(pair: _Pair, architecture: Spec | None) -> SameFunction:
    """A symmetry shows that functions are equal, disjoint intervals that they are not."""
    if architecture is not None and architecture.kind == "attention":
        from ffrank.geometry.transport import transport

        sides = [weights_dict(pair.program, theta) for theta in (pair.first, pair.second)]
        try:
            if transport(architecture, *sides).found:
                return SameFunction(True, "symmetry", None, None, None, (), None)
        except InputError:
            pass  # an architecture for which transport is not made
    for precision in _PRECISIONS:
        for x in pair.small_inputs():
            first, second = (enclose(pair.program, theta, x, precision) for theta in (pair.first, pair.second))
            if first is not None and second is not None:
                found = pair.no(x, first, second)
                if found is not None:
                    return found
    return SameFunction(None, "open", None, None, None, (), None)
