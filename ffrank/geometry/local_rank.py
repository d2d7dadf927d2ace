"""The rank of a network's Jacobian at given weights, over Q and over all inputs.

At fixed rational weights the Jacobian is a matrix of polynomials in X. Its rank over Q, over enough inputs, is the
dimension of the space of functions that a first-order change of the weights can add: at most the generic dimension, and
less at special weights.
"""

from __future__ import annotations

import json
import operator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from ffrank import linalg
from ffrank.errors import InputError, ModulusError, ResourceError
from ffrank.geometry.composition import composition_bound
from ffrank.geometry.formulas import ambient_tokens
from ffrank.geometry.generators import generator_matrix
from ffrank.geometry.local_exact import FixedWeights, expand
from ffrank.geometry.symmetry import families
from ffrank.geometry.weights import read_target, read_weights, reduce_weights
from ffrank.primes import DEFAULT_PRIME, check_prime, residues, trial_prime
from ffrank.program.bounds import ambient_dimension, bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ffrank.models.spec import Spec

__all__ = ["LocalRank", "rank_at"]

_PATIENCE = 60  # stop when a generic new input would have added nothing with probability 2^-_PATIENCE by chance
_POOL = 50_697_473  # primes between 2^30 and 2^31, less the 64 that other trials may have taken
_MOST_TRIALS = 64
_OTHER_PRIMES = 8  # how often a larger rank at a trial's prime may start the lower bound anew
_BYTES_PER_ENTRY = 24
_POLYNOMIAL = frozenset(
    ("const", "add", "mul", "neg", "pow", "matmul", "sum", "reshape", "transpose", "slice", "broadcast", "concat")
)

Kind = Literal["parameters", "ambient", "composition", "symmetry", "generic symmetry", "relations", "monte-carlo"]
Status = Literal["exact", "exact-with-probability", "bounds"]
_WHY: dict[Kind, str] = {
    "parameters": "there are no more parameters",
    "ambient": "all functions of these degrees lie in a space of this dimension",
    "composition": "the generic dimension is at most this (composition bound), and no point exceeds it",
    "symmetry": "the symmetry generators at these weights lie in the kernel, and have the complementary rank",
    "generic symmetry": "the generic dimension is at most this (symmetries), and no point exceeds it",
    "relations": "rational kernel vectors, checked at inputs that determine every polynomial of these degrees",
    "monte-carlo": "ranks at fresh primes and inputs",
}


