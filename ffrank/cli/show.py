"""Tables for people: aligned and coloured on a terminal, plain text elsewhere."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ffrank.certificate.certificate import Certificate

__all__ = ["progress", "show_certificate", "show_pairs", "show_table"]


@contextmanager
def progress() -> Iterator[Callable[[str], None] | None]:
    """A line that says what is being computed, on a terminal only."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield status.update


def show_certificate(certificate: Certificate, path: str | None) -> None:
    """The two bounds and what they rest on."""
    lines = _lines(certificate)
    if path is not None:
        lines.append(("certificate", f"{path}; check it with: ffrank verify {path}"))
    lines += [("note", note) for note in certificate.notes]
    show_pairs(lines)


def show_pairs(lines: Sequence[tuple[str, str]]) -> None:
    """Names and what belongs to them, one pair a line."""
    if not sys.stdout.isatty():
        sys.stdout.write("".join(f"{name:<13}  {text}\n" for name, text in lines))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in lines:
        table.add_row(name, text)
    Console(highlight=False, markup=False, emoji=False).print(table)


def show_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns under headings; separated by tabs where no person reads."""
    if not sys.stdout.isatty():
        sys.stdout.write("".join("\t".join(row) + "\n" for row in [headings, *rows]))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, markup=False, emoji=False).print(table)


def _lines(certificate: Certificate) -> list[tuple[str, str]]:
    """The rows of the table."""
    content = certificate.content
    dimension, lower, upper = content["dimension"], content["lower_bound"], content["upper_bound"]
    P, value = certificate.parameters, certificate.value
    shown = f"between {certificate.lower} and {certificate.upper}" if value is None else str(value)
    error = f", wrong with probability at most 2^{dimension['error']}" if dimension["error"] else ""
    lines = [
        ("architecture", _architecture(content)),
        ("parameters", str(P)),
        ("dimension", f"{shown}  ({certificate.status}{error})"),
        (
            "lower bound",
            f"{certificate.lower}: a nonzero minor of the Jacobian mod {content['prime']} at {lower['inputs']} inputs",
        ),
        ("upper bound", f"{upper['value']}: {_upper(upper, P)}"),
    ]
    if value is not None:
        lines.append(("generic fiber", f"{P - value} = parameters - dimension"))
    if content["expected"] is not None:
        lines.append(("expected", _expected(content["expected"])))
    if content["defect"]:
        lines.append(("defect", f"{content['defect']} = expected - dimension"))
    return lines


def _architecture(content: Any) -> str:
    if "architecture" not in content:
        program = content["program"]
        named = (f"{name}{list(shape)}" for name, shape in program["parameters"] + program["inputs"])
        return f"a user's map of {', '.join(named)}"
    spec = dict(content["architecture"])
    defaults = {
        "score": "lightning", "heads": 1, "value_dim": None, "causal": False, "residual": False, "norm": "none",
        "mlp_width": None, "qk_bias": False, "bias": False,
    }  # fmt: skip
    if spec["kind"] == "attention" and spec["mlp_width"] is None:
        del spec["activation"]
    parts = [f"{spec.pop('kind')}"]
    for key, v in spec.items():
        if key not in defaults or v != defaults[key]:
            shown = (
                ",".join(map(str, v)) if isinstance(v, list) else f"power={v['power']}" if isinstance(v, dict) else v
            )
            parts.append(key if v is True else f"{key} {shown}")
    return "; ".join(parts)


def _upper(upper: Any, P: int) -> str:
    match upper["kind"]:
        case "parameters":
            return "the number of parameters"
        case "ambient":
            return f"the dimension of the ambient space of polynomial maps (rule {upper['rule']})"
        case "composition":
            return "the dimensions of its parts less the scalings between them, by ambient spaces (composition)"
        case "symmetry":
            rules = list(dict.fromkeys(g["rule"] for g in upper["generators"]))
            return f"{P} parameters - {P - upper['value']} independent symmetries ({', '.join(rules)})"
        case _:
            trials, theorem = len(upper["trials"]), upper["theorem"]
            return (
                f"{trials} trials at random primes and points; the best theorem says {theorem['value']}, "
                f"{_upper(theorem, P)}"
            )


def _expected(expected: Any) -> str:
    failing = [h["statement"] for h in expected["hypotheses"] if not h["holds"]]
    text = f"{expected['value']}: {expected['formula']}, {expected['status']} ({expected['source']})"
    return text if not failing else f"{text}; a hypothesis fails: {'; '.join(failing)}"
