"""Job files, results without what may differ, and the command line in a process of its own."""

import json
import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAIN = """
import sys
from ffrank.cli import app, main
from ffrank.cli import batch as commands
if __name__ == "__main__":
    for name in ("batch", "report"):
        if name not in app and hasattr(commands, name):
            app.command(getattr(commands, name))
    main(sys.argv[1:])
"""


def command(folder, *arguments):
    """The command and the environment for ``ffrank ARGUMENTS``."""
    script = Path(folder) / "run_ffrank.py"
    script.write_text(MAIN)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return [sys.executable, str(script), *map(str, arguments)], environment


def ffrank(folder, *arguments, **options):
    argv, environment = command(folder, *arguments)
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=300, check=False, **options)


def start(folder, *arguments):
    argv, environment = command(folder, *arguments)
    return subprocess.Popen(
        argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def networks(count, seed=0, largest=150):
    """Different polynomial networks."""
    source, found = random.Random(seed), {}
    while len(found) < count:
        widths = [source.randint(1, 3), *(source.randint(2, 9) for _ in range(source.randint(1, 5)))]
        widths.append(source.randint(1, 3))
        if sum(a * b for a, b in pairwise(widths)) <= largest:
            power = source.randint(2, 3)
            found[*widths, power] = {"kind": "mlp", "widths": widths, "activation": {"power": power}}
    return list(found.values())


def write_lines(path, specs):
    path.write_text("".join((spec if isinstance(spec, str) else json.dumps(spec)) + "\n" for spec in specs))
    return path


def results(folder):
    """By digest, without seconds; fails if a job has two lines."""
    lines = [json.loads(line) for line in (Path(folder) / "results.jsonl").read_text().splitlines()]
    found = {line["digest"]: {k: v for k, v in line.items() if k != "seconds"} for line in lines}
    assert len(found) == len(lines)
    return found


def certificates(folder):
    """All certificate files by name."""
    return {path.name: path.read_bytes() for path in Path(folder).glob("certificates/*/*.json.gz")}
