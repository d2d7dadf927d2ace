"""Testing that vector fields are symmetries: J·g = 0 as an identity, by random evaluation at random primes.

Formal exponentials are variables of degree 1 here. An identity between the formal functions is one between the real
ones, because exp(u) and its derivatives obey the same rules; so nothing about the independence of exponentials is
assumed. (A symmetry that holds only because exponentials are dependent is not recognised.)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod
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

__all__ = ["FieldShape", "IdentityTest", "check_identities", "plan_identity"]

_MOST_TRIALS = 256
_POOL = 50_697_537 - _MOST_TRIALS  # primes between 2^30 and 2^31, less those that other trials may have taken
_UNPROVEN_TRIALS = 4  # where no number of them gives a bound
_MOST_REJECTED = 64
_MOST_ROOTS = 24  # of one input, for which a bound is tried
_ROOM = 8  # times the expected number of draws until roots exist: that it does not suffice has probability e^-8


@dataclass(frozen=True)
class FieldShape:
    """What the bound needs to know of vector fields.

    Their entries are affine forms in θ, plus forms in 1/v_i and w_i/v_i for vectors v and w, with integer coefficients.

    Attributes
    ----------
    count : int
        How many fields.
    norm : int
        The absolute values of the coefficients of each entry add up to at most 2^norm.
    divisors : dict
        For each parameter the vectors by which parts of its entries are divided.
    """

    count: int
    norm: int
    divisors: dict[str, set[str]]


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
        most ``degree``, and the absolute values of its coefficients add up to at most 2^``norm_bits``. With square
        roots, of its norm.
    error : int or None
        Any of the fields with True is not a symmetry with probability at most 2^error. None: no bound is claimed,
        because the program has too many square roots.
    """

    holds: tuple[bool, ...]
    primes: tuple[int, ...]
    degree: int | None
    norm_bits: int | None
    error: int | None


def check_identities(
    program: Program,
    fields: Callable[[Residues, int], Residues],
    shape: FieldShape,
    name: object,
    *,
    seed: int,
    error: int,
) -> IdentityTest:
    """Evaluate J·g at a fresh prime, θ, input and formal exponentials in every trial.

    Without square roots, points where a denominator vanishes are rejected and drawn anew as a whole, so that what is
    left is uniform among the points where all values exist. With square roots see :func:`plan_identity`.

    Parameters
    ----------
    fields : callable
        Maps (θ, p) to the matrix (P, shape.count) of the fields mod p.
    shape : FieldShape
        What is known of these fields.
    name : object that JSON can hold
        Names the fields: the points depend on it.
    error : int
        The exponent to reach, negative.

    Raises
    ------
    ProgramError
        If 256 trials do not reach the error, or the program has no value at any point tried.

    Notes
    -----
    The bound is for fields that were found without regard to these points. The points come from SHAKE-256 streams that
    contain a digest of the fields, so searching with the same seed does not see them.
    """
    plan = plan_identity(program, shape, error)
    name = digest([program.digest, name])
    holds = np.ones(shape.count, bool)
    primes: list[int] = []
    for trial in range(1, plan.trials + 1):
        p = trial_prime(name, seed, trial, frozenset(primes))
        primes.append(p)
        theta, point = _defined_point(program, p, seed, f"identity {name} {trial}", shape, plan)
        J = Evaluator(program, p, theta).jacobian(point.inputs, point.draws)
        values = linalg.matmul(J, fields(theta, p), p)
        holds &= ~np.asarray(values).any(axis=0)
    return IdentityTest(tuple(bool(h) for h in holds), tuple(primes), plan.degree, plan.norm_bits, plan.error)


def _defined_point(
    program: Program, p: int, seed: int, label: str, shape: FieldShape, plan: IdentityPlan
) -> tuple[Residues, Points]:
    """A point where all values exist, after no more draws than the plan allows."""
    inverted = [program.offsets[v] + i for v in _vectors(shape) for i in range(dict(program.parameters)[v][0])]
    attempts = _ATTEMPTS if plan.room is not None else _MOST_REJECTED
    for again in range(attempts):
        where = f"{label} {again}"
        theta = draw_theta(program, p, seed, where)
        if not theta[inverted].all():
            continue
        try:
            point = draw_points(program, p, seed, theta, [where])
        except ProgramError:
            if again == attempts - 1:
                raise
            continue
        unproven = plan.error is None
        room = plan.room or {}
        if unproven or all(n < room.get(source, 1) for source, n in enumerate(point.redraws[0].tolist())):
            return theta, point
    raise ProgramError(f"expected points where all values exist, got none in {attempts} attempts mod {p}")


def _vectors(shape: FieldShape) -> list[str]:
    return sorted(set().union(*shape.divisors.values()))


# --------------------------------------------------------------------------------------------- the bound


@dataclass(frozen=True)
class IdentityPlan:
    """How many trials reach an error, and the degree and norm that say so.

    ``room`` says, for programs with square roots, how many values of the input (0) or of the formal exponentials
    (1, 2, …) may be tried in a trial.
    """

    trials: int
    degree: int | None
    norm_bits: int | None
    error: int | None
    room: dict[int, int] | None = None


_ATTEMPTS = 2  # at a trial's θ, with square roots


