"""Why each symmetry rule holds: proofs for symbolic sizes, carried out by SymPy.

Every rule of section 6 of ``certificate/FORMAT.md`` is a vector field on the parameters along which the
network does not change. Here each is proven once for all sizes; where the field comes from a group, the
finite action is proven as well, exactly.

A proof reaches from the weights that move to the first quantity that stays: scores, a head's output, what the
next layer makes of its input. Whatever the network does with that quantity is the same on both sides. Several
heads enter as one block row [V_1 … V_H], so that nothing depends on their number.
"""

from __future__ import annotations

from ffrank.errors import InputError
from ffrank.geometry.claims import CLAIMS
from ffrank.geometry.equations import (
    Change,
    Claim,
    Expr,
    Letters,
    Move,
    Proof,
    Step,
    check,
    dot,
    flip,
    letters,
    plus,
    sympy,
)

__all__ = ["RULES", "Proof", "Step", "check", "letters", "prove"]


def prove(rule: str, *, field: Change | None = None, action: Change | None = None) -> Proof:
    """Prove a symmetry rule for all sizes.

    Parameters
    ----------
    rule
        A name of :data:`RULES`.
    field, action
        Another vector field (parameter → derivative), or another finite action (parameter → replacement), in
        the symbols of :func:`letters`, put to the same test; parameters left out stay. By default those of
        the format.

    Returns
    -------
    Proof
        Its ``holds`` says whether every step went through. A rule that does not hold is not expected to pass.

    Raises
    ------
    InputError
        If there is no such rule.
    """
    if rule not in _CLAIMS:
        raise InputError(f"expected one of the rules {', '.join(RULES)}; got {rule!r}")
    claim, L = _CLAIMS[rule], letters()
    if field is None and action is None:
        field, action = claim.field(L), claim.action(L)
    finite = dict(action or {})
    near = {old: _near(old, change) for old, change in (field or {}).items()}
    steps: list[Step] = []
    if finite or not near:
        steps += claim.steps(L, Move(finite, first_order=False))
    if near:
        steps += claim.steps(L, Move(near, first_order=True))
    return Proof(rule, claim.statement, tuple(finite.items()), tuple(near.items()), tuple(steps), claim.conclusion)


def _near(old: Expr, change: Expr) -> Expr:
    moved = letters().eps * change
    return plus(old, moved) if getattr(old, "is_Matrix", False) else old + moved


def _affine(W: Expr, X: Expr, b: Expr, ones: Expr) -> Expr:
    return plus(dot(W, X), dot(b, ones))


def _general_linear(L: Letters, move: Move) -> list[Step]:
    scores = dot(flip(dot(move(L.K), L.X)), dot(move(L.Q), L.X))
    return [
        move.step("The product of keys and queries stays:", dot(flip(move(L.K)), move(L.Q)), dot(L.K.T, L.Q)),
        move.step("Hence so do the scores:", scores, dot(flip(dot(L.K, L.X)), dot(L.Q, L.X))),
    ]


def _general_linear_bias(L: Letters, move: Move) -> list[Step]:
    keys, queries = _affine(L.K, L.X, L.b_k, L.ones), _affine(L.Q, L.X, L.b_q, L.ones)
    moved_keys = _affine(move(L.K), L.X, move(L.b_k), L.ones)
    moved_queries = _affine(move(L.Q), L.X, move(L.b_q), L.ones)
    because = "The scores of biased keys and queries stay (1 is the row of ones):"
    return [move.step(because, dot(flip(moved_keys), moved_queries), dot(flip(keys), queries))]


def _one_by_one(L: Letters, because: str) -> Step:
    number = L.sigma * sympy().Identity(1)
    return check(because, flip(number), number)


def _split_orthogonal(L: Letters, move: Move) -> list[Step]:
    A, moved, skew = dot(L.K.T, L.Q), dot(flip(move(L.K)), move(L.Q)), {L.G.T: -L.G, L.H.T: -L.H}
    form, moved_form, token = dot(L.u.T, A, L.u), dot(L.u.T, moved, L.u), dot(L.u, L.w.T)
    scores = dot(flip(token), A, token)
    return [
        check("Tokens X = u wᵀ see KᵀQ only through the 1×1 matrix uᵀKᵀQu:", scores, dot(L.w, form, L.w.T)),
        _one_by_one(L, "A 1×1 matrix is its own transpose, so uᵀKᵀQu is half of itself plus its transpose:"),
        check("which sees only the symmetric part:", plus(form, flip(form)), dot(L.u.T, plus(A, flip(A)), L.u)),
        move.step("As Gᵀ = −G and Hᵀ = −H, that part stays:", plus(moved, flip(moved)), plus(A, flip(A)), skew),
        move.step("and so does the number:", plus(moved_form, flip(moved_form)), plus(form, flip(form)), skew),
    ]


