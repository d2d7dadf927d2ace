"""Job files: TOML with grids, JSON Lines, CSV; each read to its end, with line numbers.

``ffrank/batch/README.md`` describes the three layouts with examples.
"""

from __future__ import annotations

import csv
import json
import re
import tomllib
from dataclasses import dataclass, field
from hashlib import sha256
from heapq import nsmallest
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from ffrank.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

__all__ = ["Entry", "Source", "read_source"]

_ENTRIES = 1_000_000  # that one grid may make
_MOST_ENTRIES = 5_000_000  # from which a sample may be drawn


@dataclass(frozen=True, slots=True)
class Entry:
    """One job as a file gives it.

    Attributes
    ----------
    line : int
        Counted from 1.
    spec : object
        A mapping, or whatever else stands there.
    fault : str
        Why it is no spec, where the file's own layout says so.
    key_lines : mapping
        Lines of single keys, for jobs that come from several lines.
    """

    line: int
    spec: Any
    fault: str = ""
    key_lines: Mapping[str, int] = field(default_factory=dict)

    def lines_of(self, fault: str) -> int:
        """The line of the key with which a fault begins."""
        key = re.match(r"\w+", fault)
        return self.key_lines.get(key[0], self.line) if key else self.line


@dataclass(frozen=True)
class Source:
    """All entries of a job file."""

    name: str
    entries: list[Entry]
    notes: tuple[str, ...]


def read_source(path: Path) -> Source:
    """Read a .toml, .jsonl (.ndjson) or .csv file.

    Raises
    ------
    InputError
        If it cannot be read at all.
    """
    readers = {".toml": _read_toml, ".jsonl": _read_lines, ".ndjson": _read_lines, ".csv": _read_csv}
    if path.suffix not in readers:
        raise InputError(f"{path}: expected a job file whose name ends in .toml, .jsonl or .csv")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "it is not UTF-8 text"
        raise InputError(f"{path}: cannot be read: {reason}") from None
    return readers[path.suffix](path, text)


# ------------------------------------------------------------------------------------------------ JSON Lines


def _read_lines(path: Path, text: str) -> Source:
    entries = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            given = json.loads(line, object_pairs_hook=_unique, parse_constant=_refuse)
        except (ValueError, RecursionError) as e:
            fault = f"not well-formed JSON: {e or type(e).__name__}"
            entries.append(Entry(number, line.strip()[:1000], fault))
            continue
        if isinstance(given, dict) and isinstance(given.get("spec"), dict):
            given = given["spec"]
        entries.append(Entry(number, given))
    return Source(str(path), entries, ())


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [k for k, _ in pairs]
    if len(set(keys)) < len(keys):
        raise ValueError(f"key {next(k for k in keys if keys.count(k) > 1)!r} appears twice")
    return dict(pairs)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


# ------------------------------------------------------------------------------------------------ CSV

_WIDTHS = ("architecture", "widths")
_POWERS = ("exponent", "power")
_LISTS = ("widths", "attention_dims")
_NUMBERS = ("tokens", "heads", "value_dim", "mlp_width")
_SWITCHES = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_FLAGS = ("causal", "residual", "qk_bias", "bias")
_WORDS = ("kind", "score", "norm", "activation")


def _read_csv(path: Path, text: str) -> Source:
    rows = csv.reader(text.splitlines(keepends=True), strict=True)
    try:
        heading = [name.strip() for name in next(rows, [])]
    except csv.Error as e:
        raise InputError(f"{path}:1: not well-formed CSV: {e}") from None
    known = {*_WIDTHS, *_POWERS, *_LISTS, *_NUMBERS, *_FLAGS, *_WORDS}
    used = [name for name in heading if name in known]
    if not set(_WIDTHS) & set(used):
        shown = ", ".join(heading[:20]) or "none"
        raise InputError(f"{path}:1: expected a column named architecture or widths; the columns are {shown}")
    twice = [name for name in used if used.count(name) > 1]
    if twice or set(_WIDTHS) <= set(used):
        names = sorted(set(twice)) or list(_WIDTHS)
        raise InputError(f"{path}:1: expected each column once, and one column of widths; got {', '.join(names)} again")
    ignored = [name for name in heading if name not in known]
    notes = (f"{path}: columns that are no keys of a spec are left out: {', '.join(ignored)}",) if ignored else ()
    entries = []
    while True:
        line = rows.line_num + 1
        try:
            row = next(rows, None)
        except csv.Error as e:
            entries.append(Entry(line, None, f"not well-formed CSV: {e}"))
            continue
        if row is None:
            return Source(str(path), entries, notes)
        if any(cell.strip() for cell in row):
            entries.append(_csv_entry(line, heading, row, known))


