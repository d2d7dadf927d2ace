"""Results of a batch as rows: what a table shows, and what plots have on their axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ffrank.batch.store import read_results
from ffrank.errors import InputError, SpecError
from ffrank.models.spec import parse_spec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["AXES", "Row", "describe", "read_rows"]

AXES: dict[str, str] = {
    "parameters": "parameters",
    "depth": "depth",
    "first_width": "first width",
    "hidden_width": "smallest hidden width",
    "last_width": "last width",
    "largest_width": "largest width",
    "attention_dim": "smallest attention dimension",
    "first_attention_dim": "first attention dimension",
    "tokens": "tokens",
    "heads": "heads",
    "exponent": "exponent",
}
_DEFAULTS = {
    "score": "lightning", "heads": 1, "value_dim": None, "causal": False, "residual": False, "norm": "none",
    "mlp_width": None, "qk_bias": False, "bias": False,
}  # fmt: skip
_SHOWN_GIVEN = 80


@dataclass(frozen=True)
class Row:
    """One job.

    Attributes
    ----------
    architecture : str
        In words.
    family : str
        Kind and score, by which a person filters.
    axes : mapping
        The names of ``AXES`` to integers; what a spec does not have is missing.
    result : mapping
        The line of results.jsonl.
    """

    architecture: str
    family: str
    axes: Mapping[str, int]
    result: Mapping[str, Any]


def read_rows(folder: str | Path) -> list[Row]:
    """All results of a batch, in the order of their architectures.

    Raises
    ------
    InputError
        If there are none.
    """
    rows = [_row(result) for result in read_results(folder)]
    if not rows:
        raise InputError(f"{folder}: there are no results yet")
    return sorted(rows, key=lambda row: (row.family, row.axes.get("depth", 0), row.architecture))


def describe(architecture: Mapping[str, Any]) -> str:
    """A canonical architecture in words, without what is usual.

    >>> describe({"kind": "mlp", "widths": [2, 3, 1], "activation": "square", "bias": False})
    'mlp 2,3,1; square'
    """
    spec = dict(architecture)
    parts = [f"{spec.pop('kind')} {_listed(spec.pop('widths'))}"]
    if "attention_dims" in spec:
        tokens = spec.pop("tokens")
        parts[0] += f"; a {_listed(spec.pop('attention_dims'))}; {tokens} token{'' if tokens == 1 else 's'}"
        if spec["mlp_width"] is None:
            del spec["activation"]
    for key, value in spec.items():
        if key not in _DEFAULTS or value != _DEFAULTS[key]:
            shown = f"power {value['power']}" if isinstance(value, dict) else str(value)
            parts.append(key if value is True else shown if key in ("score", "activation") else f"{key} {shown}")
    return "; ".join(parts)


def _listed(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))


def _row(result: dict[str, Any]) -> Row:
    given = result.get("spec")
    try:
        spec = parse_spec(given if isinstance(given, dict) else {})
    except SpecError:
        text = str(given)
        shown = text if len(text) <= _SHOWN_GIVEN else text[: _SHOWN_GIVEN - 3] + "..."
        return Row(shown, "not usable", {}, result)
    architecture = spec.architecture()
    widths = architecture["widths"]
    axes = {
        "parameters": spec.parameter_count(),
        "depth": len(widths) - 1,
        "first_width": widths[0],
        "last_width": widths[-1],
        "largest_width": max(widths),
    }
    if len(widths) > 2:
        axes["hidden_width"] = min(widths[1:-1])
    dims = architecture.get("attention_dims")
    if dims:
        axes |= {"attention_dim": min(dims), "first_attention_dim": dims[0]}
        axes |= {key: architecture[key] for key in ("tokens", "heads")}
    if spec.exponent is not None and (not dims or architecture["mlp_width"] is not None):
        axes["exponent"] = spec.exponent
    family = f"{architecture['kind']}, {architecture['score']}" if dims else architecture["kind"]
    return Row(describe(architecture), family, axes, result)
