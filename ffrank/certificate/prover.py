"""From a spec or a program to its certificate."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from ffrank import __version__
from ffrank.certificate.certificate import Certificate
from ffrank.certificate.hypotheses import hypotheses, listed_redraws
from ffrank.certificate.lower import jacobian_rank
from ffrank.certificate.upper import monte_carlo, theorem_bound
from ffrank.certificate.witness import rank_witness
from ffrank.errors import InputError, ResourceError
from ffrank.primes import DEFAULT_PRIME, check_prime
from ffrank.program.ir import Program, digest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ffrank.geometry.symmetry import Family

__all__ = ["DEFAULT_MEMORY", "certify", "parse_error"]

SCHEMA = "ffrank-certificate/1"
DEFAULT_MEMORY = 4 * 2**30
# The elimination works in the array that the Jacobian was written to, with some scratch beside it.
_BYTES_PER_ENTRY = 10


@dataclass(frozen=True)
class _Target:
    """What is certified: a program, and what is known of it beyond its instructions."""

    program: Program
    heading: dict[str, Any]
    families: list[Family]
    closed: list[dict[str, Any]]
    expected: dict[str, Any] | None


def certify(
    target: Mapping[str, Any] | str | Path | Program | Any,
    *,
    prime: SupportsIndex = DEFAULT_PRIME,
    seed: int = 0,
    error: str | float | None = "2^-60",
    threads: int | None = None,
    memory: int = DEFAULT_MEMORY,
    report: Callable[[str], None] | None = None,
) -> Certificate:
    """Certify the dimension of the set of functions that a parametrized map can express.

    Parameters
    ----------
    target : mapping, path, or Program
        A spec (as a mapping, or a .toml or .json file), or a program made by ``ffrank.parametrization``.
    prime : int
        An odd prime below 2^31; the field in which the lower bound is computed.
    seed : int
        Chooses the point, 0 ≤ seed < 2^64.
    error : str or float or None
        The probability with which a Monte-Carlo upper bound may be wrong, such as ``"2^-60"`` or 1e-12; used only
        where no theorem gives an upper bound that equals the lower. None asks for theorems only.
    threads : int, optional
        Threads of the elimination; the result does not depend on it.
    memory : int
        Bytes that may be used.
    report : callable, optional
        Told in a few words what is being computed.

    Returns
    -------
    Certificate
        ``lower`` is proven. ``upper`` is proven unless the status is ``exact-with-probability``.

    Raises
    ------
    SpecError, ModulusError, InputError
        If the target, the prime, the seed or the error cannot be used.
    ResourceError
        If the computation would need more than ``memory`` bytes.
    """
    p = check_prime(prime, above=2, below=2**31)
    seed = _check_seed(seed)
    exponent = parse_error(error)
    if isinstance(memory, bool) or not isinstance(memory, int):
        raise InputError(f"memory: expected a number of bytes, got {memory!r}")
    known = _resolve(target, memory)
    program = known.program

    def allocate(rows: int, columns: int) -> NDArray[np.int64]:
        _check_memory(rows * columns * _BYTES_PER_ENTRY, memory)
        return np.empty((rows, columns), np.int64)

    if report is not None:
        report("upper bound by theorems")
    exponents = sum(program.sizes[n] for n, i in program.steps() if i.op == "exp")
    _check_memory(exponents * exponents * 4 * _BYTES_PER_ENTRY, memory)
    checked = hypotheses(program, p, seed)
    upper = theorem_bound(program, known.families, known.closed, p, seed, threads=threads, allocate=allocate)
    found = jacobian_rank(
        program,
        p,
        seed,
        bound=upper["value"],
        threads=threads,
        allocate=allocate,
        report=report,
    )
    claim = {"claim": "lower", "program": program.digest, "prime": p, "seed": seed, "inputs": found.inputs}
    redraws = listed_redraws(found.redraws)
    lower = {
        "inputs": found.inputs,
        "redraws": redraws,
        **rank_witness(claim, found.rows, found.columns, found.solve, redraws),
    }
    notes: tuple[str, ...] = ()
    if found.rank < upper["value"] and exponent is not None:
        tried = monte_carlo(
            program, upper, found.rank, found.inputs, p, seed, exponent,
            threads=threads, allocate=allocate, report=report,
        )  # fmt: skip
        upper, notes = tried.bound, tried.notes
    return Certificate(_assemble(known, p, seed, exponent, lower, upper, checked), notes)


def _assemble(
    known: _Target,
    p: int,
    seed: int,
    exponent: int | None,
    lower: dict[str, Any],
    upper: dict[str, Any],
    checked: dict[str, Any],
) -> dict[str, Any]:
    """The certificate's object, keys in the order in which a person reads them."""
    rank, bound = len(lower["rows"]), upper["value"]
    probable = upper["kind"] == "monte-carlo"
    value = rank if rank == bound else None
    content = {
        "schema": SCHEMA,
        **known.heading,
        "program_digest": known.program.digest,
        "prime": p,
        "seed": seed,
        "method": {"point": "random", "error": exponent},
        "parameters": known.program.parameter_count,
        "dimension": {
            "lower": rank,
            "upper": bound,
            "value": value,
            "status": "bounds" if value is None else "exact-with-probability" if probable else "exact",
            "error": upper["error"] if probable else None,
        },
        "expected": known.expected,
        "defect": None if known.expected is None or value is None else known.expected["value"] - value,
        "lower_bound": lower,
        "upper_bound": upper,
        "hypotheses": checked,
        "assumptions": _assumptions(upper, checked),
    }
    return content | {"digest": digest(content), "versions": {"ffrank": __version__}}


