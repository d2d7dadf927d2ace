"""Virtual weights of attention networks with one head a layer: what of the weights the function depends on.

With A_i = K_iᵀQ_i, L_i = V_i…V_1 and L_0 = 1, the network depends on M_i = L_{i-1}ᵀ A_i L_{i-1} for i = 1 … l and on
L = L_l only. Tokens behind layer i are L_i X R_i, where R_i = R_{i-1} s(R_{i-1}ᵀ Xᵀ M_i X R_{i-1}), s being the mask
or softmax of the scores. (M, L) comes from weights of given sizes if and only if rank M_i ≤ a_i and, for every hidden
width d_i, the rows and columns of M_{i+1} … M_l and the rows of L span at most d_i dimensions: :func:`from_virtual`
then finds such weights.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from ffrank import linalg
from ffrank.errors import InputError, ShapeError
from ffrank.geometry.equations import Proof, check, dot, flip, letters, sympy
from ffrank.geometry.matrices import Field, listed
from ffrank.geometry.tangents import independent_rows
from ffrank.geometry.weights import read_target, weights_dict
from ffrank.models import build_program
from ffrank.models.spec import AttentionSpec
from ffrank.primes import DEFAULT_PRIME, check_prime
from ffrank.program.evaluate import Evaluator
from ffrank.program.ir import Builder, Program
from ffrank.program.points import draw_points, draw_theta

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Matrix = NDArray[Any]

__all__ = [
    "VirtualDimension",
    "VirtualWeights",
    "factors_through",
    "from_virtual",
    "to_virtual",
    "virtual_dimension",
    "virtual_program",
    "virtual_proof",
    "virtual_spec",
]


@dataclass(frozen=True)
class VirtualWeights:
    """M_1 … M_l and L, entries as they were given: fractions, residues or symbols.

    Attributes
    ----------
    M
        Matrices of shape (d_0, d_0), one a layer.
    L
        Shape (d_l, d_0).
    """

    M: tuple[Matrix, ...]
    L: Matrix

    def named(self) -> dict[str, Matrix]:
        """The matrices by the parameter names of :func:`virtual_program`."""
        return {f"M{i}": M for i, M in enumerate(self.M, 1)} | {"L": self.L}

    def to_json(self) -> str:
        """The matrices as JSON; not for symbols."""
        return json.dumps({name: listed(x) for name, x in self.named().items()}, indent=2) + "\n"


def virtual_spec(spec: Any) -> AttentionSpec:
    """Read a spec whose networks have virtual weights.

    Raises
    ------
    InputError
        If it has several heads, a skip connection, a norm, an MLP, or biases of queries and keys.
    """
    architecture = read_target(spec)[1]
    plain = (
        isinstance(architecture, AttentionSpec)
        and architecture.heads == 1
        and architecture.norm == "none"
        and architecture.mlp_width is None
        and not (architecture.residual or architecture.qk_bias)
    )
    if not plain:
        raise InputError("virtual weights: expected attention with one head, without skip, norm, MLP and qk_bias")
    assert isinstance(architecture, AttentionSpec)
    return architecture


def to_virtual(spec: Any, W: Mapping[str, Any], *, prime: SupportsIndex | None = None) -> VirtualWeights:
    """Compute the virtual weights of weights.

    Parameters
    ----------
    spec : mapping, path, or spec
        As for :func:`virtual_spec`.
    W : mapping
        Arrays by name: integers or fractions (see ``read_weights`` and ``weights_dict`` for floats and files), or
        symbols of SymPy, for which entries are left unexpanded.
    prime
        Compute mod this prime instead of over Q.

    Raises
    ------
    InputError, ShapeError
        If the spec has no virtual weights, or a matrix is missing or has another shape.
    """
    architecture = virtual_spec(spec)
    p = None if prime is None else check_prime(prime)
    L, Ms = None, []
    program = build_program(architecture)
    for i in range(1, architecture.layers + 1):
        Q, K = (_matrix(W, f"layer{i}.head1.{x}", program) for x in "QK")
        names = ["V"] if architecture.value_dim is None else ["O", "U"]
        values = [_matrix(W, f"layer{i}.head1.{x}", program) for x in names]
        V = values[0] if len(values) == 1 else _residues(values[0] @ values[1], p)
        A = _residues(K.T @ Q, p)
        Ms.append(A if L is None else _residues(L.T @ _residues(A @ L, p), p))
        L = V if L is None else _residues(V @ L, p)
    assert L is not None
    return VirtualWeights(tuple(_residues(M, p) for M in Ms), _residues(L, p))


def _matrix(W: Mapping[str, Any], name: str, program: Program) -> Matrix:
    shape = dict(program.parameters)[name]
    if name not in W:
        raise InputError(f"weights: expected {name}, which is missing")
    found = np.asarray(W[name], dtype=object)
    if found.shape != shape:
        raise ShapeError(f"{name}: expected shape {shape}, got {found.shape}")
    return found


def _residues(A: Matrix, p: int | None) -> Matrix:
    if p is None:
        return A
    field = Field(p)
    return field.read(A) if any(not isinstance(x, int) for x in A.flat) else field.reduce(A)


def from_virtual(spec: Any, virtual: VirtualWeights, *, prime: SupportsIndex | None = None) -> dict[str, Matrix]:
    """Find weights with given virtual weights: a section of :func:`to_virtual`.

    Parameters
    ----------
    spec : mapping, path, or spec
    virtual : VirtualWeights
        Over Q, or residues if ``prime`` is given.

    Returns
    -------
    dict
        Arrays by name. Equal virtual weights give equal weights.

    Raises
    ------
    ShapeError
        If shapes do not fit.
    InputError
        If no weights of these sizes have these virtual weights; this is then certain.
    """
    architecture = virtual_spec(spec)
    field = Field(None if prime is None else check_prime(prime))
    d, layers = architecture.widths[0], architecture.layers
    Ms, L = [field.read(M) for M in virtual.M], field.read(virtual.L)
    if [M.shape for M in Ms] != [(d, d)] * layers or L.shape != (architecture.widths[-1], d):
        raise ShapeError(f"virtual weights: expected {layers} matrices of shape {(d, d)} and one of {(L.shape[0], d)}")
    W: dict[str, Matrix] = {}
    pivots = list(range(d))  # of the echelon form of the rows that layers from i on see
    for i in range(1, layers + 1):
        n, m, a = architecture.widths[i - 1], architecture.widths[i], architecture.attention_dims[i - 1]
        A = _padded(field, Ms[i - 1][np.ix_(pivots, pivots)], n, n)
        left, right = _rank_factors(field, A, a, f"rank M_{i} ≤ attention_dims[{i - 1}]")
        W[f"layer{i}.head1.Q"], W[f"layer{i}.head1.K"] = right, left.T.copy()
        if i < layers:
            following, pivots_after = field.rref(np.vstack([x for M in Ms[i:] for x in (M, M.T)] + [L]))
            if len(following) > m:
                raise InputError(
                    f"virtual weights: layers after {i} see {len(following)} dimensions, more than width {m}"
                )
            V = _padded(field, following[:, pivots], m, n)
            pivots = pivots_after
        else:
            V = _padded(field, L[:, pivots], m, n)
        v = architecture.value_dim
        if v is None:
            W[f"layer{i}.head1.V"] = V
        else:
            outer, inner = _rank_factors(field, V, v, f"rank of the values of layer {i} ≤ value_dim")
            W[f"layer{i}.head1.U"], W[f"layer{i}.head1.O"] = inner, outer
    return W


def _padded(field: Field, A: Matrix, rows: int, columns: int) -> Matrix:
    out = field.zeros(rows, columns)
    out[: A.shape[0], : A.shape[1]] = A
    return out


def _rank_factors(field: Field, A: Matrix, inner: int, need: str) -> tuple[Matrix, Matrix]:
    """A = left·right with the inner dimension given: pivot columns, and the echelon form."""
    R, pivots = field.rref(A)
    if len(R) > inner:
        raise InputError(f"virtual weights: expected {need} = {inner}, got rank {len(R)}")
    return _padded(field, A[:, pivots], A.shape[0], inner), _padded(field, R, inner, A.shape[1])


# -------------------------------------------------------------------------------------------- the program


def virtual_program(spec: Any) -> Program:
    """The network as a map of its virtual weights: parameters M1 … Ml and L, input X."""
    architecture = virtual_spec(spec)
    d, t, layers = architecture.widths[0], architecture.tokens, architecture.layers
    shapes = [(f"M{i}", (d, d)) for i in range(1, layers + 1)] + [("L", (architecture.widths[-1], d))]
    builder = Builder(shapes, [("X", (d, t))])
    z = layers + 1  # X R_i
    for i in range(layers):
        s = builder.matmul(builder.matmul(builder.transpose(z, (1, 0)), i), z)
        if architecture.score == "softmax":
            s = builder.exp(s)
        if architecture.causal:
            s = builder.mul(s, builder.const((t, t), [int(k <= q) for k in range(t) for q in range(t)]))
        if architecture.score != "lightning":
            s = builder.mul(s, builder.broadcast(builder.recip(builder.sum(s, 0)), (t, t)))
        z = builder.matmul(z, s)
    return builder.finish(builder.matmul(layers, z))


def factors_through(spec: Any, *, prime: SupportsIndex = DEFAULT_PRIME, seed: int = 0, points: int = 8) -> bool:
    """Whether f(W, X) = F(to_virtual(W), X) at random W and X mod p; formal exponentials take the same values in both.

    A check, not a proof: see :func:`virtual_proof`. Two different maps would pass by chance only.
    """
    architecture, p = virtual_spec(spec), check_prime(prime, above=2)
    program, short = build_program(architecture), virtual_program(architecture)
    theta = draw_theta(program, p, seed)
    drawn = draw_points(program, p, seed, theta, range(1, points + 1))
    virtual = to_virtual(architecture, _cut(program, theta), prime=p)
    compressed = np.array([x for M in virtual.named().values() for x in M.flat], dtype=np.int64)
    sides = [Evaluator(program, p, theta), Evaluator(short, p, compressed)]
    nodes = [[side.program.output, *_exponents(side.program)] for side in sides]
    long, brief = (
        [side.values(drawn.inputs, drawn.draws, n) for n in ns] for side, ns in zip(sides, nodes, strict=True)
    )
    return all(np.array_equal(x, y) for x, y in zip(long, brief, strict=True))


def _exponents(program: Program) -> list[int]:
    return [i.operands[0] for i in program.instructions if i.op == "exp"]


def _cut(program: Program, theta: NDArray[np.int64]) -> dict[str, Matrix]:
    return weights_dict(program, [int(x) for x in theta])


def virtual_proof() -> Proof:
    """Prove for symbolic sizes that a layer keeps the form L X R of tokens and sees A as LᵀAL only.

    Induction over the layers: with R = 1, L = 1 the claim holds for the input.
    """
    L, matrix = letters(), sympy().MatrixSymbol
    up, A, R, S = matrix("L", L.e, L.d), matrix("A", L.e, L.e), matrix("R", L.t, L.t), matrix("S", L.t, L.t)
    V = matrix("V", L.e2, L.e)
    tokens = dot(up, L.X, R)
    return Proof(
        "virtual-weights",
        "If the tokens entering a layer are L X R, its scores depend on M = LᵀAL, and its output is (VL) X (RS).",
        (),
        (),
        (
            check(
                "Scores of the tokens L X R:", dot(flip(tokens), A, tokens), dot(R.T, L.X.T, dot(up.T, A, up), L.X, R)
            ),
            check("With weights S made of them:", dot(V, tokens, S), dot(dot(V, up), L.X, dot(R, S))),
        ),
        "By induction the network is L_l X R_l, where R_l depends on X and M_1 … M_l only.",
    )


# ------------------------------------------------------------------------------------------- the dimension


@dataclass(frozen=True)
class VirtualDimension:
    """The dimension by way of virtual weights, beside the rank of the Jacobian.

    Attributes
    ----------
    variety
        Generic rank of W ↦ (M, L): the dimension of the variety of virtual weights.
    scalings
        Rescalings that are left: one a layer, of (M_i, L) for lightning and of M_i for normalized scores; else 0.
    jacobian
        Rank of the Jacobian of W ↦ f.
    prime, seed
        Where ranks were computed.
    """

    variety: int
    scalings: int
    jacobian: int
    prime: int
    seed: int

    @property
    def dimension(self) -> int:
        """Variety less scalings: the dimension if virtual weights have no other freedom."""
        return self.variety - self.scalings

    @property
    def agrees(self) -> bool:
        """Whether generic virtual weights are determined by the function up to rescaling and finite choice."""
        return self.dimension == self.jacobian

    def to_json(self) -> str:
        """The result as JSON."""
        content = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return json.dumps(content | {"dimension": self.dimension, "agrees": self.agrees}, indent=2) + "\n"


def virtual_dimension(spec: Any, *, prime: SupportsIndex = DEFAULT_PRIME, seed: int = 0) -> VirtualDimension:
    """Compute the dimension of the variety of virtual weights, and compare with the rank of the Jacobian.

    Both ranks can only be too small, at an unlucky point or prime. The dimension less scalings is an upper bound for
    the dimension of the set of functions; it is larger where only the symmetric part of some M_i is seen.
    """
    architecture, p = virtual_spec(spec), check_prime(prime, above=2)
    program, chart = build_program(architecture), _chart(architecture)
    theta = draw_theta(program, p, seed)
    differential = Evaluator(chart, p, theta).jacobian(np.empty((1, 0), np.int64))
    J = independent_rows(program, p, seed, theta, program.parameter_count)
    scalings = 0 if architecture.score == "softmax" else architecture.layers
    return VirtualDimension(linalg.rank(differential, p), scalings, J.rank, p, seed)


def _chart(architecture: AttentionSpec) -> Program:
    """W ↦ (M_1, …, M_l, L) as one list of entries."""
    program = build_program(architecture)
    builder = Builder(program.parameters, [])
    nodes = {name: node for node, (name, _) in enumerate(program.parameters)}
    parts, L = [], None
    for i in range(1, architecture.layers + 1):
        head = f"layer{i}.head1."
        A = builder.matmul(builder.transpose(nodes[head + "K"], (1, 0)), nodes[head + "Q"])
        if L is not None:
            A = builder.matmul(builder.matmul(builder.transpose(L, (1, 0)), A), L)
        V = (
            nodes[head + "V"]
            if architecture.value_dim is None
            else builder.matmul(nodes[head + "O"], nodes[head + "U"])
        )
        L = V if L is None else builder.matmul(V, L)
        parts.append(A)
    assert L is not None
    flat: Sequence[int] = [builder.reshape(x, (int(np.prod(builder.shapes[x])),)) for x in (*parts, L)]
    return builder.finish(builder.concat(0, flat))
