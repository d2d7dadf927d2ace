"""The report as one HTML file: data, style and script in it, nothing loaded from elsewhere."""

from __future__ import annotations

import html
import json
import os
import shlex
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ffrank import __version__
from ffrank.report.rows import AXES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ffrank.report.rows import Row

__all__ = ["page"]

_NUMBERS = ("parameters", "lower", "upper", "value", "expected", "defect", "seconds")
_EXTRA = ("formula", "claim", "holds", "failing", "why", "certificate", "failure")


def page(rows: Sequence[Row], folder: str | Path, output: str | Path) -> str:
    """The HTML of a report.

    Parameters
    ----------
    rows : sequence of Row
    folder : path
        Of the batch.
    output : path
        Where the page will be; links to certificates are relative to it.
    """
    folder, output = Path(folder), Path(output)
    name = folder.resolve().name or str(folder)
    link = Path(os.path.relpath(folder.resolve(), output.resolve().parent)).as_posix()
    data = {
        "folder": name,
        "link": link,
        "command": shlex.quote(str(folder)),
        "axes": AXES,
        "columns": ["architecture", "family", "status", *_NUMBERS, *AXES, "extra"],
        "rows": [_packed(row) for row in rows],
    }
    here = files("ffrank.report")
    parts = {
        "title": html.escape(f"ffrank report: {name}"),
        "name": html.escape(name),
        "version": html.escape(__version__),
        "style": (here / "page.css").read_text(encoding="utf-8"),
        "script": (here / "page.js").read_text(encoding="utf-8"),
        "data": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    }
    text = (here / "page.html").read_text(encoding="utf-8")
    for key, value in parts.items():
        text = text.replace(f"<!--{key}-->", value)
    return text


def _packed(row: Row) -> list[Any]:
    """A row in the order of the columns; the last entry holds what only an opened row shows."""
    result = row.result
    extra = {key: result[key] for key in _EXTRA if result.get(key) is not None}
    numbers = [result.get(key) for key in _NUMBERS]
    return [row.architecture, row.family, result["status"], *numbers, *(row.axes.get(key) for key in AXES), extra]