def _split_orthogonal_bias(L: Letters, move: Move) -> list[Step]:
    keys, queries = plus(dot(L.K, L.x), L.b_k), plus(dot(L.Q, L.x), L.b_q)
    moved_keys = plus(dot(move(L.K), L.x), move(L.b_k))
    moved_queries = plus(dot(move(L.Q), L.x), move(L.b_q))
    score, moved = dot(flip(keys), queries), dot(flip(moved_keys), moved_queries)
    along_keys = plus(dot(L.F, keys), dot(L.G, queries))
    along_queries = plus(dot(L.H, keys), dot(-1, L.F.T, queries))
    skew = {L.G.T: -L.G, L.H.T: -L.H}
    return [
        move.step("The key of the token x mixes with its query:", moved_keys, plus(keys, L.eps * along_keys)),
        move.step("and the query with the key:", moved_queries, plus(queries, L.eps * along_queries)),
        _one_by_one(L, "The only score is a 1×1 matrix, so it is half of itself plus its transpose:"),
        move.step("which stays, as Gᵀ = −G and Hᵀ = −H:", plus(moved, flip(moved)), plus(score, flip(score)), skew),
    ]


def _rescaling(L: Letters, move: Move) -> list[Step]:
    factor, product = move.factor(L.c), sympy().Mul
    keys, queries = _affine(L.K, L.X, L.b_k, L.ones), _affine(L.Q, L.X, L.b_q, L.ones)
    moved = dot(flip(keys), _affine(move(L.Q), L.X, move(L.b_q), L.ones))
    masked = product(L.mu, product(factor, L.sigma, evaluate=False), evaluate=False)
    unmasked = product(factor, product(L.mu, L.sigma, evaluate=False), evaluate=False)
    return [
        move.step("All scores take one factor (biases may be 0):", moved, dot(factor, dot(flip(keys), queries))),
        move.step("which passes through an entry μ of a mask:", masked, unmasked),
        move.step("and the values V undo:", dot(move(L.V), L.X, dot(factor, L.S)), dot(L.V, L.X, L.S)),
        move.step("or O undoes:", dot(move(L.O), L.U, L.X, dot(factor, L.S)), dot(L.O, L.U, L.X, L.S)),
    ]


def _value_basis(L: Letters, move: Move) -> list[Step]:
    return [move.step("The product of the value factors stays:", dot(move(L.O), move(L.U)), dot(L.O, L.U))]


def _attention_basis(L: Letters, move: Move) -> list[Step]:
    basis = move.basis(L.g_e, L.C)
    because = "The attention's output B N, with B = [V_1 … V_H] or [O_1 … O_H], is transformed:"
    return [
        move.step(because, dot(move(L.B), L.N), dot(basis, dot(L.B, L.N))),
        move.step("and the MLP's first map undoes it:", dot(move(L.W1), dot(basis, L.Z)), dot(L.W1, L.Z)),
    ]


def _neuron_basis(L: Letters, move: Move) -> list[Step]:
    because = "Without a nonlinearity only the product counts:"
    return [move.step(because, dot(move(L.W2), move(L.W1)), dot(L.W2, L.W1))]


def _neuron_scaling(L: Letters, move: Move) -> list[Step]:
    total, factor = sympy().Sum, move.factor(L.c_n)
    entries, neurons = (L.i, 0, L.e - 1), (L.n, 0, L.m - 1)
    before = total(L.W1[L.n, L.i] * L.Z[L.i, L.j], entries) + L.b_n[L.n, 0]
    moved = total(move(L.W1[L.n, L.i]) * L.Z[L.i, L.j], entries) + move(L.b_n[L.n, 0])
    out, old = move(L.W2[L.o, L.n]) * (factor * L.y_nj) ** L.k, L.W2[L.o, L.n] * L.y_nj**L.k
    return [
        move.step("Neuron n at token j takes a factor (the bias may be 0):", moved, factor * before),
        move.step("With y for its old value, its outgoing weights undo the k-th power of the factor:", out, old),
        move.step("Summed over all neurons, output o stays:", total(out, neurons), total(old, neurons)),
    ]


