"""What every command that takes an architecture shares: its options, and reading what they describe."""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from ffrank.errors import FfrankError, InputError

__all__ = ["Options", "Spec", "read_target"]

_GROUP = Group("Architecture on the command line (after 'attention' or 'mlp')", sort_key=1)
_Flag = Parameter(negative="")


@Parameter(name="*", group=_GROUP)
@dataclass(frozen=True)
class Options:
    """An architecture in options."""

    widths: str | None = None
    "d_0,...,d_l"
    attention_dims: str | None = None
    "a_1,...,a_l"
    tokens: int | None = None
    "Number of tokens t."
    score: str | None = None
    "lightning (the default), softmax or normalized"
    heads: int | None = None
    "Heads in each layer."
    value_dim: int | None = None
    "Inner dimension of each head's value map; full if absent."
    causal: Annotated[bool, _Flag] = False
    "A token sees itself and earlier tokens only."
    residual: Annotated[bool, _Flag] = False
    "Skip connections."
    norm: str | None = None
    "none (the default), rms or layer"
    mlp_width: int | None = None
    "Width of an MLP after each attention."
    activation: str | None = None
    "identity, square (the default), cube, power=K, tanh, sigmoid or silu"
    qk_bias: Annotated[bool, _Flag] = False
    "Biases of queries and keys."
    bias: Annotated[bool, _Flag] = False
    "Biases in every layer of an mlp."


Spec = Annotated[
    str,
    Parameter(
        help="A .toml or .json file, module:object for a map of your own, or the word attention or mlp followed by the "
        "options of the architecture."
    ),
]


def read_target(spec: str, options: Options | None) -> Any:
    """What the words describe: a mapping, a path, or an imported object."""
    given = {k: v for k, v in asdict(options or Options()).items() if v not in (None, False)}
    if spec in ("attention", "mlp"):
        return {"kind": spec} | {k: _parsed(k, v) for k, v in given.items()}
    if given:
        first = next(iter(given)).replace("_", "-")
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
    return _from_torch(path, found) if "torch" in sys.modules else found


def _from_torch(path: str, found: Any) -> Any:
    """A pair (module, example inputs) of PyTorch as a program; anything else as it is."""
    from torch.nn import Module

    if isinstance(found, Module):
        raise InputError(f"{path}: expected a pair (module, example_inputs) for a PyTorch module, got the module alone")
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], Module):
        from ffrank.models.torch_import import from_torch

        return from_torch(*found)
    return found
