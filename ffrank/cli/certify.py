"""``ffrank certify`` and ``ffrank verify``."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from ffrank.cli.architecture import Options, Spec, read_target
from ffrank.cli.show import progress, show_certificate
from ffrank.errors import InputError

__all__ = ["certify", "check_writable", "parse_size", "verify"]

_Switch = Parameter(negative="")


def certify(
    spec: Spec,
    /,
    *,
    prime: int = 2147483647,
    seed: int = 0,
    error: str = "2^-60",
    point: Literal["auto", "random"] = "auto",  # noqa: ARG001 - there are only random points so far
    threads: int | None = None,
    memory: str = "4GiB",
    output: Annotated[str | None, Parameter(name=["--output", "-o"])] = None,
    json: Annotated[bool, _Switch] = False,
    options: Options | None = None,
) -> int:
    """Certify the dimension of a network's function space.

    Parameters
    ----------
    prime
        Odd prime below 2^31, the field of the lower bound.
    seed
        Chooses the random point.
    error
        Largest probability of error of a Monte-Carlo upper bound, such as 2^-60; none for theorems only.
    point
        Where the lower bound is taken.
    threads
        Threads of the elimination; the result does not depend on it.
    memory
        Memory that may be used, such as 4GiB.
    output
        Write the certificate to this file.
    json
        Print the certificate instead of a table.
    """
    from ffrank.certificate.prover import certify as prove

    target = read_target(spec, options)
    if output is not None:
        check_writable(Path(output))
    with progress() as report:
        certificate = prove(
            target, prime=prime, seed=seed, error=error, threads=threads, memory=parse_size(memory), report=report
        )
    if output is not None:
        certificate.save(output)
    if json:
        sys.stdout.write(certificate.to_json())
    else:
        show_certificate(certificate, output)
    return 0


def verify(
    *certificates: str,
    full: Annotated[bool, _Switch] = False,
    json: Annotated[bool, _Switch] = False,
    max_work: int | None = None,
    matrix: str | None = None,
) -> int:
    """Check certificates, believing nothing that the prover wrote.

    Parameters
    ----------
    certificates
        Certificate files, .json or .json.gz.
    full
        Recompute the ranks of minors and Monte-Carlo trials too.
    json
        Print a JSON list with one object a file.
    max_work
        Multiplications that one certificate may take.
    matrix
        The matrix of a rank certificate, a file of any kind that ffrank rank reads.
    """
    from ffrank.certificate import checker
    from ffrank.certificate.verify import read_matrix_text

    if not certificates:
        raise InputError("expected at least one certificate file; see 'ffrank verify --help'")
    options = [*(["--full"] if full else []), *(["--json"] if json else [])]
    options += ["--max-work", str(max_work)] if max_work is not None else []
    if matrix is None:
        return checker.main([*options, "--", *certificates])
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:  # the checker reads nothing but text
        file.write(read_matrix_text(matrix))
        file.flush()
        return checker.main([*options, "--matrix", file.name, "--", *certificates])


def parse_size(size: str) -> int:
    """Bytes of a size such as 4GiB or 500MiB."""
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s*([kKmMgGtT]?)(?:i?[bB])?", size.strip())
    if match is None:
        raise InputError(f"--memory: expected a size such as 4GiB or 500MiB, got {size!r}")
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " "))


def check_writable(path: Path) -> None:
    """Say that a file cannot be written before the work is done, not after."""
    folder = Path(os.path.realpath(path)).parent
    if not path.name:
        raise InputError(f"expected a file to write to, got {str(path)!r}")
    if path.is_dir():
        raise InputError(f"{path}: cannot be written: it is a folder")
    if not folder.is_dir():
        raise InputError(f"{path}: cannot be written: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{path}: cannot be written: no permission to write in {folder}")