def plan_identity(program: Program, shape: FieldShape, error: int) -> IdentityPlan:
    """The least number of trials for some fields.

    A numerator F of J·g that is not 0 vanishes at a uniform point and a random prime with probability at most
    x = degree/2^30 + floor(norm_bits/30)/(number of primes). Without square roots a trial misses F with probability at
    most x/(1 - y), where y is the same bound for the product of all denominators: the points where these vanish are
    left out.

    With k square roots at an input, F lies in the ring with the roots s_i² = q_i adjoined. Suppose that this is a
    domain (no product of the q_i is a constant times a square). Then the norm of F, taken root by root as
    (a + b s)(a - b s) = a² - b² q, is a polynomial that is not 0, of 2^k times the degree and norm of F if s counts as
    half of q. It vanishes wherever F does for some choice of roots. A trial may try several points mod its prime until
    all roots exist. It misses F only if the norm vanishes mod the prime or at one of the points that it could try: so
    their number is a factor of the degree in x.
    """
    sizes = _root_sizes(program)
    k = sum(sizes.values())
    if k > _MOST_ROOTS:
        return IdentityPlan(_UNPROVEN_TRIALS, None, None, None)
    tangent, atoms = _tangent_bound(program, shape)
    degree, norm_bits = (0, 0) if tangent is None else (tangent.degree << k, tangent.norm << k)
    room = _room(sizes) if k else None
    if room is not None:
        miss = _chance(_ATTEMPTS * prod(room.values()) * degree, norm_bits)
    else:
        miss = _chance(degree, norm_bits)
        undefined = _chance(sum(a.degree for a in atoms.values()), sum(a.norm for a in atoms.values()))
        miss = miss / (1 - undefined) if undefined < 1 else Fraction(1)
    if miss < 1:
        for trials in range(1, _MOST_TRIALS + 1):
            total = max(shape.count, 1) * miss**trials
            # the largest e with total ≤ 2^-e; a numerator of degree 0 and norm 0 can be missed by no prime
            reached = (total.denominator // total.numerator).bit_length() - 1 if total else -error
            if reached >= -error:
                return IdentityPlan(trials, degree, norm_bits, -reached, room)
    if k:
        return IdentityPlan(_UNPROVEN_TRIALS, None, None, None)
    raise ProgramError(
        f"{_MOST_TRIALS} trials do not reach an error of 2^{error} for an identity of degree up to {degree}; "
        "the program divides too often"
    )


def _room(sizes: dict[int, int]) -> dict[int, int]:
    """How many values of each source a trial may try.

    Draws of exponentials turn to another input after 256 in vain, so long searches need room for inputs too.
    """
    room = {source: _ROOM << size for source, size in sizes.items()}
    turns = sum(n // 256 for source, n in room.items() if source)
    return room | {0: room.get(0, 1) * (1 + turns)}


def _root_sizes(program: Program) -> dict[int, int]:
    """How many square roots there are by the last source that they depend on: 0 the input, e the e-th exponential."""
    latest = [0] * program.first_instruction
    sizes: dict[int, int] = {}
    exponentials = 0
    for node, instruction in program.steps():
        source = max((latest[a] for a in instruction.operands), default=0)
        if instruction.op == "exp":
            exponentials += 1
            source = exponentials
        elif instruction.op == "sqrt":
            sizes[source] = sizes.get(source, 0) + program.sizes[node]
        latest.append(source)
    return sizes


def _chance(degree: int, norm_bits: int) -> Fraction:
    return Fraction(degree, 2**30) + Fraction(norm_bits // 30, _POOL)


@dataclass(frozen=True, slots=True)
class _Part:
    """Bounds for all entries of a node, written as numerator / Π atom^exponent; a root counts as half its radicand."""

    degree: int
    norm: int
    poles: Poles


_Pair = tuple[_Part, _Part | None]  # value and tangent; None is 0


def _tangent_bound(program: Program, shape: FieldShape) -> tuple[_Part | None, dict[int, _Part]]:
    """The bound of J·g, and of the atoms: for each reciprocal the product of all entries of its numerator.

    Vectors by which the fields are divided are atoms too, with negative numbers.
    """
    sizes = {name: prod(s) for name, s in program.parameters}
    number = {v: -1 - i for i, v in enumerate(_vectors(shape))}
    atoms = {number[v]: _Part(sizes[v], 0, {}) for v in number}
    leaves: list[_Pair] = []
    for name, _ in program.parameters:
        field = _Part(1, shape.norm, {})
        for v in sorted(shape.divisors.get(name, ())):
            field = _joined(field, _Part(sizes[v], shape.norm, {number[v]: 1}), atoms, 1)
        leaves.append((_Part(1, 0, {}), field))
    leaves += [(_Part(1, 0, {}), None)] * len(program.inputs)
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
        case "sqrt":  # ds = dq/(2s) = s·dq/(2q)
            value = _root(a, atoms)
            double = _Part(a.degree, a.norm + 1, a.poles)
            slope = _times(value, _reciprocal(double, node, program.sizes[node], atoms), 1)
            return value, _product(slope, da, 1)
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


def _root(q: _Part, atoms: dict[int, _Part]) -> _Part:
    """The s = s'/D for q = N/D, where s'² = N·D."""
    degree = q.degree + sum(e * atoms[n].degree for n, e in q.poles.items())
    norm = q.norm + sum(e * atoms[n].norm for n, e in q.poles.items())
    return _Part(-(-degree // 2), -(-norm // 2), q.poles)


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