def _layer_basis(L: Letters, move: Move) -> list[Step]:
    basis = move.basis(L.g_e, L.C)
    moved = _affine(move(L.B), L.N, move(L.b), L.ones)
    readers = {"queries": L.Q2, "keys": L.K2, "values": L.V2, "inner values": L.U2, "neurons": L.W}
    return [
        move.step(
            "The output B N (+ b 1 with bias), with B = [V_1 … V_H], [O_1 … O_H], W2 or W, is transformed:",
            moved,
            dot(basis, _affine(L.B, L.N, L.b, L.ones)),
        ),
        move.step("without bias as well:", dot(move(L.B), L.N), dot(basis, dot(L.B, L.N))),
        *(
            move.step(f"The next layer's {name} stay:", dot(move(W), dot(basis, L.Z)), dot(W, L.Z))
            for name, W in readers.items()
        ),
    ]


def _translation(L: Letters, move: Move) -> list[Step]:
    shift = dot(L.eps * L.s if move.first_order else L.s, L.ones)
    hidden = _affine(L.B, L.N, L.b, L.ones)
    following = _affine(move(L.W), plus(L.Z, shift), move(L.b2), L.ones)
    return [
        move.step("Every token is shifted:", _affine(L.B, L.N, move(L.b), L.ones), plus(hidden, shift)),
        move.step("and the next bias undoes it:", following, _affine(L.W, L.Z, L.b2, L.ones)),
    ]


def _rank_one_tokens(L: Letters, _: Move) -> list[Step]:
    token, square, row = dot(L.u, L.w.T), dot(L.w, L.w.T), dot(L.w.T, L.R)
    masked = sympy().HadamardProduct
    scores = dot(flip(token), dot(L.K.T, L.Q), token)
    thin = sympy().MatrixSymbol("Q", 1, L.d)
    thin_keys = sympy().MatrixSymbol("K", 1, L.d)
    p, w = L.p_n, L.w[L.j, 0]
    return [
        check(
            "The scores of X = u wᵀ are a 1×1 matrix, a number σ, between w and wᵀ:",
            scores,
            dot(L.w, dot(L.u.T, L.K.T, L.Q, L.u), L.w.T),
        ),
        check(
            "A mask M leaves σ, which depends on the head, in front of R = M∘(w wᵀ), which does not:",
            masked(L.M, L.sigma * square)[L.i, L.j],
            L.sigma * masked(L.M, square)[L.i, L.j],
        ),
        check(
            "So every head gives its values a column times the same row wᵀR:",
            dot(token, L.sigma * L.R),
            dot(L.sigma * L.u, row),
        ),
        check(
            "With the columns σu of all heads stacked into y, the block row B of values makes this:",
            dot(L.B, dot(L.y, row)),
            dot(dot(L.B, L.y), row),
        ),
        check(
            "Entry (n, j) of the k-th power of a column p times wᵀ is a product, so an MLP keeps the form:",
            (p * w) ** L.k,
            p**L.k * w**L.k,
        ),
        check(
            "One head with a = 1 and no mask brings any tokens to this form:",
            dot(L.V, L.X, dot(flip(dot(thin_keys, L.X)), dot(thin, L.X))),
            dot(dot(L.V, L.X, L.X.T, thin_keys.T), dot(thin, L.X)),
        ),
    ]


def _nothing(_: Letters) -> Change:
    return {}


def _readers(L: Letters) -> tuple[Expr, ...]:
    return (L.Q2, L.K2, L.V2, L.U2, L.W)