def _csv_entry(line: int, heading: list[str], row: list[str], known: set[str]) -> Entry:
    given = dict(zip(heading, row, strict=False))
    kept = {name: cell.strip() for name, cell in given.items() if name in known and cell.strip()}
    if len(row) != len(heading):
        return Entry(line, given, f"expected {len(heading)} cells, got {len(row)}")
    spec: dict[str, Any] = {}
    faults = []
    for name, cell in kept.items():
        try:
            key, value = _cell(name, cell)
        except ValueError as e:
            faults.append(f"{name}: expected {e}, got {cell[:60]!r}")
            continue
        if key in spec:
            faults.append(f"{name}: the {key} is given twice in this row")
        spec[key] = value
    spec.setdefault("kind", "attention" if "attention_dims" in kept else "mlp")
    return Entry(line, kept, "; ".join(faults)) if faults else Entry(line, spec)


def _cell(name: str, cell: str) -> tuple[str, Any]:
    """Key and value of a spec; ValueError says in words what was expected."""
    if name in _WIDTHS or name in _LISTS:
        inner = re.fullmatch(r"[\[(]?\s*(\d{1,20}(?:(?:\s*[,;x-]\s*|\s+)\d{1,20})*)\s*,?\s*[\])]?", cell)
        if inner is None:
            raise ValueError("integers such as [2, 3, 1]")
        key = "widths" if name in _WIDTHS else name
        return key, [int(n) for n in re.findall(r"\d+", inner[1])]
    if name in _POWERS:
        if not re.fullmatch(r"\d{1,20}(\.0*)?", cell):
            raise ValueError("a positive integer")
        return "activation", {"power": int(cell.partition(".")[0])}
    if name in _NUMBERS:
        if not re.fullmatch(r"\d{1,20}", cell):
            raise ValueError("a positive integer")
        return name, int(cell)
    if name in _FLAGS:
        if cell.lower() not in _SWITCHES:
            raise ValueError("true or false")
        return name, _SWITCHES[cell.lower()]
    power = re.fullmatch(r"power=(\d{1,20})", cell) if name == "activation" else None
    return name, {"power": int(power[1])} if power else cell


# ------------------------------------------------------------------------------------------------ TOML


def _read_toml(path: Path, text: str) -> Source:
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as e:
        raise InputError(f"{path}: not well-formed TOML: {e or type(e).__name__}") from None
    lines = _key_lines(text)
    grids = data.get("grid", [])
    tables = grids if isinstance(grids, list) else [grids]
    shared = data.get("spec", {})
    faults = _layout_faults(data, tables, shared, lines)
    if faults:
        raise InputError("; ".join(f"{path}:{line}: {fault}" for line, fault in faults))
    shared |= {key: value for key, value in data.items() if key not in ("spec", "grid", "sample")}
    entries: list[Entry] = []
    for index, table in enumerate(tables or [{}]):
        where = lines.get(("grid", index), {})
        own = {**lines.get(("", 0), {}), **lines.get(("spec", 0), {}), **where}
        count = prod(_count(value) for value in table.values())
        sample = data.get("sample", {})
        if count > (_MOST_ENTRIES if sample else _ENTRIES):
            raise InputError(
                f"{path}:{own.get('', 1)}: this grid has {count:,} combinations; the most are {_ENTRIES:,}"
            )
        alternatives = {key: _alternatives(value) for key, value in table.items()}
        combinations: Iterable[dict[str, Any]] = _combinations(shared, alternatives)
        if sample and sample["count"] < count:
            combinations = _sample(combinations, sample["count"], sample.get("seed", 0))
        entries += [Entry(own.get("", 1), spec, "", own) for spec in combinations]
    return Source(str(path), entries, ())


