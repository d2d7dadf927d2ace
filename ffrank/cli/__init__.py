"""The command line. Exit status: 0 good, 1 the answer is no (an invalid certificate), 2 unusable input.

Heavy modules are imported inside the commands that need them.
"""

from __future__ import annotations

import os
import sys

from cyclopts import App, CycloptsError

from ffrank import __version__
from ffrank.cli.batch import batch, report
from ffrank.cli.certify import certify, verify
from ffrank.cli.explore import STANDARD_INPUT, fibers, rank, singular
from ffrank.errors import FfrankError

__all__ = ["main"]

app = App(
    name="ffrank",
    version=f"ffrank {__version__}",
    help="Certified dimensions of neural function spaces, by exact linear algebra over finite fields.",
    version_flags=["--version"],
)
for command in (certify, verify, fibers, singular, rank, batch, report):
    app.command(command)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    sys.exit(_run(sys.argv[1:] if arguments is None else arguments))


def _run(arguments: list[str]) -> int:
    if sys.stdout is None or sys.stderr is None:  # closed by whoever started the process
        return 2
    words = [STANDARD_INPUT if word == "-" else word for word in arguments]  # "-" looks like an option
    try:
        result = app(words, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError as e:
        return _fail(" ".join(str(e).split()), "see 'ffrank --help'")
    except FfrankError as e:
        return _fail(" ".join(str(e).split()))
    except MemoryError:
        return _fail("out of memory; take a smaller architecture, or lower --memory to be refused earlier")
    except KeyboardInterrupt:
        sys.stderr.write("ffrank: interrupted\n")
        return 130
    except BrokenPipeError:
        _drop_output()  # whoever read the output has gone
        return 0
    except OSError as e:
        _drop_output()
        return _fail(f"standard output cannot be written: {e.strerror}")
    return result if isinstance(result, int) else 0


def _fail(message: str, hint: str = "") -> int:
    sys.stderr.write(f"ffrank: error: {message}{'; ' + hint if hint else ''}\n")
    return 2


def _drop_output() -> None:
    """Nothing more can be written: keep the interpreter from trying at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
