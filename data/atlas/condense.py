"""Condense finished batches into this folder, and print the tables of its README.

    python data/atlas/condense.py BATCH...

Each BATCH, a folder written by ``ffrank batch``, becomes NAME.jsonl.gz: its results without seconds and certificates.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import ffrank

HERE = Path(__file__).parent
KEPT = ("spec", "parameters", "lower", "upper", "status", "expected", "defect", "formula", "claim", "holds", "failing")


def sources_digest() -> str:
    """SHA-256 of ffrank's Python files, by which the version that made the results is known."""
    root = Path(ffrank.__file__).parent
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py"))
    listed = (f"{name} {sha256((root / name).read_bytes()).hexdigest()}\n" for name in names)
    return sha256("".join(listed).encode()).hexdigest()


def condensed(folder: Path) -> list[dict[str, Any]]:
    """All results of a batch, in an order that does not depend on the run."""
    with (folder / "results.jsonl").open() as lines:
        results = [json.loads(line) for line in lines]
    short = [{key: result[key] for key in KEPT if result.get(key) is not None} for result in results]
    return sorted(short, key=lambda result: json.dumps(result["spec"], sort_keys=True))


def main(folders: list[str]) -> None:
    """Write the files and print the tables."""
    cases: Counter[tuple[str, str, str]] = Counter()
    exceptions: Counter[tuple[str, str, str]] = Counter()
    out = ["| jobs | results | exact | with probability | bounds | as expected | off, not claimed | off, claimed |"]
    out.append("|---|--:|--:|--:|--:|--:|--:|--:|")
    for name in folders:
        folder = Path(name)
        results = condensed(folder)
        text = "".join(json.dumps(result, separators=(",", ":")) + "\n" for result in results)
        (HERE / f"{folder.name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
        statuses = Counter(result["status"] for result in results)
        kinds = Counter(kind(result) for result in results)
        for result in results:
            if result.get("defect") is not None:
                failing = "; ".join(result.get("failing", [])) or "none"
                cause = (folder.name, f"{result['formula']} ({result['claim']})", failing)
                cases[cause] += 1
                exceptions[cause] += result["defect"] != 0
        numbers = [len(results), *(statuses[s] for s in ("exact", "exact-with-probability", "bounds"))]
        numbers += [kinds["agrees"], kinds["outside"], kinds["against"]]
        out.append(f"| [{folder.name}]({folder.name}.jsonl.gz) | {' | '.join(f'{n:,}' for n in numbers)} |")
    out += ["", "| jobs | formula | failing hypotheses | cases | exceptions |", "|---|---|---|--:|--:|"]
    out += [f"| {' | '.join(cause)} | {count:,} | {exceptions[cause]:,} |" for cause, count in sorted(cases.items())]
    sys.stdout.write("\n".join(out) + f"\n\nffrank {ffrank.__version__}, sources {sources_digest()}\n")


def kind(result: dict[str, Any]) -> str:
    """How a result stands to the expected value."""
    if result.get("defect") is None:
        return "unknown"
    if not result["defect"]:
        return "agrees"
    return "against" if result["holds"] and result["claim"] != "parameter count" else "outside"


if __name__ == "__main__":
    main(sys.argv[1:])
