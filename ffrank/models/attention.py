"""The program of an attention network, instruction by instruction as FORMAT.md, section 2.1, lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ffrank.models.parts import activate, normalise
from ffrank.program.ir import Builder, Program, Shape

if TYPE_CHECKING:
    from ffrank.models.spec import AttentionSpec

__all__ = ["attention_program", "attention_shapes"]


def attention_shapes(spec: AttentionSpec) -> list[tuple[str, Shape]]:
    """Names and shapes of the parameters in the documented order."""
    named: list[tuple[str, Shape]] = []
    for i, a in enumerate(spec.attention_dims, 1):
        d, e = spec.widths[i - 1], spec.widths[i]
        head: list[tuple[str, Shape]] = [("Q", (a, d)), ("K", (a, d))]
        v = spec.value_dim
        head += [("V", (e, d))] if v is None else [("U", (v, d)), ("O", (e, v))]
        head += [("b_q", (a,)), ("b_k", (a,))] if spec.qk_bias else []
        named += [(f"layer{i}.head{h}.{x}", shape) for h in range(1, spec.heads + 1) for x, shape in head]
        if spec.mlp_width is not None:
            named += [(f"layer{i}.W1", (spec.mlp_width, e)), (f"layer{i}.W2", (e, spec.mlp_width))]
    return named


def attention_program(spec: AttentionSpec) -> Program:
    """The program of ``spec``: input X of shape (d_0, t), output of shape (d_l, t)."""
    parameters = attention_shapes(spec)
    builder = Builder(parameters, [("X", (spec.widths[0], spec.tokens))])
    nodes = {name: node for node, (name, _) in enumerate(parameters)}
    z = len(parameters)
    for i in range(1, spec.layers + 1):
        seen = normalise(builder, z, spec.norm)
        total = _head(builder, spec, nodes, f"layer{i}.head1", seen)
        for h in range(2, spec.heads + 1):
            total = builder.add(total, _head(builder, spec, nodes, f"layer{i}.head{h}", seen))
        z = builder.add(z, total) if spec.residual else total
        if spec.mlp_width is not None:
            seen = normalise(builder, z, spec.norm)
            hidden = builder.matmul(nodes[f"layer{i}.W1"], seen)
            hidden = activate(builder, hidden, spec.activation, spec.exponent)
            out = builder.matmul(nodes[f"layer{i}.W2"], hidden)
            z = builder.add(z, out) if spec.residual else out
    return builder.finish(z)


def _head(builder: Builder, spec: AttentionSpec, nodes: dict[str, int], head: str, z: int) -> int:
    """V Z S, or O U Z S, with the weights S that the scores (K Z + b_k)ᵀ(Q Z + b_q) give."""
    t = spec.tokens

    def affine(weight: str, bias: str) -> int:
        linear = builder.matmul(nodes[f"{head}.{weight}"], z)
        if not spec.qk_bias:
            return linear
        a = builder.shapes[linear][0]
        column = builder.reshape(nodes[f"{head}.{bias}"], (a, 1))
        return builder.add(linear, builder.broadcast(column, (a, t)))

    q = affine("Q", "b_q")
    k = affine("K", "b_k")
    s = builder.matmul(builder.transpose(k, (1, 0)), q)
    if spec.score == "softmax":
        s = builder.exp(s)
    if spec.causal:
        mask = builder.const((t, t), [int(key <= query) for key in range(t) for query in range(t)])
        s = builder.mul(s, mask)
    if spec.score != "lightning":
        s = builder.mul(s, builder.broadcast(builder.recip(builder.sum(s, 0)), (t, t)))
    if spec.value_dim is None:
        return builder.matmul(builder.matmul(nodes[f"{head}.V"], z), s)
    inner = builder.matmul(builder.matmul(nodes[f"{head}.U"], z), s)
    return builder.matmul(nodes[f"{head}.O"], inner)
