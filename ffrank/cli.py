"""The command line: ``ffrank certify`` and ``ffrank verify``.

Exit status: 0 good, 1 the answer is no (an invalid certificate), 2 unusable input. Heavy modules are imported
inside the commands that need them.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, CycloptsError, Group, Parameter

from ffrank import __version__
from ffrank.errors import FfrankError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ffrank.certificate.certificate import Certificate

__all__ = ["main"]

app = App(
    name="ffrank",
    version=f"ffrank {__version__}",
    help="Certified dimensions of neural function spaces, by exact linear algebra over finite fields.",
    version_flags=["--version"],
)

_SPEC = Group("Architecture on the command line (after 'attention' or 'mlp')", sort_key=1)
_Key = Parameter(group=_SPEC)
_Flag = Parameter(group=_SPEC, negative="")
_Switch = Parameter(negative="")


@app.command
def certify(
    spec: str,
    /,
    *,
    prime: int = 2147483647,
    seed: int = 0,
    error: str = "2^-60",
    point: Literal["auto", "random"] = "auto",
    threads: int | None = None,
    memory: str = "4GiB",
    output: Annotated[str | None, Parameter(name=["--output", "-o"])] = None,
    json: Annotated[bool, _Switch] = False,
    widths: Annotated[str | None, _Key] = None,
    attention_dims: Annotated[str | None, _Key] = None,
    tokens: Annotated[int | None, _Key] = None,
    score: Annotated[str | None, _Key] = None,
    heads: Annotated[int | None, _Key] = None,
    value_dim: Annotated[int | None, _Key] = None,
    causal: Annotated[bool, _Flag] = False,
    residual: Annotated[bool, _Flag] = False,
    norm: Annotated[str | None, _Key] = None,
    mlp_width: Annotated[int | None, _Key] = None,
    activation: Annotated[str | None, _Key] = None,
    qk_bias: Annotated[bool, _Flag] = False,
    bias: Annotated[bool, _Flag] = False,
) -> int:
    """Certify the dimension of a network's function space.

    Parameters
    ----------
    spec
        A .toml or .json file, module:object for a map made by ffrank.parametrization, or the word attention or mlp
        followed by the options of the architecture.
    prime
        Odd prime below 2^31, the field of the lower bound.
    seed
        Chooses the random point.
    error
        Largest probability of error of a Monte-Carlo upper bound, such as 2^-60; none for theorems only.
    point
        Where the lower bound is taken.
    threads
        Threads of the elimination; the result does not depend on it.
    memory
        Memory that may be used, such as 4GiB.
    output
        Write the certificate to this file.
    json
        Print the certificate instead of a table.
    widths
        d_0,...,d_l
    attention_dims
        a_1,...,a_l
    tokens
        Number of tokens t.
    score
        lightning
    heads
        Heads in each layer.
    value_dim
        Inner dimension of each head's value map; full if absent.
    causal
        A token sees itself and earlier tokens only.
    residual
        Skip connections.
    norm
        none
    mlp_width
        Width of an MLP after each attention.
    activation
        identity, square, cube or power=K
    qk_bias
        Biases of queries and keys.
    bias
        Biases in every layer of an mlp.
    """
    from ffrank.certificate.prover import certify as prove

    keys = {
        "widths": widths, "attention_dims": attention_dims, "tokens": tokens, "score": score, "heads": heads,
        "value_dim": value_dim, "causal": causal or None, "residual": residual or None, "norm": norm,
        "mlp_width": mlp_width, "activation": activation, "qk_bias": qk_bias or None, "bias": bias or None,
    }  # fmt: skip
    target = _target(spec, {k: v for k, v in keys.items() if v is not None})
    if output is not None:
        _check_writable(Path(output))
    with _progress() as report:
        certificate = prove(
            target, prime=prime, seed=seed, error=error, threads=threads, memory=_bytes(memory), report=report
        )
    if output is not None:
        certificate.save(output)
    if json:
        sys.stdout.write(certificate.to_json())
    else:
        _show(certificate, output)
    return 0


@app.command
def verify(
    *certificates: str,
    full: Annotated[bool, _Switch] = False,
    json: Annotated[bool, _Switch] = False,
    max_work: int | None = None,
) -> int:
    """Check certificates, believing nothing that the prover wrote.

    Parameters
    ----------
    certificates
        Certificate files, .json or .json.gz.
    full
        Recompute the ranks of minors and Monte-Carlo trials too.
    json
        Print a JSON list with one object a file.
    max_work
        Multiplications that one certificate may take.
    """
    from ffrank.certificate import checker

    if not certificates:
        raise InputError("expected at least one certificate file; see 'ffrank verify --help'")
    options = [*(["--full"] if full else []), *(["--json"] if json else [])]
    options += ["--max-work", str(max_work)] if max_work is not None else []
    return checker.main([*options, "--", *certificates])


# ------------------------------------------------------------------------------------------------ input


def _target(spec: str, keys: dict[str, Any]) -> Any:
    """What ``certify`` is asked for: a mapping, a path, or a program."""
    if spec in ("attention", "mlp"):
        return {"kind": spec} | {k: _parsed(k, v) for k, v in keys.items()}
    if keys:
        first = next(iter(keys)).replace("_", "-")
        raise InputError(f"--{first} describes an architecture of kind attention or mlp; got {spec!r} with it")
    if spec.endswith((".toml", ".json")):
        return Path(spec)
    if ":" in spec:
        return _imported(spec)
    raise InputError(f"expected a .toml or .json file, module:object, or the word attention or mlp, got {spec!r}")


def _parsed(key: str, value: Any) -> Any:
    """An option of the architecture as the spec wants it."""
    if key in ("widths", "attention_dims"):
        if not re.fullmatch(r"\d{1,20}(,\d{1,20})*", value):
            raise InputError(f"--{key.replace('_', '-')}: expected integers such as 3,3,3, got {value!r}")
        return [int(n) for n in value.split(",")]
    power = re.fullmatch(r"power=(\d{1,20})", value) if key == "activation" else None
    return {"power": int(power[1])} if power else value


def _imported(path: str) -> Any:
    """The object ``module:object``, looked for in the current folder first."""
    name, _, attribute = path.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except FfrankError:
        raise
    except Exception as e:  # whatever a user's module raises
        raise InputError(f"{path}: cannot be imported: {type(e).__name__}: {e}") from None
    finally:
        sys.path.pop(0)
    return found


def _bytes(size: str) -> int:
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s*([kKmMgGtT]?)(?:i?[bB])?", size.strip())
    if match is None:
        raise InputError(f"--memory: expected a size such as 4GiB or 500MiB, got {size!r}")
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " "))


def _check_writable(path: Path) -> None:
    """Say that a file cannot be written before the work is done, not after."""
    folder = path.parent
    if path.is_dir():
        raise InputError(f"{path}: cannot be written: it is a folder")
    if not folder.is_dir():
        raise InputError(f"{path}: cannot be written: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{path}: cannot be written: no permission to write in {folder}")


# ----------------------------------------------------------------------------------------------- output


@contextmanager
def _progress() -> Iterator[Callable[[str], None] | None]:
    """A line that says what is being computed, on a terminal only."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield status.update


def _show(certificate: Certificate, path: str | None) -> None:
    lines = _lines(certificate)
    if path is not None:
        lines.append(("certificate", f"{path}; check it with: ffrank verify {path}"))
    lines += [("note", note) for note in certificate.notes]
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


# ------------------------------------------------------------------------------------------------- main


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    sys.exit(_run(sys.argv[1:] if arguments is None else arguments))


def _run(arguments: list[str]) -> int:
    try:
        result = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
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
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read the output has gone
        return 0
    return result if isinstance(result, int) else 0


def _fail(message: str, hint: str = "") -> int:
    sys.stderr.write(f"ffrank: error: {message}{'; ' + hint if hint else ''}\n")
    return 2
