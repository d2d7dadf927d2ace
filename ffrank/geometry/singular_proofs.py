"""Symbolic proofs of what the strata of a lightning layer rest on: coefficients, swap, kernels.

Identities are proven for all sizes where matrix expressions suffice; the coefficient map and the exact kernels are
expanded for one small size. Error direction: see :mod:`ffrank.geometry.equations`.
"""

from __future__ import annotations

from typing import Any

from ffrank.errors import ResourceError
from ffrank.geometry.equations import Expr, Proof, Step, check, dot, flip, letters, plus, sympy
from ffrank.geometry.strata import Layer

__all__ = ["kernel", "singular_proofs"]

_LARGEST = 4


def singular_proofs(d: int = 2, d_out: int = 2) -> tuple[Proof, ...]:
    """Return the proofs for one layer V X Xᵀ A X: coefficient map, swap of branches, kernel of each stratum.

    Parameters
    ----------
    d, d_out
        Sizes for the parts that are expanded, each at most 4.

    Raises
    ------
    ResourceError
        If a size is too large for symbols.
    """
    for name, size in (("d", d), ("d_out", d_out)):
        if not 1 <= size <= _LARGEST:
            raise ResourceError(f"{name}: expected a size from 1 to {_LARGEST} for symbols, got {size}")
    return (_coefficient_map(d), _swap(), _kernel_vectors(), _kernels(d, d_out))


def _proof(rule: str, statement: str, steps: list[Step], conclusion: str) -> Proof:
    return Proof(rule, statement, (), (), tuple(steps), conclusion)


def _matrix(name: str, rows: int, columns: int) -> Any:
    sp = sympy()
    return sp.Matrix(rows, columns, lambda i, j: sp.Symbol(f"{name}{i + 1}{j + 1}"))


def _coefficient_map(d: int) -> Proof:
    """Expand the first output at two tokens."""
    sp = sympy()
    V, A, X = _matrix("V", 1, d), _matrix("A", d, d), _matrix("X", d, 2)
    output = (V * X * X.T * A * X)[0, 0]
    forms = sum(
        sum(V[0, k] * X[k, s] for k in range(d)) * sum(A[k, m] * X[k, s] for k in range(d)) * X[m, 0]
        for s in range(2)
        for m in range(d)
    )
    steps = [check("The output is a sum of products v·a_m of linear forms at every token s:", output, forms)]
    expanded = sp.Poly(sp.expand(output), *X)
    for m in range(d):
        for k in range(d):
            for n in range(k, d):
                found = expanded.coeff_monomial(X[k, 1] * X[n, 1] * X[m, 0])
                cross = V[0, k] * A[n, m] + V[0, n] * A[k, m]
                because = f"Coefficient of x_{k + 1} x_{n + 1} of token 2 times x_{m + 1} of token 1:"
                steps.append(check(because, found, cross if k < n else V[0, k] * A[k, m]))
    return _proof(
        "coefficients",
        f"For two tokens and d = {d}, the function determines all V_ik A_lm + V_il A_km and is determined by them.",
        steps,
        "Rows of V are alike, and so are more tokens: the coefficient map is (A, V) ↦ (v_i·a_m).",
    )


def _vectors() -> tuple[Expr, ...]:
    matrix, L = sympy().MatrixSymbol, letters()
    return matrix("e", L.e, 1), *(matrix(x, L.d, 1) for x in "fghu")


def _swap() -> Proof:
    L = letters()
    e, f, g, h, _ = _vectors()
    number = L.sigma * sympy().Identity(1)
    network = dot(dot(e, f.T), L.X, L.X.T, dot(g, h.T), L.X)
    return _proof(
        "swap",
        "For V = e fᵀ and A = g hᵀ, swapping f and g gives the same function, for all sizes.",
        [
            check("The network contains a 1×1 matrix:", network, dot(e, dot(f.T, L.X, L.X.T, g), h.T, L.X)),
            check("whose transpose has f and g swapped:", flip(dot(f.T, L.X, L.X.T, g)), dot(g.T, L.X, L.X.T, f)),
            check("A 1×1 matrix is its own transpose:", flip(number), number),
            check("In coefficients:", _entry("efgh"), _entry("egfh")),
        ],
        "So V = e gᵀ, A = f hᵀ is a second preimage; it is another one, up to rescaling, unless f and g are parallel.",
    )


