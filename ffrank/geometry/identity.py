"""Testing that vector fields are symmetries: J·g = 0 as an identity, by random evaluation at random primes.

Formal exponentials are variables of degree 1 here. An identity between the formal functions is one between the real
ones, because exp(u) and its derivatives obey the same rules; so nothing about the independence of exponentials is
assumed. (A symmetry that holds only because exponentials are dependent is not recognised.)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ffrank import linalg
from ffrank.errors import ProgramError
from ffrank.primes import trial_prime
from ffrank.program.bounds import bits
from ffrank.program.evaluate import Evaluator
from ffrank.program.ir import digest, interpret
from ffrank.program.points import draw_points, draw_theta

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ffrank.program.ir import Instruction, Program
    from ffrank.program.points import Points

    Residues = NDArray[np.int64]
    Poles = dict[int, int]

__all__ = ["IdentityTest", "check_identities", "plan_identity"]

_POOL = 50_697_473  # primes between 2^30 and 2^31, less the 64 that other trials may have taken
_MOST_TRIALS = 64
_UNPROVEN_TRIALS = 4  # with square roots, where no number of them gives a bound
_MOST_REJECTED = 64


@dataclass(frozen=True)
class IdentityTest:
    """What trials say of vector fields g_1, …, g_s.

    Attributes
    ----------
    holds : tuple of bool
        False is certain: J·g was not 0 at some point. True holds up to ``error``.
    primes : tuple of int
        Of the trials.
    degree, norm_bits : int or None
        Of the numerator of any entry of any J·g, as a polynomial in θ, one input and its exponentials: its degree is at
        most ``degree``, and the absolute values of its coefficients add up to at most 2^``norm_bits``.
    error : int or None
        Any of the fields with True is not a symmetry with probability at most 2^error. None: no bound is claimed,
        because the program has square roots.
    """

    holds: tuple[bool, ...]
    primes: tuple[int, ...]
    degree: int | None
    norm_bits: int | None
    error: int | None


def check_identities(
    program: Program,
    fields: Callable[[Residues, int], Residues],
    count: int,
    norm: int,
    name: object,
    *,
    seed: int,
    error: int,
) -> IdentityTest:
    """Evaluate J·g at a fresh prime, θ, input and formal exponentials in every trial.

    Points where a denominator vanishes are rejected and drawn anew as a whole, so that what is left is uniform among
    the points where all values exist.

    Parameters
    ----------
    fields : callable
        Maps (θ, p) to the matrix (P, count) of the fields mod p; their entries are affine forms in θ.
    norm : int
        The absolute values of the integer coefficients of each of these forms add up to at most 2^norm.
    name : object that JSON can hold
        Names the fields: the points depend on it.
    error : int
        The exponent to reach, negative.

    Raises
    ------
    ProgramError
        If 64 trials do not reach the error, or the program has no value at any point tried.

    Notes
    -----
    The bound counts a field that was found without looking at these points, as SHAKE-256 streams of its own name are.
    """
    plan = plan_identity(program, count, norm, error)
    name = digest([program.digest, name])
    holds = np.ones(count, bool)
    primes: list[int] = []
    for trial in range(1, plan.trials + 1):
        p = trial_prime(name, seed, trial, frozenset(primes))
        primes.append(p)
        theta, point = _defined_point(program, p, seed, f"identity {name} {trial}")
        J = Evaluator(program, p, theta).jacobian(point.inputs, point.draws)
        values = linalg.matmul(J, fields(theta, p), p)
        holds &= ~np.asarray(values).any(axis=0)
    return IdentityTest(tuple(bool(h) for h in holds), tuple(primes), plan.degree, plan.norm_bits, plan.error)


def _defined_point(program: Program, p: int, seed: int, label: str) -> tuple[Residues, Points]:
    rooted = any(i.op == "sqrt" for i in program.instructions)
    for again in range(_MOST_REJECTED):
        where = f"{label} {again}"
        theta = draw_theta(program, p, seed, where)
        try:
            point = draw_points(program, p, seed, theta, [where])
        except ProgramError:
            if again == _MOST_REJECTED - 1:
                raise
            continue
        if rooted or not point.redraws.any():
            return theta, point
    raise ProgramError(f"expected points where all denominators exist, got none in {_MOST_REJECTED} draws mod {p}")


# --------------------------------------------------------------------------------------------- the bound


@dataclass(frozen=True)
class IdentityPlan:
    """How many trials reach an error, and the degree and norm that say so; None with square roots."""

    trials: int
    degree: int | None
    norm_bits: int | None
    error: int | None


def plan_identity(program: Program, count: int, norm: int, error: int) -> IdentityPlan:
    """The least number of trials for ``count`` fields whose entries are affine forms of norm at most 2^norm.

    A trial misses a nonzero numerator with probability at most x = degree/2^30 + floor(norm_bits/30)/(number of
    primes); given that no denominator vanishes, at most x/(1 - y) with the same bound y for their product.
    """
    if any(i.op == "sqrt" for i in program.instructions):
        return IdentityPlan(_UNPROVEN_TRIALS, None, None, None)
    tangent, atoms = _tangent_bound(program, norm)
    degree, norm_bits = (0, 0) if tangent is None else (tangent.degree, tangent.norm)
    missed = _chance(degree, norm_bits)
    undefined = _chance(sum(a.degree for a in atoms.values()), sum(a.norm for a in atoms.values()))
    if undefined < 1:
        miss = missed / (1 - undefined)
        for trials in range(1, _MOST_TRIALS + 1 if miss < 1 else 1):
            total = max(count, 1) * miss**trials
            # the largest e with total ≤ 2^-e; a numerator of degree 0 and norm 0 can be missed by no prime
            reached = (total.denominator // total.numerator).bit_length() - 1 if total else -error
            if reached >= -error:
                return IdentityPlan(trials, degree, norm_bits, -reached)
    raise ProgramError(
        f"{_MOST_TRIALS} trials do not reach an error of 2^{error} for an identity of degree up to {degree}; "
        "the program divides too often"
    )


def _chance(degree: int, norm_bits: int) -> Fraction:
    return Fraction(degree, 2**30) + Fraction(norm_bits // 30, _POOL)


@dataclass(frozen=True, slots=True)
class _Part:
    """Bounds for all entries of a node, written as numerator / Π atom^exponent."""

    degree: int
    norm: int
    poles: Poles


_Pair = tuple[_Part, _Part | None]  # value and tangent; None is 0


def _tangent_bound(program: Program, norm: int) -> tuple[_Part | None, dict[int, _Part]]:
    """The bound of J·g, and of the atoms: for each reciprocal the product of all entries of its numerator."""
    atoms: dict[int, _Part] = {}
    parameter: _Pair = (_Part(1, 0, {}), _Part(1, norm, {}))
    leaves: list[_Pair] = [parameter] * len(program.parameters) + [(_Part(1, 0, {}), None)] * len(program.inputs)
    node = program.first_instruction - 1

    def meaning(instruction: Instruction, operands: list[_Pair]) -> _Pair:
        nonlocal node
        node += 1
        return _compose(program, node, instruction, operands, atoms)

    return interpret(program, leaves, meaning)[program.output][1], atoms


def _compose(
    program: Program, node: int, instruction: Instruction, operands: list[_Pair], atoms: dict[int, _Part]
) -> _Pair:
    a, da = operands[0] if operands else (_Part(0, 0, {}), None)
    match instruction.op:
        case "const":
            return _Part(0, bits(max(1, *map(abs, instruction.attribute[1]))), {}), None
        case "add" | "concat":
            extra = int(instruction.op == "add")
            value, tangent = operands[0]
            for v, t in operands[1:]:
                value, tangent = _joined(value, v, atoms, extra), _sum(tangent, t, atoms, extra)
            return value, tangent
        case "mul" | "matmul":
            b, db = operands[1]
            terms = program.shapes[instruction.operands[0]][-1] if instruction.op == "matmul" else 1
            return _times(a, b, terms), _sum(_product(da, b, terms), _product(a, db, terms), atoms, 1)
        case "pow":
            k = instruction.attribute
            return _power(a, k), _product(_power(a, k - 1), da, k)
        case "sum":
            size = program.shapes[instruction.operands[0]][instruction.attribute]
            one = _Part(0, 0, {})
            return _Part(a.degree, a.norm + bits(size), a.poles), _product(one, da, size)
        case "exp":
            variable = _Part(1, 0, {})
            return variable, _product(variable, da, 1)
        case "recip":
            value = _reciprocal(a, node, program.sizes[node], atoms)
            return value, _product(_power(value, 2), da, 1)
        case _:
            return a, da


def _reciprocal(a: _Part, node: int, size: int, atoms: dict[int, _Part]) -> _Part:
    """1/(N_i/D) = D·Π_{j≠i} N_j / Π_j N_j."""
    atoms[node] = _Part(size * a.degree, size * a.norm, {})
    degree = (size - 1) * a.degree + sum(e * atoms[n].degree for n, e in a.poles.items())
    norm = (size - 1) * a.norm + sum(e * atoms[n].norm for n, e in a.poles.items())
    return _Part(degree, norm, {node: 1})


def _product(a: _Part | None, b: _Part | None, terms: int) -> _Part | None:
    """``terms`` products of an entry of a and one of b, added."""
    if a is None or b is None:
        return None
    return _times(a, b, terms)


def _times(a: _Part, b: _Part, terms: int) -> _Part:
    poles = {n: a.poles.get(n, 0) + b.poles.get(n, 0) for n in a.poles | b.poles}
    return _Part(a.degree + b.degree, a.norm + b.norm + bits(terms), poles)


def _power(a: _Part, k: int) -> _Part:
    return _Part(k * a.degree, k * a.norm, {n: k * e for n, e in a.poles.items()})


def _sum(a: _Part | None, b: _Part | None, atoms: dict[int, _Part], extra: int) -> _Part | None:
    if a is None or b is None:
        return a if b is None else b
    return _joined(a, b, atoms, extra)


def _joined(a: _Part, b: _Part, atoms: dict[int, _Part], extra: int) -> _Part:
    """Both over their least common denominator."""
    poles = {n: max(a.poles.get(n, 0), b.poles.get(n, 0)) for n in a.poles | b.poles}
    degrees, norms = [], []
    for part in (a, b):
        missing = {n: e - part.poles.get(n, 0) for n, e in poles.items()}
        degrees.append(part.degree + sum(e * atoms[n].degree for n, e in missing.items()))
        norms.append(part.norm + sum(e * atoms[n].norm for n, e in missing.items()))
    return _Part(max(degrees), max(norms) + extra, poles)
