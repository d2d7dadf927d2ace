"""The program of a multilayer perceptron, instruction by instruction as FORMAT.md, section 2.1, lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ffrank.models.parts import activate
from ffrank.program.ir import Builder, Program, Shape

if TYPE_CHECKING:
    from ffrank.models.spec import MlpSpec

__all__ = ["mlp_program", "mlp_shapes"]


def mlp_shapes(spec: MlpSpec) -> list[tuple[str, Shape]]:
    """Names and shapes of the parameters in the documented order."""
    named: list[tuple[str, Shape]] = []
    for i in range(1, spec.layers + 1):
        d, e = spec.widths[i - 1], spec.widths[i]
        named.append((f"layer{i}.W", (e, d)))
        if spec.bias:
            named.append((f"layer{i}.b", (e,)))
    return named


def mlp_program(spec: MlpSpec) -> Program:
    """The program of ``spec``: input x of shape (d_0, 1), output of shape (d_l, 1)."""
    parameters = mlp_shapes(spec)
    builder = Builder(parameters, [("x", (spec.widths[0], 1))])
    nodes = {name: node for node, (name, _) in enumerate(parameters)}
    z = len(parameters)
    for i in range(1, spec.layers + 1):
        z = builder.matmul(nodes[f"layer{i}.W"], z)
        if spec.bias:
            z = builder.add(z, builder.reshape(nodes[f"layer{i}.b"], (spec.widths[i], 1)))
        if i < spec.layers:
            z = activate(builder, z, spec.activation, spec.exponent)
    return builder.finish(z)
