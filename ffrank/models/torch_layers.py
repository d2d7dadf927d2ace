"""PyTorch operators as instructions of a program: exponentials, activations, softmax, attention, normalisations."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ffrank.models.torch_context import Context, axes_of, mean_of, operator, total
from ffrank.models.torch_values import Refused, exact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ffrank.program.trace import Tensor

__all__: list[str] = []  # handlers are found in the table of torch_context


# ------------------------------------------------------------------------------- exponentials, activations


@operator("exp")
def _exp(c: Context, x: Any) -> Tensor:
    scores, keep = c.scores(x)
    e = c.exp(c.lift(scores))
    return e if keep is None else e * c.lift(keep)


@operator("expm1")
def _expm1(c: Context, x: Any) -> Tensor:
    return c.exp(c.lift(x)) - 1


@operator("sinh", "cosh")
def _hyperbolic(c: Context, x: Any) -> Tensor:
    e = c.exp(c.lift(x))
    sign = -1 if c.node.target._schema.name.endswith("sinh") else 1
    return (e + sign * (1 / e)) * exact(c.builder, (), [Fraction(1, 2)])


@operator("sigmoid", "special_expit")
def _sigmoid(c: Context, x: Any) -> Tensor:
    return _logistic(c, c.lift(x))


def _logistic(c: Context, x: Tensor) -> Tensor:
    return 1 - 1 / (1 + c.exp(x))


@operator("tanh")
def _tanh(c: Context, x: Any) -> Tensor:
    return 1 - 2 / (1 + c.exp(c.lift(x)) ** 2)  # exp(x)^2, so that exp(x) is shared with a sigmoid of x


@operator("silu")
def _silu(c: Context, x: Any) -> Tensor:
    y = c.lift(x)
    return y * _logistic(c, y)


@operator("mish")
def _mish(c: Context, x: Any) -> Tensor:
    y = c.lift(x)
    return y * (1 - 2 / (1 + (1 + c.exp(y)) ** 2))  # tanh(log(1 + exp(x)))


@operator("gelu")
def _gelu(c: Context, x: Any, approximate: str = "none") -> Tensor:
    if approximate != "tanh":
        raise Refused('the error function is not rational in exponentials; use approximate="tanh"')
    y = c.lift(x)
    # x/2·(1 + tanh(b(x + k x^3))) is x times the logistic function of 2b(x + k x^3); b and k are PyTorch's doubles.
    inner = (y + y**3 * c.lift(0.044715)) * c.lift(2 * math.sqrt(2) * (2 / math.sqrt(math.pi)) * 0.5)
    return y * _logistic(c, inner)


def _softmax_of(c: Context, x: Any, dim: int) -> Tensor:
    x, keep = c.scores(x)
    e = c.exp(c.lift(x))
    if keep is not None:
        if not bool(keep.any(dim).all()):
            raise Refused("it masks everything that a softmax sums over, which gives NaN")
        e = e * c.lift(keep)
    return e / total(e, axes_of(e, dim), keepdim=True)


@operator("softmax", "_softmax", "_safe_softmax", "special_softmax")
def _softmax(c: Context, x: Any, dim: int) -> Tensor:
    return _softmax_of(c, x, dim)


@operator("scaled_dot_product_attention")
def _attention(
    c: Context,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    q, k, v = c.lift(query), c.lift(key), c.lift(value)
    if enable_gqa and k.shape[-3] != q.shape[-3]:
        k, v = (_repeated(x, q.shape[-3] // x.shape[-3]) for x in (k, v))
    # 1/sqrt(d) is irrational; the double nearest to it scales K, which changes no rank.
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = q @ k.transpose(*range(k.ndim - 2), k.ndim - 1, k.ndim - 2)
    scores = scores if factor == 1 else scores * c.lift(factor)
    bias, keep = c.scores(attn_mask)
    if isinstance(bias, c.torch.Tensor) and bias.dtype == c.torch.bool:
        bias, keep = None, bias
    if is_causal:
        bias, keep = None, c.torch.ones(scores.shape[-2:], dtype=c.torch.bool).tril()
    return _softmax_of(c, c.masked(scores if bias is None else scores + c.lift(bias), keep), -1) @ v


def _repeated(x: Tensor, times: int) -> Tensor:
    """Every head of (…, heads, tokens, d) ``times`` times in a row."""
    lead, tail = x.shape[:-2], x.shape[-2:]
    wide = x.reshape(*lead, 1, *tail).broadcast_to((*lead, times, *tail))
    return wide.reshape(*lead[:-1], lead[-1] * times, *tail)


@operator("layer_norm", "native_layer_norm")
def _layer_norm(
    c: Context, x: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    x = c.lift(x)
    axes = range(x.ndim - len(normalized_shape), x.ndim)
    centred = x - mean_of(c, x, axes, keepdim=True)
    out = _normalised(c, centred, axes, weight, bias, eps)
    return (out, None, None) if c.node.target._schema.name.endswith("native_layer_norm") else out


@operator("rms_norm")
def _rms_norm(
    c: Context, x: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None
) -> Tensor:
    x = c.lift(x)
    eps = c.torch.finfo(c.node.meta["val"].dtype).eps if eps is None else eps
    return _normalised(c, x, range(x.ndim - len(normalized_shape), x.ndim), weight, None, eps)


def _normalised(c: Context, x: Tensor, axes: Sequence[int], weight: Any, bias: Any, eps: float) -> Tensor:
    """X divided by the root of the mean of its squares plus epsilon, with gain and shift."""
    square = mean_of(c, x**2, axes, keepdim=True)
    x = x * (1 / c.sqrt(square if eps == 0 else square + c.lift(eps)))
    x = x if weight is None else x * c.lift(weight)
    return x if bias is None else x + c.lift(bias)


@operator("batch_norm", "_native_batch_norm_legit_no_training")
def _batch_norm(
    c: Context, x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, eps: float, training: bool = False
) -> Any:
    if training or running_mean is None:
        raise Refused("it uses the statistics of the batch")
    x = c.lift(x)
    shape = [1, x.shape[1]] + [1] * (x.ndim - 2)
    # The root is of constants and irrational: the double nearest to it rescales each channel, which changes no rank.
    scale = (running_var.double() + eps).rsqrt()
    x = (x - c.lift(running_mean).reshape(shape)) * c.lift(scale).reshape(shape)
    x = x if weight is None else x * c.lift(weight).reshape(shape)
    x = x if bias is None else x + c.lift(bias).reshape(shape)
    return (x, None, None) if "native" in c.node.target._schema.name else x
