"""Results as CSV, Markdown and LaTeX, for papers and spreadsheets."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ffrank.report.rows import Row

__all__ = ["to_csv", "to_latex", "to_markdown"]

_HEADINGS = ("architecture", "parameters", "dimension", "expected", "defect", "status")
_CSV = (
    "architecture", "spec", "parameters", "lower", "upper", "value", "status",
    "expected", "formula", "claim", "holds", "defect", "seconds", "certificate", "failure",
)  # fmt: skip


def to_csv(rows: Sequence[Row]) -> str:
    """Every number of every result; empty cells for what is not there."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_CSV)
    for row in rows:
        facts = {**row.result, "architecture": row.architecture, "spec": json.dumps(row.result.get("spec"))}
        cells = (facts.get(key) for key in _CSV)
        writer.writerow("" if v is None else str(v).lower() if isinstance(v, bool) else v for v in cells)
    return text.getvalue()


def to_markdown(rows: Sequence[Row]) -> str:
    """A table with the numbers aligned to the right."""
    lines = [f"| {' | '.join(_HEADINGS)} |", "|---|--:|--:|--:|--:|---|"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in _cells(row))} |" for row in rows]
    return "\n".join(lines) + "\n"


def to_latex(rows: Sequence[Row]) -> str:
    """A longtable; its document loads the packages booktabs and longtable."""
    heading = " & ".join(_HEADINGS)
    lines = [
        r"% needs \usepackage{booktabs,longtable}",
        r"\begin{longtable}{lrrrrl}",
        rf"\toprule {heading} \\ \midrule \endhead",
        r"\bottomrule \endfoot",
    ]
    lines += [rf"{' & '.join(map(_escaped, _cells(row)))} \\" for row in rows]
    return "\n".join([*lines, r"\end{longtable}"]) + "\n"


def _cells(row: Row) -> list[str]:
    result = row.result
    lower, upper, value = (result.get(key) for key in ("lower", "upper", "value"))
    dimension = value if value is not None else None if lower is None else f"{lower}-{upper}"
    numbers: list[Any] = [result.get("parameters"), dimension, result.get("expected"), result.get("defect")]
    return [row.architecture, *("" if n is None else str(n) for n in numbers), str(result["status"])]


_SPECIAL = {c: rf"\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}",
}  # fmt: skip


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(c, c) for c in text)
