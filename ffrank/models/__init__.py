"""Architectures: specs, and the programs that they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ffrank.models.spec import Spec
    from ffrank.program.ir import Program

__all__ = ["build_program"]


def build_program(spec: Spec) -> Program:
    """The program of an architecture."""
    from ffrank.models.attention import attention_program
    from ffrank.models.mlp import mlp_program

    return attention_program(spec) if spec.kind == "attention" else mlp_program(spec)
