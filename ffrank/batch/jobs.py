"""Jobs: what one certificate of a batch is asked for, its name, and the list that a job file makes.

A job file is read to its end whatever is wrong with it. A line that holds no usable spec becomes a *fault* that
knows its line and its reason; the run records it as a failed job, and goes on with the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ffrank.batch.costs import estimate
from ffrank.batch.sources import Entry, Source, read_source
from ffrank.certificate.prover import parse_error
from ffrank.errors import InputError, SpecError
from ffrank.models.spec import parse_spec
from ffrank.primes import DEFAULT_PRIME, check_prime
from ffrank.program.ir import digest

__all__ = ["DEFAULT_ERROR", "Job", "JobList", "Method", "read_jobs"]

DEFAULT_ERROR = "2^-40"
_SHOWN_FAULTS = 1000


@dataclass(frozen=True)
class Method:
    """What all jobs of a batch share, and what their digests include beside the architecture.

    Attributes
    ----------
    prime, seed : int
    error : int or None
        The exponent of the error that a Monte-Carlo bound may have; None for theorems only.
    """

    prime: int = DEFAULT_PRIME
    seed: int = 0
    error: int | None = -40

    @classmethod
    def checked(cls, prime: int, seed: int, error: str | float | None) -> Method:
        """Validate the options of a batch.

        Raises
        ------
        ModulusError, InputError
            If one of them cannot be used.
        """
        p = check_prime(prime, above=2, below=2**31)
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64:
            raise InputError(f"seed: expected an integer from 0 to 2^64 - 1, got {seed!r}")
        return cls(p, seed, parse_error(error))

    def digest(self, what: Mapping[str, Any]) -> str:
        """The name of the job that asks this of ``what``."""
        return digest(
            {**what, "prime": self.prime, "seed": self.seed, "method": {"point": "random", "error": self.error}}
        )


@dataclass(frozen=True, slots=True)
class Job:
    """One certificate to make, or the reason why none can be made.

    Attributes
    ----------
    spec : object
        As given; a mapping unless there is a fault.
    digest : str
        Of the canonical full spec with prime, seed and method; of the spec as given if it is faulty.
    cost : float
        Estimated seconds of one core.
    parameters : int
        P; 0 if the spec is faulty.
    line : int
        Where it stands in the job file, from 1; for jobs given in Python its place among them.
    fault : str
        Why the spec cannot be used; empty if it can.
    """

    spec: Any
    digest: str
    cost: float
    parameters: int
    line: int
    fault: str = ""


@dataclass(frozen=True)
class JobList:
    """All jobs of a file, each once.

    Attributes
    ----------
    name : str
        The file, or ``jobs`` for jobs given in Python.
    jobs : tuple of Job
        Faulty ones among them.
    duplicates : int
        Entries left out because an earlier one asks for the same certificate.
    notes : tuple of str
        What a person should know of how the file was read.
    """

    name: str
    jobs: tuple[Job, ...]
    duplicates: int
    method: Method
    notes: tuple[str, ...] = field(default=())

    @property
    def faults(self) -> tuple[Job, ...]:
        """The jobs whose spec cannot be used, in the order of the file."""
        return tuple(job for job in self.jobs if job.fault)

    @property
    def cost(self) -> float:
        """Estimated seconds of one core for all of them."""
        return sum(job.cost for job in self.jobs)

    def fault_lines(self, most: int = _SHOWN_FAULTS) -> list[str]:
        """One line a fault: file, line number, reason; faults of one line that read alike are counted together."""
        grouped: dict[tuple[int, str], int] = {}
        for job in self.faults:
            key = (job.line, job.fault)
            grouped[key] = grouped.get(key, 0) + 1
        lines = [
            f"{self.name}:{line}: {fault}" + (f" ({count} combinations)" if count > 1 else "")
            for (line, fault), count in sorted(grouped.items())
        ]
        return lines if len(lines) <= most else [*lines[:most], f"and {len(lines) - most} faults more"]


def read_jobs(jobs: str | Path | Iterable[Any], method: Method | None = None) -> JobList:
    """Read and validate all jobs of a .toml, .jsonl or .csv file, or of an iterable of specs.

    Parameters
    ----------
    jobs : path, or iterable of mappings
        See ``ffrank/batch/README.md`` for the three kinds of files.
    method : Method, optional
        Prime, seed and error; the defaults if absent.

    Raises
    ------
    InputError
        If the file cannot be read, or has no entries, or none that can be used; the message then has all faults.
    """
    method = method or Method()
    if isinstance(jobs, str | Path):
        source = read_source(Path(jobs))
    else:
        source = Source("jobs", [Entry(i, spec) for i, spec in enumerate(jobs, 1)], ())
    if not source.entries:
        raise InputError(f"{source.name}: there is no job in it")
    found: dict[str, Job] = {}
    for entry in source.entries:
        job = _job(entry, method)
        found.setdefault(job.digest, job)
    jobs_found = tuple(found.values())
    listed = JobList(source.name, jobs_found, len(source.entries) - len(found), method, source.notes)
    if all(job.fault for job in jobs_found):
        raise InputError(f"no job can be used: {'; '.join(listed.fault_lines(20))}")
    return listed


def _job(entry: Entry, method: Method) -> Job:
    given = entry.spec
    if entry.fault:
        return Job(given, method.digest({"given": _plain(given)}), 0.0, 0, entry.line, entry.fault)
    try:
        spec = given if hasattr(given, "architecture") else parse_spec(given)
    except SpecError as e:
        fault = " ".join(str(e).split())
        return Job(_plain(given), method.digest({"given": _plain(given)}), 0.0, 0, entry.lines_of(fault), fault)
    architecture = spec.architecture()
    shown = dict(given) if isinstance(given, Mapping) else architecture
    cost = estimate(spec)
    return Job(shown, method.digest({"architecture": architecture}), cost, spec.parameter_count(), entry.line)


def _plain(value: Any) -> Any:
    """A value that JSON can hold."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value if value is None or isinstance(value, str | int | float | bool) else repr(value)
