"""``ffrank rank``, ``ffrank fibers`` and ``ffrank singular``: exact answers about a matrix, a network, a layer."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ffrank.cli.architecture import Options, Spec, read_target
from ffrank.cli.certify import check_writable
from ffrank.cli.show import show_pairs, show_table
from ffrank.errors import ShapeError

if TYPE_CHECKING:
    from ffrank.geometry.fibers import Fibers

__all__ = ["fibers", "rank", "singular"]

STANDARD_INPUT = "<standard input>"
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
        Write a certificate of the rank to this file.
    json
        Print JSON.
    """
    from ffrank.linalg import rank_over_q, rank_profile
    from ffrank.linalg.files import read_matrix

    if output is not None:
        check_writable(Path(output))
    A = read_matrix("-" if matrix == STANDARD_INPUT else matrix)
    if A.ndim != 2:
        raise ShapeError(f"{matrix}: expected a matrix, got an array with {A.ndim} axes")
    m, n = A.shape
    facts: dict[str, Any] = {"shape": [m, n], "prime": prime}
    if output is not None:
        from ffrank.certificate.matrix import certify_rank

        certificate = certify_rank(A, prime, threads=threads)
        certificate.save(output)
        facts |= {key: certificate.content[key] for key in ("rank", "rows", "columns")}
    else:
        found = rank_over_q(A, threads=threads) if prime is None else rank_profile(A, prime, threads=threads)
        facts |= {"rank": found.rank, "rows": found.rows.tolist(), "columns": found.cols.tolist()}
    if json:
        kept = facts if profile else {k: facts[k] for k in ("shape", "prime", "rank")}
        sys.stdout.write(json_module.dumps(kept) + "\n")
    elif profile:
        listed = [(key, " ".join(map(str, facts[key]))) for key in ("rows", "columns")]
        show_pairs([("rank", str(facts["rank"])), *listed])
    else:
        sys.stdout.write(f"{facts['rank']}\n")
    if output is not None and not json:
        source = "FILE" if matrix in ("-", STANDARD_INPUT) else matrix
        sys.stdout.write(f"certificate {output}; check it with: ffrank verify {output} --matrix {source}\n")
    return 0


def fibers(
    spec: Spec,
    /,
    *,
    prime: int = 2147483647,
    seed: int = 0,
    without: Annotated[list[str] | None, Parameter(negative="")] = None,
    proof: Annotated[bool, _Switch] = False,
    latex: Annotated[bool, _Switch] = False,
    json: Annotated[bool, _Switch] = False,
    options: Options | None = None,
) -> int:
    """Compare the generic fiber of a network with the orbits of its known symmetries.

    Parameters
    ----------
    prime
        Odd prime below 2^31.
    seed
        Chooses the point.
    without
        A rule to leave out, to see which directions it explains.
    proof
        Print the proofs of the rules for all sizes.
    latex
        Print them as LaTeX.
    json
        Print JSON.
    """
    from ffrank.geometry.fibers import fiber_proofs
    from ffrank.geometry.fibers import fibers as compare

    target = read_target(spec, options)
    if proof or latex:
        proofs = fiber_proofs(target)
        sys.stdout.write("\n\n".join(p.latex() if latex else p.text() for p in proofs) + "\n")
        return 0
    found = compare(target, prime=prime, seed=seed, without=without or ())
    if json:
        sys.stdout.write(found.to_json())
    else:
        show_table(found.headings, found.rows())
        show_pairs(_fiber_facts(found))
        for number, direction in enumerate(found.unexplained, 1):
            sys.stdout.write(f"\nunexplained direction {number}:\n{direction.text()}\n")
    return 0


def _fiber_facts(found: Fibers) -> list[tuple[str, str]]:
    agree = (
        "the generic fiber is a finite union of orbits, up to a smaller dimension" if found.explained else "they differ"
    )
    return [
        ("parameters", str(found.parameters)),
        (
            "dimension",
            f"at least {found.dimension}, by the rank at {found.inputs} input{'s' if found.inputs != 1 else ''}",
        ),
        ("fiber", str(found.fiber)),
        ("orbit", f"{found.orbit}: {agree}"),
    ]


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
        reasons = list(dict.fromkeys(row[-1] for row in table.rows()))
        letters = {reason: chr(ord("a") + i) for i, reason in enumerate(reasons)}
        show_table(table.headings, [(*row[:-1], letters[row[-1]]) for row in table.rows()])
        sys.stdout.write("".join(f"({letters[r]}) {r}\n" for r in reasons))
        sys.stdout.write(_LEGEND)
    return 0


_LEGEND = """differential: rank of the differential of (A, V) at the point; preimages: up to rescaling;
span: of the images at all preimages; tangent: independent tangent directions that are known;
boundary: of the set of real functions
"""
