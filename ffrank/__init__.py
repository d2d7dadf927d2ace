"""Certified dimensions of neural function spaces, by exact linear algebra over finite fields.

Importing this module loads neither numba nor SymPy; every name below is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ffrank.batch import batch
    from ffrank.certificate.certificate import Certificate, RankCertificate
    from ffrank.certificate.matrix import certify_rank
    from ffrank.certificate.prover import certify
    from ffrank.certificate.verify import Verification, verify
    from ffrank.geometry.canonical import canonical_form
    from ffrank.geometry.fibers import fiber_proofs, fibers
    from ffrank.geometry.finder import FoundSymmetries, find_symmetries
    from ffrank.geometry.local_rank import rank_at
    from ffrank.geometry.same import same_function
    from ffrank.geometry.singular import strata
    from ffrank.geometry.transport import transport
    from ffrank.linalg import (
        col_rank_profile,
        det,
        inverse,
        matmul,
        nullspace,
        ple,
        rank,
        rank_over_q,
        rank_profile,
        row_rank_profile,
        rref,
        solve,
    )
    from ffrank.models.torch_import import from_torch
    from ffrank.program.ir import Program
    from ffrank.program.trace import Tensor, concatenate, exp, parametrization, sigmoid, softmax, sqrt, stack, tanh

_HOMES = {
    "Certificate": "certificate.certificate",
    "FoundSymmetries": "geometry.finder",
    "Program": "program.ir",
    "RankCertificate": "certificate.certificate",
    "Tensor": "program.trace",
    "Verification": "certificate.verify",
    "batch": "batch",
    "canonical_form": "geometry.canonical",
    "certify": "certificate.prover",
    "certify_rank": "certificate.matrix",
    "col_rank_profile": "linalg",
    "concatenate": "program.trace",
    "det": "linalg",
    "exp": "program.trace",
    "fiber_proofs": "geometry.fibers",
    "fibers": "geometry.fibers",
    "find_symmetries": "geometry.finder",
    "from_torch": "models.torch_import",
    "inverse": "linalg",
    "matmul": "linalg",
    "nullspace": "linalg",
    "parametrization": "program.trace",
    "ple": "linalg",
    "rank": "linalg",
    "rank_at": "geometry.local_rank",
    "rank_over_q": "linalg",
    "rank_profile": "linalg",
    "row_rank_profile": "linalg",
    "rref": "linalg",
    "same_function": "geometry.same",
    "sigmoid": "program.trace",
    "softmax": "program.trace",
    "solve": "linalg",
    "sqrt": "program.trace",
    "stack": "program.trace",
    "strata": "geometry.singular",
    "tanh": "program.trace",
    "transport": "geometry.transport",
    "verify": "certificate.verify",
}

__all__ = [
    "Certificate",
    "FoundSymmetries",
    "Program",
    "RankCertificate",
    "Tensor",
    "Verification",
    "batch",
    "canonical_form",
    "certify",
    "certify_rank",
    "col_rank_profile",
    "concatenate",
    "det",
    "exp",
    "fiber_proofs",
    "fibers",
    "find_symmetries",
    "from_torch",
    "inverse",
    "matmul",
    "nullspace",
    "parametrization",
    "ple",
    "rank",
    "rank_at",
    "rank_over_q",
    "rank_profile",
    "row_rank_profile",
    "rref",
    "same_function",
    "sigmoid",
    "softmax",
    "solve",
    "sqrt",
    "stack",
    "strata",
    "tanh",
    "transport",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ffrank' has no attribute {name!r}")
    value = getattr(import_module(f"ffrank.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