def _layout_faults(
    data: Mapping[str, Any], tables: list[Any], shared: Any, lines: Mapping[tuple[str, int], Mapping[str, int]]
) -> list[tuple[int, str]]:
    """Everything that is wrong with the tables themselves, by line."""
    faults = []
    if not isinstance(shared, dict):
        faults.append((1, "spec: expected a table of keys that all jobs share"))
    for index, table in enumerate(tables):
        own = lines.get(("grid", index), {})
        if not isinstance(table, dict):
            faults.append((own.get("", 1), "grid: expected a table of arrays"))
            continue
        for key, value in table.items():
            each = isinstance(value, dict) and set(value) == {"each"}
            if each and not (isinstance(value["each"], list) and all(isinstance(v, list) for v in value["each"])):
                faults.append((own.get(key, 1), f"{key}: expected each = [[...], [...]], the choices of every place"))
            elif isinstance(value, list) and not value:
                faults.append((own.get(key, 1), f"{key}: an empty array leaves no combination"))
            elif each and not all(value["each"]):
                faults.append((own.get(key, 1), f"{key}: a place without choices leaves no combination"))
    sample = data.get("sample", {})
    if sample:
        line = lines.get(("sample", 0), {}).get("", 1)
        if not isinstance(sample, dict) or not set(sample) <= {"count", "seed"}:
            faults.append((line, "sample: expected a table with count and seed"))
        elif not all(type(sample.get(k, 1)) is int and sample.get(k, 1) >= 0 for k in ("count", "seed")):
            faults.append((line, "sample: expected integers count and seed, not negative"))
        elif "count" not in sample:
            faults.append((line, "sample: count is missing"))
    return faults


def _count(value: Any) -> int:
    """How many alternatives an entry of [grid] has."""
    if isinstance(value, dict) and set(value) == {"each"}:
        return prod(len(choices) for choices in value["each"])
    return len(value) if isinstance(value, list) else 1


def _alternatives(value: Any) -> list[Any]:
    """What an entry of [grid] stands for: the members of an array, or the one value itself."""
    if isinstance(value, dict) and set(value) == {"each"}:
        return [list(choice) for choice in product(*value["each"])]
    return value if isinstance(value, list) else [value]


def _combinations(shared: Mapping[str, Any], alternatives: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for choice in product(*alternatives.values()):
        yield {**shared, **dict(zip(alternatives, choice, strict=True))}


def _sample(combinations: Iterable[dict[str, Any]], count: int, seed: int) -> list[dict[str, Any]]:
    """``count`` of them, chosen by SHA-256 of the seed and their place: the same on every machine."""

    def drawn(pair: tuple[int, Any]) -> bytes:
        return sha256(f"ffrank sample 1\n{seed}\n{pair[0]}".encode()).digest()

    chosen = nsmallest(count, enumerate(combinations), key=drawn)
    return [spec for _, spec in sorted(chosen, key=lambda pair: pair[0])]


def _key_lines(text: str) -> dict[tuple[str, int], dict[str, int]]:
    """Lines of the keys of every top-level table; the key "" is the table's heading.

    The parser of the standard library keeps no line numbers. This reads headings and the keys that begin a line,
    which is how such files are written; where it is wrong, a fault names a line close by.
    """
    found: dict[tuple[str, int], dict[str, int]] = {}
    seen: dict[str, int] = {}
    table = ("", 0)
    for number, line in enumerate(text.split("\n"), 1):
        heading = re.match(r"\s*(\[\[?)\s*([\w-]+)", line) if re.match(r"\s*\[\[?\s*[A-Za-z_]", line) else None
        if heading:
            index = seen.get(heading[2], -1) + 1 if heading[1] == "[[" else 0
            seen[heading[2]] = index
            table = (heading[2], index)
            found.setdefault(table, {"": number})
        elif key := re.match(r"\s*\"?([\w-]+)\"?\s*[=.]", line):
            found.setdefault(table, {}).setdefault(key[1], number)
    return found
