"""``ffrank rank`` and ``ffrank singular``: exact answers about one matrix, and about one layer."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ffrank.cli.certify import check_writable
from ffrank.cli.show import show_pairs, show_table
from ffrank.errors import InputError

if TYPE_CHECKING:
    from ffrank.certificate.certificate import RankCertificate

__all__ = ["rank", "singular"]

_Switch = Parameter(negative="")


def rank(
    matrix: str,
    /,
    *,
    prime: int | None = None,
    profile: Annotated[bool, _Switch] = False,
    threads: int | None = None,
    output: Annotated[str | None, Parameter(name=["--output", "-o"])] = None,
    json: Annotated[bool, _Switch] = False,
) -> int:
    """Compute the exact rank of a matrix mod p, or over Q.

    Parameters
    ----------
    matrix
        A file: Matrix Market, SMS, .npy, .npz, or rows of numbers; gzipped or not; - for standard input.
    prime
        A prime below 2^61; the rank over Q, proven, without it.
    profile
        Print the row and column rank profiles too, counted from 0.
    threads
        The result does not depend on it.
    output
        Write a certificate of the rank mod p to this file.
    json
        Print JSON.
    """
    from ffrank import linalg
    from ffrank.linalg.files import read_matrix

    if output is not None:
        if prime is None:
            raise InputError("--output: a certificate needs --prime")
        check_writable(Path(output))
    A = read_matrix(matrix)
    m, n = A.shape
    facts: dict[str, Any] = {"shape": [m, n], "prime": prime}
    if prime is None:
        proven = linalg.rank_over_q(A, threads=threads)
        facts |= {"rank": proven.rank, "rows": proven.rows.tolist(), "columns": proven.cols.tolist()}
    elif output is None:
        found = linalg.rank_profile(A, prime, threads=threads)
        facts |= {"rank": found.rank, "rows": found.rows.tolist(), "columns": found.cols.tolist()}
    else:
        certificate = _certified(A, prime, threads, output)
        facts |= {key: certificate.content[key] for key in ("rank", "rows", "columns")}
    if json:
        kept = facts if profile else {k: facts[k] for k in ("shape", "prime", "rank")}
        sys.stdout.write(json_module.dumps(kept) + "\n")
    elif profile:
        listed = [(key, " ".join(map(str, facts[key]))) for key in ("rows", "columns")]
        show_pairs([("rank", str(facts["rank"])), *listed])
    else:
        sys.stdout.write(f"{facts['rank']}\n")
    return 0


def _certified(A: Any, prime: int, threads: int | None, output: str) -> RankCertificate:
    from ffrank.certificate.matrix import certify_rank

    certificate = certify_rank(A, prime, threads=threads)
    certificate.save(output)
    return certificate


def singular(
    *,
    d: int,
    d_out: int,
    a: int,
    tokens: int = 2,
    prime: int = 2147483647,
    seed: int = 0,
    draw: str | None = None,
    json: Annotated[bool, _Switch] = False,
) -> int:
    """Tabulate where the functions of one lightning layer form a singular set.

    Parameters
    ----------
    d
        Width before the layer.
    d_out
        Width behind it.
    a
        Attention dimension.
    tokens
        Number of tokens, at least 2.
    prime
        Odd prime below 2^31.
    seed
        Chooses the points.
    draw
        Draw the table to this .png, .svg or .pdf file; needs matplotlib.
    json
        Print JSON.
    """
    from ffrank.geometry.singular import strata

    if draw is not None:
        check_writable(Path(draw))
    table = strata(d, d_out, a, tokens=tokens, prime=prime, seed=seed)
    if draw is not None:
        table.draw(draw)
    if json:
        sys.stdout.write(table.to_json())
    else:
        show_table(table.headings, table.rows())
    return 0