_SCORES = "The layer sees these weights only through the scores, whatever it does with them."
_CLAIMS: dict[str, Claim] = {
    "general-linear": Claim(
        "The basis of the score space can be changed by any invertible g (any E).",
        _SCORES,
        lambda L: {L.Q: L.E * L.Q, L.K: -L.E.T * L.K},
        lambda L: {L.Q: dot(L.g, L.Q), L.K: dot(flip(L.g.I), L.K)},
        _general_linear,
    ),
    "general-linear-bias": Claim(
        "Biases of queries and keys take part in the change of basis of the score space.",
        _SCORES,
        lambda L: {L.Q: L.E * L.Q, L.K: -L.E.T * L.K, L.b_q: L.E * L.b_q, L.b_k: -L.E.T * L.b_k},
        lambda L: {x: dot(L.g if x in (L.Q, L.b_q) else flip(L.g.I), x) for x in (L.Q, L.K, L.b_q, L.b_k)},
        _general_linear_bias,
    ),
    "split-orthogonal": Claim(
        "If the tokens entering the layer have rank ≤ 1, X = u wᵀ, the orthogonal group of the form KᵀQ + QᵀK"
        " mixes keys and queries: any F, any skew G and H.",
        _SCORES,
        lambda L: {L.K: L.F * L.K + L.G * L.Q, L.Q: L.H * L.K - L.F.T * L.Q},
        _nothing,
        _split_orthogonal,
    ),
    "split-orthogonal-bias": Claim(
        "For a single token the orthogonal group acts on biased keys and queries: any F, any skew G and H.",
        _SCORES,
        lambda L: {
            L.K: L.F * L.K + L.G * L.Q,
            L.Q: L.H * L.K - L.F.T * L.Q,
            L.b_k: L.F * L.b_k + L.G * L.b_q,
            L.b_q: L.H * L.b_k - L.F.T * L.b_q,
        },
        _nothing,
        _split_orthogonal_bias,
    ),
    "rescaling": Claim(
        "Scores that are not normalised can be scaled by any c ≠ 0 and the values inversely.",
        "The head's output stays, and no other head moves.",
        lambda L: {L.Q: L.c * L.Q, L.b_q: L.c * L.b_q, L.V: -L.c * L.V, L.O: -L.c * L.O},
        lambda L: {L.Q: L.c * L.Q, L.b_q: L.c * L.b_q, L.V: L.V / L.c, L.O: L.O / L.c},
        _rescaling,
    ),
    "value-basis": Claim(
        "The inner basis of factored values can be changed by any invertible g (any E).",
        "The head sees U and O only through this product.",
        lambda L: {L.U: L.E_v * L.U, L.O: -L.O * L.E_v},
        lambda L: {L.U: dot(L.g_v, L.U), L.O: dot(L.O, L.g_v.I)},
        _value_basis,
    ),
    "attention-basis": Claim(
        "Between attention and MLP, without a skip, the basis can be changed by any invertible g (any C).",
        "The MLP reads its input only through the first map.",
        lambda L: {L.B: L.C * L.B, L.W1: -L.W1 * L.C},
        lambda L: {L.B: dot(L.g_e, L.B), L.W1: dot(L.W1, L.g_e.I)},
        _attention_basis,
    ),
    "neuron-basis": Claim(
        "The hidden basis of an MLP without nonlinearity can be changed by any invertible g (any C).",
        "The MLP is this product.",
        lambda L: {L.W1: L.C_m * L.W1, L.W2: -L.W2 * L.C_m},
        lambda L: {L.W1: dot(L.g_m, L.W1), L.W2: dot(L.W2, L.g_m.I)},
        _neuron_basis,
    ),
    "neuron-scaling": Claim(
        "With the k-th power as activation, neuron n is scaled by c_n ≠ 0, its outgoing weights by c_n^−k.",
        "Every output stays, at every token.",
        lambda L: {
            L.W1[L.n, L.i]: L.c_n * L.W1[L.n, L.i],
            L.b_n[L.n, 0]: L.c_n * L.b_n[L.n, 0],
            L.W2[L.o, L.n]: -L.k * L.c_n * L.W2[L.o, L.n],
        },
        lambda L: {
            L.W1[L.n, L.i]: L.c_n * L.W1[L.n, L.i],
            L.b_n[L.n, 0]: L.c_n * L.b_n[L.n, 0],
            L.W2[L.o, L.n]: L.c_n ** (-L.k) * L.W2[L.o, L.n],
        },
        _neuron_scaling,
    ),
    "layer-basis": Claim(
        "Between two layers, without a skip, the basis can be changed by any invertible g (any C).",
        "The next layer reads its input only through these products.",
        lambda L: {L.B: L.C * L.B, L.b: L.C * L.b} | {W: -W * L.C for W in _readers(L)},
        lambda L: {x: dot(L.g_e, x) for x in (L.B, L.b)} | {W: dot(W, L.g_e.I) for W in _readers(L)},
        _layer_basis,
    ),
    "translation": Claim(
        "A linear hidden layer with bias can be shifted by any s.",
        "The next layer's output stays.",
        lambda L: {L.b: L.s, L.b2: -L.W * L.s},
        lambda L: {L.b: L.b + L.s, L.b2: L.b2 - L.W * L.s},
        _translation,
    ),
    "rank-one-tokens": Claim(
        "A layer without skip and without biases of queries and keys keeps the form u wᵀ of its tokens.",
        "A column times a row has rank ≤ 1. Where a width, the MLP, or the values of a single head have"
        " inner size 1, the output is such a product as it stands.",
        _nothing,
        _nothing,
        _rank_one_tokens,
    ),
    **CLAIMS,
}

#: The rules of section 6 of the format, some in variants, and the lemma behind split-orthogonal.
RULES: tuple[str, ...] = tuple(_CLAIMS)
