"""Closed formulas for the dimension, each with the hypotheses under which it is claimed.

A formula is never a bound: it is what the literature, or a count of parameters, leads one to expect, and a
certificate sets it beside the dimension that was computed. Where a hypothesis fails the value is
still given, marked, so that the difference (the *defect*) can be seen.

Notation of the docstrings, as in section 9 of ``certificate/FORMAT.md``:

=============  ================================================================
symbol         meaning
=============  ================================================================
``d``, ``d'``  first and last width, ``widths[0]`` and ``widths[-1]``
``a_i``        attention dimension of layer i
``α_i``        min(a_i, d), or min(a_i, δ) behind the first layer of a network
``δ``          the common hidden width
``t``          number of tokens
=============  ================================================================

Everything here is integer arithmetic on a canonical architecture, a mapping in which every key of
section 2.1 is present. Nothing is validated again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb
from typing import Any

__all__ = ["ambient_tokens", "expected"]

Architecture = Mapping[str, Any]
Hypotheses = Sequence[tuple[str, bool]]

_HMK = "Henry, Marchetti, Kohn: Geometry of Lightning Self-Attention (ICLR 2025)"
_SOFTMAX = f"{_HMK}; proof claimed by Konda (2026)"
_FORMS = "symmetric forms of bounded rank"
_REFINED = "ffrank, agreed with exact ranks on random architectures"
_HEADS = "sum over heads, capped by the ambient space"
_KTB = "Kileel, Trager, Bruna: On the Expressive Power of Deep Polynomial Neural Networks (NeurIPS 2019)"


def expected(architecture: Architecture) -> dict[str, Any] | None:
    """Return the expected dimension of an architecture with its source and hypotheses.

    Parameters
    ----------
    architecture
        A canonical architecture: every key present, as in section 2.1 of the format.

    Returns
    -------
    dict or None
        The keys ``value``, ``formula``, ``status``, ``source``, ``hypotheses`` and ``holds``; None where no
        formula is known.

    Notes
    -----
    ``status`` says how far to trust the value when ``holds`` is true: a ``"theorem"`` is the dimension; a
    ``"conjecture"`` may err either way; a ``"parameter count"`` subtracts only symmetries that are always
    there, so it is at least the dimension and may exceed it. When ``holds`` is false nothing is claimed: the
    dimension can lie on either side of the value.
    """
    if architecture["kind"] == "mlp":
        return _polynomial_network(architecture)
    if not _is_simple(architecture):
        return None
    if architecture["score"] == "softmax":
        return _softmax(architecture)
    if architecture["heads"] > 1 or architecture["value_dim"] is not None:
        return _multi_head(architecture)
    widths = architecture["widths"]
    if len(widths) == 2:
        single = _single_layer_one_token if architecture["tokens"] == 1 else _single_layer
        return single(architecture)
    hidden = widths[1:-1]
    if min(hidden) == max(hidden):
        return _deep_bottleneck(architecture)
    return _deep_wide(architecture) if min(hidden) >= widths[0] else None


def ambient_tokens(architecture: Architecture) -> int | None:
    """Return the dimension of the space that holds every function of one lightning layer.

    It counts what the layer sees of its weights: the coefficients V_ik A_lm with A = KᵀQ, symmetric in k and
    l because two factors come from the key's token (when t = 1 all three indices fall on one token). A bias
    of queries and keys extends A by a row and a column. Heads add up inside the same space; a causal mask
    restricts the sum over keys, and a skip connection adds a fixed function: the count stays.

    Returns
    -------
    int or None
        An upper bound for the dimension, a theorem; None unless the architecture is one attention layer with
        score lightning, no normalisation and no MLP.
    """
    if not _is_one_lightning_layer(architecture):
        return None
    d, out = architecture["widths"]
    bias = architecture["qk_bias"]
    if architecture["tokens"] == 1:
        forms = comb(d + 2, 3)
        return int(out * (forms + comb(d + 1, 2) + d if bias else forms))
    pairs = d * (d + 1) // 2
    return int(out * ((d + 1) * (pairs + d) if bias else d * pairs))


def _is_one_lightning_layer(architecture: Architecture) -> bool:
    return (
        architecture["kind"] == "attention"
        and architecture["score"] == "lightning"
        and architecture["norm"] == "none"
        and architecture["mlp_width"] is None
        and len(architecture["widths"]) == 2
    )


def _is_simple(architecture: Architecture) -> bool:
    """Whether nothing but widths, heads and value_dim departs from a bare lightning or softmax network."""
    return (
        architecture["score"] in ("lightning", "softmax")
        and architecture["norm"] == "none"
        and architecture["mlp_width"] is None
        and not (architecture["causal"] or architecture["residual"] or architecture["qk_bias"])
    )


def _answer(value: int, formula: str, status: str, source: str, hypotheses: Hypotheses = ()) -> dict[str, Any]:
    return {
        "value": value,
        "formula": formula,
        "status": status,
        "source": source,
        "hypotheses": [{"statement": statement, "holds": holds} for statement, holds in hypotheses],
        "holds": all(holds for _, holds in hypotheses),
    }


def _bounded_rank(r: int, n: int) -> int:
    """Dimension of the n×n matrices of rank at most r ≤ n."""
    return 2 * r * n - r * r


def _symmetric_bounded_rank(r: int, n: int) -> int:
    """Dimension of the symmetric n×n matrices of rank at most r ≤ n."""
    return r * n - r * (r - 1) // 2


def _single_layer(architecture: Architecture) -> dict[str, Any]:
    """Two tokens or more: ``2αd − α² + dd' − 1``.

    Source: Henry, Marchetti, Kohn (ICLR 2025). With a second token A = KᵀQ and V can be read off up to one
    common factor; A runs through the matrices of rank ≤ α, V through all. Hypothesis: t ≥ 2.
    """
    (d, out), (a,) = architecture["widths"], architecture["attention_dims"]
    value = _bounded_rank(min(a, d), d) + d * out - 1
    return _answer(value, "single-layer", "theorem", _HMK, [("t >= 2", architecture["tokens"] >= 2)])


def _single_layer_one_token(architecture: Architecture) -> dict[str, Any]:
    """One token: ``s·d − s(s−1)/2 + dd' − 1`` with s = min(2a, d).

    Source: the token x is sent to (xᵀAx)·Vx, a quadratic form times a linear map. The form is that of
    (A + Aᵀ)/2, a generic symmetric matrix of rank ≤ min(2a, d), and form and map are unique up to one common
    factor because polynomials factor uniquely. No hypotheses beyond t = 1, which the caller has checked.
    """
    (d, out), (a,) = architecture["widths"], architecture["attention_dims"]
    value = _symmetric_bounded_rank(min(2 * a, d), d) + d * out - 1
    return _answer(value, "single-layer-one-token", "theorem", _FORMS)


def _deep_bottleneck(architecture: Architecture) -> dict[str, Any]:
    """Equal hidden widths δ: ``2α_1 d − α_1² + δ(d + d') − δ² − l + Σ_{i>1} (2α_i δ − α_i²)``.

    Source: Henry, Marchetti, Kohn (ICLR 2025). The terms count the first score matrix, the product of all
    value matrices (rank ≤ δ), the later score matrices on the bottleneck, and one rescaling a layer.
    Hypotheses: δ ≤ d and δ ≤ d' (else hidden directions are never reached or never seen), t ≥ 2, and token
    matrices of rank ≥ 2 behind every layer but the last (else later layers see only the symmetric part of
    their scores). They suffice; the value may be right without them.
    """
    widths, dims, t = architecture["widths"], architecture["attention_dims"], architecture["tokens"]
    d, delta, out = widths[0], widths[1], widths[-1]
    later = sum(_bounded_rank(min(a, delta), delta) for a in dims[1:])
    value = _bounded_rank(min(dims[0], d), d) + delta * (d + out) - delta * delta - len(dims) + later
    hypotheses = [
        ("hidden widths delta <= d_0", delta <= d),
        ("hidden widths delta <= d_l", delta <= out),
        ("t >= 2", t >= 2),
        (
            "token matrices entering later layers have rank >= 2: min(delta, a_1, ..., a_{l-1}) >= 2",
            min(delta, *dims[:-1]) >= 2,
        ),
    ]
    return _answer(value, "deep-bottleneck", "theorem", _HMK, hypotheses)


def _deep_wide(architecture: Architecture) -> dict[str, Any]:
    """Unequal hidden widths, all at least d: ``Σ s_i + d d' − l``.

    With α_i = min(a_i, d), s_i = 2α_i d − α_i² as long as min(t, d, α_1, …, α_{i−1}) ≥ 2; from there on the
    tokens have rank one and s_i counts the symmetric matrices of rank ≤ min(2a_i, d).
    Source: found for this project, and agreed with every exact rank it was tried on; not proven, so it may
    err either way. The caller has checked that every hidden width is at least d.
    """
    widths, dims = architecture["widths"], architecture["attention_dims"]
    d, out = widths[0], widths[-1]
    rank = min(architecture["tokens"], d)
    value = d * out - len(dims)
    for a in dims:
        value += _bounded_rank(min(a, d), d) if rank >= 2 else _symmetric_bounded_rank(min(2 * a, d), d)
        rank = min(rank, a)
    return _answer(value, "deep-wide", "conjecture", _REFINED)


def _multi_head(architecture: Architecture) -> dict[str, Any] | None:
    """Several heads or factored values: ``min(H·(2αd − α² + v − 1), U)``.

    v is the dimension of the values of one head: dd', or (d + d')v' − v'² for matrices of rank ≤ v' =
    min(value_dim, d, d'). U is the ambient space of :func:`ambient_tokens`.
    Source: heads are counted as if independent, which is an upper bound and often the truth; like secant
    varieties, many heads fall short of it. None for l > 1 or t = 1, where nothing is claimed.
    """
    ambient = ambient_tokens(architecture)
    if ambient is None or architecture["tokens"] == 1:
        return None
    (d, out), (a,) = architecture["widths"], architecture["attention_dims"]
    inner = architecture["value_dim"]
    rank = min(d, out) if inner is None else min(inner, d, out)
    values = (d + out) * rank - rank * rank
    count = architecture["heads"] * (_bounded_rank(min(a, d), d) + values - 1)
    return _answer(min(count, ambient), "multi-head", "parameter count", _HEADS)


def _softmax(architecture: Architecture) -> dict[str, Any] | None:
    """No rescalings: ``2α_1 d − α_1² + δ(d + d') − δ² + Σ_{i>1} (2α_i δ − α_i²)``, for l = 1 ``2αd − α² + dd'``.

    Source: conjectured by Henry, Marchetti, Kohn (ICLR 2025), a proof is claimed by Konda (2026). For several heads
    or factored values in one layer ``H·(2αd − α² + v)``, v as in the lightning case, is a parameter count and so an
    upper bound. None for t = 1, for unequal hidden widths, or for several layers of several heads.
    """
    widths, dims = architecture["widths"], architecture["attention_dims"]
    d, delta, out = widths[0], widths[1], widths[-1]
    if architecture["tokens"] == 1 or len(set(widths[1:-1])) > 1:
        return None
    scores = _bounded_rank(min(dims[0], d), d)
    heads, inner = architecture["heads"], architecture["value_dim"]
    if heads > 1 or inner is not None:
        if len(dims) > 1:
            return None
        rank = min(d, out) if inner is None else min(inner, d, out)
        count = heads * (scores + (d + out) * rank - rank * rank)
        return _answer(count, "multi-head-softmax", "parameter count", "sum over heads")
    if len(dims) == 1:
        return _answer(scores + d * out, "softmax", "conjecture", _SOFTMAX)
    later = sum(_bounded_rank(min(a, delta), delta) for a in dims[1:])
    value = scores + delta * (d + out) - delta * delta + later
    hypotheses = [("hidden widths delta <= d_0", delta <= d), ("hidden widths delta <= d_l", delta <= out)]
    return _answer(value, "softmax", "conjecture", _SOFTMAX, hypotheses)


def _polynomial_network(architecture: Architecture) -> dict[str, Any] | None:
    """Power k ≥ 2, no bias: ``min(P − d_1 − … − d_{l−1}, d_l · C(d_0 − 1 + D, D))``, D = k^(l−1).

    Source: Kileel, Trager, Bruna (NeurIPS 2019). Each hidden neuron can be rescaled, and the outputs are
    forms of degree D in d_0 variables; both are always so, hence the value is an upper bound for the
    dimension. None for other activations, with bias, or for l = 1.
    """
    widths = architecture["widths"]
    power = _power(architecture["activation"])
    if power < 2 or architecture["bias"] or len(widths) < 3:
        return None
    parameters = sum(m * n for m, n in zip(widths[1:], widths, strict=False))
    free = parameters - sum(widths[1:-1])
    forms = _binomial_capped(widths[0] - 1, power ** (len(widths) - 2), free)
    return _answer(min(free, widths[-1] * forms), "polynomial-network", "parameter count", _KTB)


def _power(activation: object) -> int:
    """Return k for the k-th power, 0 for an activation that is no power."""
    if isinstance(activation, Mapping):
        return int(activation["power"])
    return {"identity": 1, "square": 2, "cube": 3}.get(str(activation), 0)


def _binomial_capped(n: int, degree: int, cap: int) -> int:
    """Return min(C(n + degree, n), cap) for cap ≥ 1, without forming the binomial where it is huge."""
    value = 1
    for i in range(1, n + 1):
        value = value * (degree + i) // i
        if value >= cap:
            return cap
    return value
