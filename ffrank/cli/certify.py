"""``ffrank certify`` and ``ffrank verify``."""

from __future__ import annotations

import importlib
import os
import re
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

from ffrank.cli.show import progress, show_certificate
from ffrank.errors import FfrankError, InputError

__all__ = ["certify", "check_writable", "parse_size", "read_target", "verify"]

_SPEC = Group("Architecture on the command line (after 'attention' or 'mlp')", sort_key=1)
_Key = Parameter(group=_SPEC)
_Flag = Parameter(group=_SPEC, negative="")
_Switch = Parameter(negative="")


def certify(
    spec: str,
    /,
    *,
    prime: int = 2147483647,
    seed: int = 0,
    error: str = "2^-60",
    point: Literal["auto", "random"] = "auto",  # noqa: ARG001 - there are only random points so far
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
    target = read_target(spec, {k: v for k, v in keys.items() if v is not None})
    if output is not None:
        check_writable(Path(output))
    with progress() as report:
        certificate = prove(
            target, prime=prime, seed=seed, error=error, threads=threads, memory=parse_size(memory), report=report
        )
    if output is not None:
        certificate.save(output)
    if json:
        sys.stdout.write(certificate.to_json())
    else:
        show_certificate(certificate, output)
    return 0


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


def read_target(spec: str, keys: dict[str, Any]) -> Any:
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


def parse_size(size: str) -> int:
    """Bytes of a size such as 4GiB or 500MiB."""
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s*([kKmMgGtT]?)(?:i?[bB])?", size.strip())
    if match is None:
        raise InputError(f"--memory: expected a size such as 4GiB or 500MiB, got {size!r}")
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " "))


def check_writable(path: Path) -> None:
    """Say that a file cannot be written before the work is done, not after."""
    folder = path.parent
    if path.is_dir():
        raise InputError(f"{path}: cannot be written: it is a folder")
    if not folder.is_dir():
        raise InputError(f"{path}: cannot be written: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{path}: cannot be written: no permission to write in {folder}")