def _entry(names: str) -> Expr:
    """V_ik A_lm + V_il A_km for V = e fᵀ and A = g hᵀ, with the four letters given."""
    sp = sympy()
    i, k, n, m = sp.symbols("i k l m", integer=True)
    e, f, g, h = (sp.IndexedBase(x) for x in names)
    return e[i] * f[k] * g[n] * h[m] + e[i] * f[n] * g[k] * h[m]


def _kernel_vectors() -> Proof:
    L, sp = letters(), sympy()
    e, f, _, h, u = _vectors()
    A = sp.MatrixSymbol("A", L.d, L.d)
    along = plus(dot(L.V, L.X, L.X.T, A, L.X), dot(L.V, L.X, L.X.T, -A, L.X))
    aligned = plus(dot(dot(e, u.T), L.X, L.X.T, dot(f, h.T), L.X), dot(dot(e, f.T), L.X, L.X.T, dot(-1, u, h.T), L.X))
    numbers = plus(
        dot(e, dot(u.T, L.X, L.X.T, f), h.T, L.X), dot(-1, e, dot(f.T, L.X, L.X.T, u), h.T, L.X)
    )  # fmt: skip
    return _proof(
        "kernel vectors",
        "The differential (W, B) ↦ W X Xᵀ A X + V X Xᵀ B X kills (V, −A), and (e uᵀ, −u hᵀ) at V = e fᵀ, A = f hᵀ.",
        [
            check("Rescaling:", along, sp.ZeroMatrix(L.e, L.t)),
            check("Aligned rank one, with 1×1 matrices in the middle:", aligned, numbers),
            check("transposes of each other, so equal:", flip(dot(u.T, L.X, L.X.T, f)), dot(f.T, L.X, L.X.T, u)),
            check("In coefficients, W gives what B takes away:", _entry("eufh"), _entry("efuh")),
        ],
        "So the kernel has dimension at least 1, and at least d for aligned rank one.",
    )


def kernel(layer: Layer, rank_a: int, rank_v: int, aligned: bool | None) -> list[Any]:
    """Return a basis over Q of the kernel of the differential at a normal form of a stratum, by SymPy.

    A is diag(1, …, 1, 0, …, 0); V has unit rows, the first ones unless ``aligned`` is False, then the last ones. All
    matrices are allowed as directions; the d'·d entries of W come first, row-major, then those of B.
    """
    sp = sympy()
    d, e = layer.d, layer.d_out
    A = sp.diag(*[int(k < rank_a) for k in range(d)])
    shift = d - rank_v if aligned is False else 0
    V = sp.zeros(e, d)
    for i in range(rank_v):
        V[i, i + shift] = 1
    W, B = _matrix("W", e, d), _matrix("B", d, d)
    images = [
        (W[i, k] * A[n, m] + W[i, n] * A[k, m] + V[i, k] * B[n, m] + V[i, n] * B[k, m]) / (2 if k == n else 1)
        for i in range(e)
        for m in range(d)
        for k in range(d)
        for n in range(k, d)
    ]
    J = sp.Matrix(images).jacobian([*W, *B])
    null = sp.polys.matrices.DomainMatrix.from_Matrix(J).to_field().nullspace()
    return list(null.to_Matrix().tolist())


def _kernels(d: int, d_out: int) -> Proof:
    """Dimensions of the kernels at normal forms, as SymPy finds them, against those that the theory states."""
    sp, layer, steps = sympy(), Layer(d, d_out, d), []
    for r in range(d + 1):
        for s in range(min(d, d_out) + 1):
            cases: tuple[bool | None, ...] = ((False, True) if d > 1 else (True,)) if r == s == 1 else (None,)
            for aligned in cases:
                stated = d if aligned else 1
                if r * s == 0:
                    stated = (0 if r else d_out * d) + (0 if s else d * d)
                position = {None: "", True: ", aligned", False: ", unaligned"}[aligned]
                found = len(kernel(layer, r, s, aligned))
                because = f"Kernel at a normal form with rank A = {r}, rank V = {s}{position}:"
                steps.append(check(because, sp.Integer(found), sp.Integer(stated)))
    return _proof(
        "kernels",
        f"For d = {d}, d' = {d_out}, in all directions: the kernel is the rescaling, or d-dimensional for aligned"
        " rank one; where A or V is zero it consists of the directions of the other.",
        steps,
        "The vectors above are therefore the whole kernel at these points.",
    )
