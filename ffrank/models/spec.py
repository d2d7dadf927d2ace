"""Architecture specs: the keys that a user writes, validated into frozen objects.

A spec has one canonical full form, :meth:`architecture`, in which every key is present; certificates hold that
form, and equal architectures have equal forms.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ffrank.errors import InputError, SpecError

__all__ = ["AttentionSpec", "MlpSpec", "Spec", "load_spec", "parse_spec"]

Size: TypeAlias = Annotated[int, Field(ge=1, le=10**6)]
_LAYERS = 1000
Widths: TypeAlias = Annotated[tuple[Size, ...], Field(min_length=2, max_length=_LAYERS + 1)]


class Power(BaseModel):
    """Entrywise k-th power."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")
    power: Annotated[int, Field(ge=1, le=1000)]


Activation: TypeAlias = Literal["identity", "square", "cube", "tanh", "sigmoid", "silu"] | Power
_EXPONENTS = {"identity": 1, "square": 2, "cube": 3}
_NAMES = {k: name for name, k in _EXPONENTS.items()}


def _exponent(activation: Activation) -> int | None:
    """K for x ↦ x^k, None for an activation that is not a power."""
    return activation.power if isinstance(activation, Power) else _EXPONENTS.get(activation)


def _canonical_activation(activation: Activation) -> Any:
    k = _exponent(activation)
    return activation if k is None else _NAMES.get(k, {"power": k})