@dataclass(frozen=True)
class LocalRank:
    """The rank of the Jacobian at given weights, over all inputs.

    Attributes
    ----------
    rank
        A lower bound, proven: a minor of this size is not zero mod ``prime``, so not over Q.
    upper
        An upper bound, by ``kind``.
    status
        ``"exact"``: both agree and are theorems. ``"exact-with-probability"``: the upper bound fails with probability
        at most 2^error. ``"bounds"``: they differ.
    kind, error
        What gives the upper bound, and the exponent of 2 for kind ``"monte-carlo"``.
    parameters
        P.
    generic
        The generic dimension, if the caller gave it.
    prime, seed
        Where the minor was found, and what chose the inputs.
    inputs, rows, columns
        The minor: over this many inputs, row (i-1)·m + o for output entry o of input i.
    kernel
        For kind ``"relations"`` a basis over Q of the directions along which no output changes to first order.
    """

    rank: int
    upper: int
    status: Status
    kind: Kind
    error: int | None
    parameters: int
    generic: int | None
    prime: int
    seed: int
    inputs: int
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    kernel: tuple[tuple[Fraction, ...], ...] | None = None

    @property
    def value(self) -> int | None:
        """The rank if both bounds agree, else None."""
        return self.rank if self.rank == self.upper else None

    @property
    def drop(self) -> int | None:
        """Generic dimension less the rank here, if both are known."""
        return None if self.generic is None or self.value is None else self.generic - self.value

    @property
    def explanation(self) -> str:
        """What is known, and why, in a few sentences."""
        low = f"At least {self.rank}: a minor of this size is not zero mod {self.prime}, so not over Q."
        if self.status == "bounds":
            return (
                f"{low} At most {self.upper}: {_WHY[self.kind]}. Whether the rank is larger than {self.rank} is open."
            )
        chance = f"; wrong with probability at most 2^{self.error}" if self.error is not None else ""
        high = f"At most {self.upper}: {_WHY[self.kind]}{chance}."
        if self.drop is None:
            return f"{low} {high}"
        return f"{low} {high} The generic dimension is {self.generic}: a drop of {self.drop}."

    def to_json(self) -> str:
        """The result as JSON."""
        content: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.kernel is not None:
            content["kernel"] = [[str(x) for x in vector] for vector in self.kernel]
        content |= {"value": self.value, "drop": self.drop, "explanation": self.explanation}
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def rank_at(
    spec: Any,
    W: Any,
    *,
    prime: SupportsIndex | None = None,
    seed: SupportsIndex = 0,
    error: int | None = -60,
    generic: int | None = None,
    memory: int = 4 * 2**30,
) -> LocalRank:
    """Return the rank over Q of the Jacobian at the weights W, over all inputs.

    Parameters
    ----------
    spec : mapping, path, spec, or Program
        A polynomial network.
    W : mapping, or path
        Weights, as for ``read_weights``; floats are the dyadic rationals that they stand for.
    prime
        An odd prime below 2^31 for the lower bound; chosen if absent.
    seed
        Chooses inputs and trials, 0 ≤ seed < 2^64.
    error
        Exponent of 2 that a Monte-Carlo upper bound has to reach; it is used only where theorems leave a gap. None
        asks for theorems only.
    generic
        The generic dimension, if known, to report the drop.
    memory
        Bytes that may be used.

    Returns
    -------
    LocalRank
        ``rank`` is proven, and can only be too small. ``upper`` is proven unless the status is
        ``exact-with-probability``.

    Raises
    ------
    SpecError, ShapeError, InputError
        If the spec or the weights cannot be used.
    ModulusError
        If the given prime cannot be used, or divides a denominator.
    ResourceError
        If more than ``memory`` bytes would be needed.
    """
    program, architecture = read_target(spec)
    other = sorted({i.op for i in program.instructions} - _POLYNOMIAL)
    if other:
        raise InputError(f"expected a polynomial network, got one that uses {', '.join(other)}")
    number, exponent = _seed(seed), _exponent(error)
    given = None if prime is None else check_prime(prime, above=2)
    fixed = FixedWeights.of(program, read_weights(program, W))
    p = given or next(q for q in _primes(fixed, number) if fixed.denominator % q)
    if fixed.denominator % p == 0:
        raise ModulusError(f"the prime {p} divides a denominator of the weights; take another prime")
    upper, kind = _theorems(fixed, architecture, p, number)
    lower = _Lower.find(fixed, p, number, upper, memory)
    kernel: tuple[tuple[Fraction, ...], ...] | None = None
    reached: int | None = None
    if lower.rank < upper:
        expanded = expand(fixed)
        if expanded is not None:
            if expanded.rank > lower.rank:
                lower = _Lower.find(fixed, expanded.prime, number, expanded.rank, memory)
            upper, kind, kernel = expanded.rank, "relations", expanded.kernel
        elif exponent is not None:
            lower, reached = _trials(fixed, lower, exponent, memory, move=given is None)
            if reached is not None and lower.rank < upper:
                upper, kind = lower.rank, "monte-carlo"
    status: Status = "bounds" if lower.rank < upper else "exact-with-probability" if kind == "monte-carlo" else "exact"
    return LocalRank(
        lower.rank, upper, status, kind, reached if kind == "monte-carlo" else None, program.parameter_count, generic,
        lower.prime, number, lower.inputs, lower.rows, lower.columns, kernel,
    )  # fmt: skip


def _seed(seed: Any) -> int:
    try:
        number = -1 if isinstance(seed, bool) else operator.index(seed)
    except TypeError:
        number = -1
    if not 0 <= number < 2**64:
        raise InputError(f"seed: expected an integer from 0 to 2^64 - 1, got {seed!r}")
    return number


def _exponent(error: Any) -> int | None:
    if error is not None and (isinstance(error, bool) or not isinstance(error, int) or not -10_000 <= error <= -1):
        raise InputError(f"error: expected an exponent of 2 from -10000 to -1, or None, got {error!r}")
    return error