def _assumptions(upper: dict[str, Any], checked: dict[str, Any]) -> list[str]:
    found = ["The SHAKE-256 challenges behave as random: a false rank witness passes with probability at most 2^-120."]
    if upper["kind"] == "monte-carlo":
        found.append(
            "The trial primes and points drawn by SHAKE-256 behave as random: "
            f"the upper bound fails with probability at most 2^{upper['error']}."
        )
    if checked["exponents"] is not None:
        found.append(
            "J. Ax, On Schanuel's conjectures, Annals of Mathematics 93 (1971): exponentials of functions that are "
            "linearly independent over Q modulo constants are algebraically independent over the functions' field."
        )
    return found


def _resolve(target: Any, memory: int) -> _Target:
    if isinstance(target, Program):
        _check_memory(8 * sum(target.sizes), memory)
        return _Target(target, {"program": target.to_json()}, [], [], None)
    from ffrank.geometry.composition import composition_bound
    from ffrank.geometry.formulas import ambient_tokens, expected
    from ffrank.geometry.symmetry import families
    from ffrank.models import build_program
    from ffrank.models.spec import AttentionSpec, MlpSpec, load_spec, parse_spec

    if isinstance(target, AttentionSpec | MlpSpec):
        spec = target
    elif isinstance(target, str | Path):
        spec = load_spec(target)
    elif isinstance(target, Mapping):
        spec = parse_spec(target)
    else:
        raise InputError(
            f"expected a spec, a path or a program made by ffrank.parametrization, got {type(target).__name__}"
        )
    # One input's rows of the Jacobian, and one evaluation: the least that any certificate takes.
    least = spec.parameter_count() * min(spec.output_count, spec.parameter_count()) * _BYTES_PER_ENTRY
    _check_memory(least + 8 * spec.entry_count(), memory)
    architecture = spec.architecture()
    return _Target(
        build_program(spec),
        {"architecture": architecture},
        families(spec),
        [
            {"kind": "ambient", "value": ambient_tokens(architecture), "rule": "tokens"},
            {"kind": "composition", "value": composition_bound(spec)},
        ],
        expected(architecture),
    )


def _check_memory(needed: int, memory: int) -> None:
    if needed > memory:
        raise ResourceError(
            f"this needs about {_gib(needed)} of memory, which is over the limit of {_gib(memory)}; "
            "raise the limit (--memory), or take a smaller architecture"
        )


def _gib(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 else f"{size / 2**20:,.1f} MiB"


def _check_seed(seed: Any) -> int:
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if isinstance(seed, bool) or not 0 <= number < 2**64:
        raise InputError(f"seed: expected an integer from 0 to 2^64 - 1, got {seed!r}")
    return number


def parse_error(error: str | float | None) -> int | None:
    """The exponent e of an error written as ``2^e`` or as a number: the largest e with 2^e at most that number.

    Raises
    ------
    InputError
        If it is not a number between 0 and 1/2.
    """
    if error is None or error == "none":
        return None
    text = str(error).strip()
    power = re.fullmatch(r"2(?:\^|\*\*)-(\d{1,6})", text)
    if power:
        exponent = -int(power[1])
    else:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        exponent = math.frexp(number)[1] - 1 if 0 < number < 1 else 0
    if not -10_000 <= exponent <= -1:
        raise InputError(f"error: expected a probability of at most 1/2 such as 2^-60, or none, got {error!r}")
    return exponent