class _Base(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    widths: Widths

    @model_validator(mode="before")
    @classmethod
    def _lists_are_tuples(cls, data: Any) -> Any:
        """Strict mode wants tuples; JSON and TOML have lists."""
        if isinstance(data, Mapping):
            return {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        return data

    @property
    def layers(self) -> int:
        """l, the number of layers."""
        return len(self.widths) - 1


class AttentionSpec(_Base):
    """A network of attention layers; see the README for the meaning of every key."""

    kind: Literal["attention"]
    widths: Widths
    attention_dims: Annotated[tuple[Size, ...], Field(min_length=1, max_length=_LAYERS)]
    tokens: Annotated[int, Field(ge=1, le=10_000)]
    score: Literal["lightning", "softmax", "normalized"] = "lightning"
    heads: Annotated[int, Field(ge=1, le=10_000)] = 1
    value_dim: Size | None = None
    causal: bool = False
    residual: bool = False
    norm: Literal["none", "rms", "layer"] = "none"
    mlp_width: Size | None = None
    activation: Activation = "square"
    qk_bias: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> AttentionSpec:
        if len(self.attention_dims) != self.layers:
            raise SpecError(
                f"attention_dims: expected {self.layers} entries for {len(self.widths)} widths, "
                f"got {len(self.attention_dims)}"
            )
        if self.residual and len(set(self.widths)) > 1:
            raise SpecError(f"residual: expected equal widths, got {list(self.widths)}")
        return self

    @property
    def exponent(self) -> int | None:
        """The k of an activation x ↦ x^k; None for tanh, sigmoid and silu."""
        return _exponent(self.activation)

    def architecture(self) -> dict[str, Any]:
        """The canonical full form."""
        full = {name: getattr(self, name) for name in type(self).model_fields}
        full |= {"widths": list(self.widths), "attention_dims": list(self.attention_dims)}
        used = self.mlp_width is not None
        return full | {"activation": _canonical_activation(self.activation) if used else "square"}

    def parameter_count(self) -> int:
        """P, without building the program."""
        return sum(self._layer_parameters(i) for i in range(1, self.layers + 1))

    def _layer_parameters(self, i: int) -> int:
        d, e, a = self.widths[i - 1], self.widths[i], self.attention_dims[i - 1]
        value = d * e if self.value_dim is None else (d + e) * self.value_dim
        head = 2 * a * d + value + (2 * a if self.qk_bias else 0)
        return self.heads * head + 2 * e * (self.mlp_width or 0)

    def entry_count(self) -> int:
        """About how many numbers one evaluation computes: entries of all nodes of the program."""
        t, total = self.tokens, self.widths[0] * self.tokens
        for i in range(1, self.layers + 1):
            d, e, a = self.widths[i - 1], self.widths[i], self.attention_dims[i - 1]
            head = (3 + 6 * self.qk_bias) * a * t + (1 + 2 * self.causal) * t * t + 3 * e * t
            head += 2 * (self.value_dim or 0) * t + (0 if self.score == "lightning" else 4 * t * t)
            norms = 0 if self.norm == "none" else 6 * (d + e) * t
            total += self.heads * head + (d + e) * t + norms + 8 * (self.mlp_width or 0) * t
        return total + self.parameter_count()

    @property
    def output_count(self) -> int:
        """m, the number of output entries."""
        return self.widths[-1] * self.tokens


class MlpSpec(_Base):
    """A multilayer perceptron with linear output."""

    kind: Literal["mlp"]
    widths: Widths
    activation: Activation = "square"
    bias: bool = False

    @property
    def exponent(self) -> int | None:
        """The k of an activation x ↦ x^k; None for tanh, sigmoid and silu."""
        return _exponent(self.activation)

    def architecture(self) -> dict[str, Any]:
        """The canonical full form."""
        activation = _canonical_activation(self.activation)
        return {"kind": "mlp", "widths": list(self.widths), "activation": activation, "bias": self.bias}

    def parameter_count(self) -> int:
        """P, without building the program."""
        pairs = zip(self.widths, self.widths[1:], strict=False)
        return sum(d * e + (e if self.bias else 0) for d, e in pairs)

    def entry_count(self) -> int:
        """About how many numbers one evaluation computes: entries of all nodes of the program."""
        return self.widths[0] + 8 * sum(self.widths[1:]) + self.parameter_count()

    @property
    def output_count(self) -> int:
        """m, the number of output entries."""
        return self.widths[-1]


Spec: TypeAlias = AttentionSpec | MlpSpec
_KINDS: dict[str, type[AttentionSpec | MlpSpec]] = {"attention": AttentionSpec, "mlp": MlpSpec}


def parse_spec(data: Mapping[str, Any]) -> Spec:
    """Validate a spec given as a mapping, as read from TOML or JSON.

    Raises
    ------
    SpecError
        In one line: every faulty key, what was expected and what came.
    """
    if not isinstance(data, Mapping):
        raise SpecError(f"expected a table of keys, got {type(data).__name__}")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        shown = "nothing" if "kind" not in data else repr(kind)
        raise SpecError(f"kind: expected 'attention' or 'mlp', got {shown}")
    model = _KINDS[kind]
    try:
        return model.model_validate(dict(data))
    except ValidationError as e:
        raise SpecError("; ".join(_faults(e, model))) from None


_EXPECTED = {
    "int_type": "an integer",
    "bool_type": "true or false",
    "tuple_type": "a list of integers",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "too_short": "at least {min_length} entries",
    "too_long": "at most {max_length} entries",
    "literal_error": "{expected}",
}


def _faults(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """One phrase a key: the key, what was expected, what came."""
    faults: dict[str, str] = {}
    for fault in error.errors(include_url=False):
        kind, where = fault["type"], fault["loc"]
        if kind == "value_error":  # from a consistency check, which names its keys itself
            return [str(fault["ctx"]["error"])]
        key = str(where[0]) if where else "keys"
        if key == "activation":
            expected = "identity, square, cube, tanh, sigmoid, silu or {power = k} with 1 <= k <= 1000"
        else:
            expected = _EXPECTED.get(kind, fault["msg"]).format(**fault.get("ctx", {}))
        if kind == "missing" and len(where) == 1:
            phrase = f"{key}: this key is missing"
        elif kind == "extra_forbidden" and len(where) == 1:
            phrase = f"{key}: unknown key; the keys are {', '.join(model.model_fields)}"
        else:
            index = "".join(f"[{i}]" for i in where[1:] if isinstance(i, int))
            phrase = f"{key}{index}: expected {expected}, got {_shown(fault['input'])}"
        faults.setdefault(key, phrase)
    return list(faults.values())


def _shown(value: Any) -> str:
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 60 else text[:57] + "..."


def load_spec(path: str | Path) -> Spec:
    """Read a spec from a .toml or .json file.

    Raises
    ------
    InputError
        If the file cannot be read or parsed.
    SpecError
        If it is not a spec.
    """
    path = Path(path)
    if path.suffix not in (".toml", ".json"):
        raise InputError(f"{path}: expected a file name that ends in .toml or .json")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "it is not UTF-8 text"
        raise InputError(f"{path}: cannot be read: {reason}") from None
    try:
        data = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as e:
        raise InputError(f"{path}: not well-formed {path.suffix[1:].upper()}: {e or type(e).__name__}") from None
    try:
        return parse_spec(data)
    except SpecError as e:
        raise SpecError(f"{path}: {e}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [k for k, _ in pairs]
    if len(set(keys)) < len(keys):
        raise ValueError(f"key {next(k for k in keys if keys.count(k) > 1)!r} appears twice")
    return dict(pairs)