def _primes(fixed: FixedWeights, seed: int) -> list[int]:
    """The usual prime, then others; more than one is needed only where a denominator is divisible by it."""
    first = [DEFAULT_PRIME]
    if fixed.denominator % DEFAULT_PRIME == 0:
        for index in range(_MOST_TRIALS + fixed.denominator.bit_length() // 30):
            first.append(trial_prime(fixed.name, seed, index, frozenset(first)))
    return first


def _inputs(fixed: FixedWeights, p: int, seed: int, counters: range) -> NDArray[np.int64]:
    message = f"ffrank local point 1\n{fixed.name}\n{p}\n{seed}"
    n = fixed.program.input_count
    return np.array([residues(f"{message}\n{i}", p, n) for i in counters], np.int64).reshape(-1, n)


# --------------------------------------------------------------------------------------------------- lower bound


@dataclass(frozen=True)
class _Lower:
    """Pivots of the Jacobian mod a prime."""

    prime: int
    seed: int
    inputs: int
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.rows)

    @classmethod
    def find(cls, fixed: FixedWeights, p: int, seed: int, bound: int, memory: int) -> _Lower:
        """Take inputs until the rank is the bound, or q further inputs have not raised it, p^q ≥ 2^60."""
        program = fixed.program
        m, patience = program.output_count, -(-_PATIENCE // max(1, p.bit_length() - 1))
        kept, numbers = np.empty((0, program.parameter_count), np.int64), np.empty(0, np.int64)
        columns, scanned, batch = numbers, 0, max(1, -(-bound // m))
        while True:
            _check_memory((len(kept) + batch * m) * program.parameter_count, memory)
            fresh = fixed.jacobian(_inputs(fixed, p, seed, range(scanned + 1, scanned + batch + 1)), p)
            numbers = np.concatenate([numbers, np.arange(scanned * m, (scanned + batch) * m)])
            stacked, scanned = np.concatenate([kept, fresh]), scanned + batch
            found = linalg.rank_profile(stacked, p)
            kept, numbers, columns = stacked[found.rows], numbers[found.rows], found.cols
            inputs = int(numbers[-1]) // m + 1 if len(numbers) else 0
            if len(numbers) >= bound or scanned - inputs >= patience:
                return cls(p, seed, inputs, tuple(numbers.tolist()), tuple(columns.tolist()))
            batch = patience + min(scanned, -(-(bound - len(numbers)) // m))


def _check_memory(entries: int, memory: int) -> None:
    if entries * _BYTES_PER_ENTRY > memory:
        needed = entries * _BYTES_PER_ENTRY / 2**30
        raise ResourceError(
            f"this needs about {needed:,.1f} GiB of memory, which is over the limit of {memory / 2**30:,.1f} GiB"
        )


# --------------------------------------------------------------------------------------------------- upper bound


def _theorems(fixed: FixedWeights, spec: Spec | None, p: int, seed: int) -> tuple[int, Kind]:
    """The least bound that needs no luck, and where it comes from."""
    program, P = fixed.program, fixed.program.parameter_count
    found: list[tuple[int | None, Kind]] = [(P, "parameters"), (ambient_dimension(program), "ambient")]
    if spec is not None:
        found += [(ambient_tokens(spec.architecture()), "ambient"), (composition_bound(spec), "composition")]
        known = families(spec)
        points: tuple[tuple[NDArray[np.int64], Kind], ...] = (
            (reduce_weights(fixed.theta, p), "symmetry"),
            (residues(f"ffrank local generic 1\n{fixed.name}\n{p}\n{seed}", p, P), "generic symmetry"),
        )
        for theta, kind in points:
            T = generator_matrix(program, known, theta, p)
            found.append((P - (linalg.rank(T, p) if T.size else 0), kind))
    bounds = [(value, kind) for value, kind in found if value is not None]
    return min(bounds, key=lambda pair: pair[0])


def _trials(fixed: FixedWeights, lower: _Lower, error: int, memory: int, *, move: bool) -> tuple[_Lower, int | None]:
    """Fresh primes and inputs, none of which may give a larger rank; the exponent that is reached, or None.

    If ``move``, a larger rank starts the lower bound anew at the trial's prime.
    """
    for _ in range(_OTHER_PRIMES):
        better, reached = _series(fixed, lower, error, memory)
        if better is None or not move:
            return lower, reached
        again = _Lower.find(fixed, better, lower.seed, fixed.program.parameter_count, memory)
        if again.rank <= lower.rank:
            return lower, None
        lower = again
    return lower, None


def _series(fixed: FixedWeights, lower: _Lower, error: int, memory: int) -> tuple[int | None, int | None]:
    """One series of trials: a prime with a larger rank, or the exponent that is reached; None twice if hopeless.

    An (r+1)-minor of the integer Jacobian that is not zero is a polynomial in the inputs whose degree and norm are
    bounded; a trial misses it if its prime divides all coefficients, or the inputs hit a zero mod that prime. One
    input more than the lower bound took decides: generic inputs that add nothing once never add anything again.
    """
    r, program, goal = lower.rank, fixed.program, Fraction(1, 2**-error)
    norm_bits = (r + 1) * (bits(r + 1) + fixed.norm_bits)
    pool = max(1, _POOL - fixed.denominator.bit_length() // 30)  # primes that divide the denominator are left out
    miss = Fraction((r + 1) * fixed.high + 1, 2**30) + Fraction(norm_bits // 30, pool)
    if miss >= 1 or miss**_MOST_TRIALS > goal:
        return None, None
    _check_memory((lower.inputs + 1) * program.output_count * program.parameter_count, memory)
    chance, index, used = Fraction(1), 0, frozenset([lower.prime])
    while chance > goal:
        p = trial_prime(fixed.name, lower.seed, index, used)
        used |= {p}
        index += 1
        if fixed.denominator % p:
            inputs = _inputs(fixed, p, lower.seed, range(1, lower.inputs + 2))
            if linalg.rank(fixed.jacobian(inputs, p), p) > r:
                return p, None
            chance *= miss
    return None, -((chance.denominator // chance.numerator).bit_length() - 1)
