"""Claims behind the symmetry rules for heads that mix, directions that nothing reaches, normalised scores, and norms.

They are proven by :func:`ffrank.geometry.proofs.prove`, in the same way as the others. The rows and columns of ones
of a proof are all written 1.
"""

from __future__ import annotations

from ffrank.geometry.equations import Change, Claim, Expr, Letters, Move, Step, check, dot, flip, plus, sympy

__all__ = ["CLAIMS"]


def _nothing(_: Letters) -> Change:
    return {}


# -------------------------------------------------------------------------------------------- mixing heads


def _lift(L: Letters) -> Expr:
    """D with K_jᵀD = KᵀQ."""
    return dot(L.K_j, L.gram.I, L.K.T, L.Q)


def _head_mixing(L: Letters, move: Move) -> list[Step]:
    A, A_j = dot(L.K.T, L.Q), dot(L.K_j.T, L.Q_j)
    moved, moved_j = dot(flip(move(L.K)), move(L.Q)), dot(flip(move(L.K_j)), move(L.Q_j))
    factor = L.eps * L.c if move.first_order else L.c
    given = {L.K_j.T * L.K_j: L.gram}

    def output(V: Expr, form: Expr) -> Expr:
        return dot(V, L.X, L.X.T, form, L.X)

    kept = plus(output(L.V, A), output(L.V_j, A_j))
    taken = plus(A_j, dot(-factor, A))
    return [
        move.step("The scores of head h stay:", moved, A),
        move.step(
            "With N = K_jᵀK_j, invertible for a ≥ d, those of head j lose a multiple of them:", moved_j, taken, given
        ),
        move.step(
            "What the values of head h gain makes up for it:",
            plus(output(move(L.V), A), output(move(L.V_j), taken)),
            kept,
        ),
        check(
            "An entry μ of a mask changes nothing, as scores σ, ρ enter linearly:",
            L.mu * (L.rho - L.c * L.sigma) + L.c * L.mu * L.sigma,
            L.mu * L.rho,
        ),
    ]


# ----------------------------------------------------------------------------------- unreached directions


def _unreached(L: Letters, move: Move, readers: dict[str, Expr]) -> list[Step]:
    tokens = dot(L.reach, L.T)
    given = {L.nu * L.reach: sympy().ZeroMatrix(L.n_r, L.c_r)}
    kernel = plus(dot(-1, L.bottom, L.top.I, L.top), L.bottom)
    return [
        check("ν = [−R_2 R_1⁻¹, 1] kills R, made of R_1 over R_2:", kernel, sympy().ZeroMatrix(L.n_r, L.c_r)),
        *(
            move.step(f"The {name} of tokens R T stay, as νR = 0:", dot(move(W), tokens), dot(W, tokens), given)
            for name, W in readers.items()
        ),
    ]


def _layer_unreached(L: Letters, move: Move) -> list[Step]:
    readers = {"queries": L.Q2, "keys": L.K2, "values": L.V2, "inner values": L.U2, "neurons": L.W}
    before, inner = dot(L.X, L.S), dot(L.U, L.X, L.S)
    return [
        check("Values of a head whose tokens are R T reach VR only:", dot(L.V2, dot(L.reach, L.T), L.S),
              dot(dot(L.V2, L.reach), dot(L.T, L.S))),
        check("any tokens reach at most V,", dot(L.V, L.X, L.S), dot(L.V, before)),
        check("or O, for factored values:", dot(L.O, L.U, L.X, L.S), dot(L.O, inner)),
        *_unreached(L, move, readers),
    ]  # fmt: skip


def _attention_unreached(L: Letters, move: Move) -> list[Step]:
    return _unreached(L, move, {"neurons": L.W1})


# -------------------------------------------------------------------------------------- normalised scores


def _unseen_scores(L: Letters, move: Move) -> list[Step]:
    return [
        check("The only score σ, or exp(σ), is divided by itself:", _over(L.sigma, L.sigma), sympy().Integer(1)),
        move.step("so the output is the token's value:", dot(move(L.V), L.x), dot(L.V, L.x)),
        move.step("and likewise if values are factored:", dot(move(L.O), move(L.U), L.x), dot(L.O, L.U, L.x)),
    ]


def _unseen_scores_rank_one(L: Letters, move: Move) -> list[Step]:
    total, keys = sympy().Sum, (L.i, 0, L.t - 1)
    w_i, w_j, mask = L.w[L.i, 0], L.w[L.j, 0], L.M[L.i, L.j]
    token, scores = dot(L.u, L.w.T), dot(L.w, dot(L.u.T, flip(move(L.K)), move(L.Q), L.u), L.w.T)
    row = dot(L.w.T, L.R)
    return [
        move.step("Scores of X = u wᵀ are a number σ = uᵀKᵀQu, moved as it may be, between w and wᵀ:",
                  dot(flip(token), flip(move(L.K)), move(L.Q), token), scores),
        check("In the sum over keys, with a mask M, σ comes out:",
              total(mask * w_i * L.sigma * w_j, keys), L.sigma * w_j * total(mask * w_i, keys)),
        check("and cancels; τ stands for the sum of M_ij w_i:",
              _over(mask * w_i * L.sigma * w_j, L.sigma * w_j * L.tau), mask * w_i / L.tau),
        move.step("So weights R, and the values, do not move:", dot(move(L.V), L.u, row), dot(L.V, L.u, row)),
        move.step("or if values are factored:", dot(move(L.O), move(L.U), L.u), dot(L.O, L.U, L.u)),
    ]  # fmt: skip


def _affine(W: Expr, X: Expr, b: Expr, ones: Expr) -> Expr:
    return plus(dot(W, X), dot(b, ones))


def _over(numerator: Expr, denominator: Expr) -> Expr:
    """A quotient as written, not simplified."""
    sp = sympy()
    return sp.Mul(numerator, sp.Pow(denominator, -1, evaluate=False), evaluate=False)


def _cancels(L: Letters, factor: Expr, move: Move) -> list[Step]:
    total, keys = sympy().Sum, (L.i, 0, L.t - 1)
    score = L.M[L.i, L.j] * L.S[L.i, L.j]
    return [
        move.step("It comes out of the sum over keys:", total(factor * score, keys), factor * total(score, keys)),
        move.step("and cancels; τ stands for the sum:", _over(factor * score, factor * L.tau), score / L.tau),
    ]


def _score_scaling(L: Letters, move: Move) -> list[Step]:
    factor = move.factor(L.c)
    keys, queries = _affine(L.K, L.X, L.b_k, L.ones), _affine(L.Q, L.X, L.b_q, L.ones)
    moved_keys = _affine(move(L.K), L.X, move(L.b_k), L.ones)
    moved = dot(flip(moved_keys), _affine(move(L.Q), L.X, move(L.b_q), L.ones))
    because = "All scores take one factor (biases may be 0):"
    return [
        move.step(because, moved, dot(factor, dot(flip(keys), queries))),
        *_cancels(L, factor, move),
        move.step("The values stay:", dot(move(L.V), L.X), dot(L.V, L.X)),
    ]


def _key_bias(L: Letters, move: Move) -> list[Step]:
    sp = sympy()
    keys, queries = _affine(L.K, L.X, L.b_k, L.ones), _affine(L.Q, L.X, L.b_q, L.ones)
    moved_queries = _affine(move(L.Q), L.X, move(L.b_q), L.ones)
    moved = dot(flip(_affine(move(L.K), L.X, move(L.b_k), L.ones)), moved_queries)
    shift = dot(L.eps if move.first_order else 1, L.s_k.T, queries)
    return [
        move.step(
            "To the scores of a query the same number is added for every key:",
            moved,
            plus(dot(flip(keys), queries), dot(flip(L.ones), shift)),
        ),
        check("which is a factor of the exponentials:", sp.exp(L.sigma + L.rho), sp.exp(L.rho) * sp.exp(L.sigma)),
        *_cancels(L, sp.exp(L.rho), Move({}, first_order=False)),
    ]


# -------------------------------------------------------------------------------------------------- norms


def _centred(z: Expr, one: Expr, size: Expr) -> Expr:
    """d·z - 1(1ᵀz), which is d times the token less its mean."""
    return plus(dot(size, z), dot(-1, one, one.T, z))


def _layer_norm_input(L: Letters, move: Move) -> list[Step]:
    sp = sympy()
    counted = {L.one_d.T * L.one_d: L.d * sp.Identity(1)}
    steps = [check("The entries of a centred token, d·z − 1(1ᵀz), add up to 0, as 1ᵀ1 = d:",
                   dot(L.one_d.T, _centred(L.zd, L.one_d, L.d)), sp.ZeroMatrix(1, 1), given=counted)]  # fmt: skip
    for name, W in (("Queries", L.Q), ("Keys", L.K), ("Values", L.V), ("Inner values", L.U), ("Neurons", L.W1)):
        one, z = (L.one, L.z) if W == L.W1 else (L.one_d, L.zd)
        given = {one.T * z: sp.ZeroMatrix(1, 1)}
        steps.append(move.step(f"{name} of a z with 1ᵀz = 0 stay:", dot(move(W), z), dot(W, z), given))
    return steps


def _readers(L: Letters, place: str) -> dict[str, Expr]:
    if place == "attention":
        return {"neurons": L.W1}
    return {"queries": L.Q2, "keys": L.K2, "values": L.V2, "inner values": L.U2}


def _rotation(L: Letters, move: Move, place: str) -> list[Step]:
    sp, G = sympy(), L.skew
    unit = sp.Identity(L.e)
    turn = plus(unit, dot(L.eps, G)) if move.first_order else L.orthogonal
    skew = {G.T: -G} if move.first_order else {L.orthogonal.T * L.orthogonal: unit}
    zero = sp.ZeroMatrix(L.e, 1)
    fixed = (
        {G * L.one: zero, L.one.T * G: zero.T}
        if move.first_order
        else {L.orthogonal * L.one: L.one, L.one.T * L.orthogonal: L.one.T}
    )
    moved = dot(turn, L.z)
    return [
        move.step("The tokens, B N with B = [V_1 … V_H], [O_1 … O_H] or W2, turn:",
                  dot(move(L.B), L.N), dot(turn, dot(L.B, L.N))),
        move.step("which keeps their lengths:", dot(flip(moved), moved), dot(L.z.T, L.z), skew),
        move.step("and, for layer norm, where the turn fixes 1, takes centred ones to centred ones:",
                  _centred(moved, L.one, L.e), dot(turn, _centred(L.z, L.one, L.e)), fixed),
        *(
            move.step(f"The {name} undo it:", dot(move(W), dot(turn, L.Z)), dot(W, L.Z), _undone(L, move))
            for name, W in _readers(L, place).items()
        ),
    ]  # fmt: skip


def _undone(L: Letters, move: Move) -> Change:
    return {} if move.first_order else {L.orthogonal.T * L.orthogonal: sympy().Identity(L.e)}


def _norm_scaling(L: Letters, move: Move) -> list[Step]:
    factor = move.factor(L.c)
    scaled = dot(factor, L.z)
    return [
        move.step("The tokens take a factor near 1:", dot(move(L.B), L.N), dot(factor, dot(L.B, L.N))),
        move.step("also when their mean is subtracted:", _centred(scaled, L.one, L.e),
                  dot(factor, _centred(L.z, L.one, L.e))),
        move.step("So do lengths, the positive roots of these:", dot(flip(scaled), scaled),
                  dot(factor**2, L.z.T, L.z)),
        move.step("and an entry ζ divided by the length λ stays:",
                  _over(factor * L.zeta, factor * L.lam), L.zeta / L.lam),
    ]  # fmt: skip


def _mean(L: Letters, move: Move) -> list[Step]:
    given = {L.one.T * L.one: L.e * sympy().Identity(1)}
    because = "What is added to all entries of a token alike is lost when its mean is subtracted, as 1ᵀ1 = d':"

    def centred(B: Expr) -> Expr:
        return plus(dot(L.e, B, L.N), dot(-1, L.one, L.one.T, B, L.N))

    return [move.step(because, centred(move(L.B)), centred(L.B), given)]


def _turned(L: Letters, place: str) -> Change:
    return {L.B: L.skew * L.B} | {W: -W * L.skew for W in _readers(L, place).values()}


def _turned_back(L: Letters, place: str) -> Change:
    turn = L.orthogonal
    return {L.B: dot(turn, L.B)} | {W: dot(W, turn.T) for W in _readers(L, place).values()}


def _along_kernel(L: Letters, readers: tuple[Expr, ...], *, finite: bool) -> Change:
    return {W: (W + L.xi[W] * L.nu) if finite else L.xi[W] * L.nu for W in readers}


def _along_ones(L: Letters, *, finite: bool) -> Change:
    added = {W: L.column[W] * (L.one if W == L.W1 else L.one_d).T for W in (L.Q, L.K, L.V, L.U, L.W1)}
    return {W: W + change if finite else change for W, change in added.items()}


def _any_scores(L: Letters, *, finite: bool) -> Change:
    added = {L.Q: L.any_Q, L.K: L.any_K, L.b_q: L.any_bq, L.b_k: L.any_bk}
    return {W: W + change if finite else change for W, change in added.items()}


def _norm_claims(place: str, where: str) -> dict[str, Claim]:
    hidden = "Whatever follows the hidden tokens does not change."
    return {
        "rotation": Claim(
            f"{where}, without a skip, a basis before a norm can be turned: any skew G for rms norm, and one with"
            " G1 = 0 for layer norm (finite: orthogonal g_o, with g_o 1 = 1).",
            "Norms divide by equal lengths, and what follows reads its input through these products.",
            lambda L: _turned(L, place),
            lambda L: _turned_back(L, place),
            lambda L, move: _rotation(L, move, place),
        ),
        "norm-scaling": Claim(
            f"{where}, without a skip, everything before a norm can be scaled by any c > 0.",
            hidden,
            lambda L: {L.B: L.c * L.B},
            lambda L: {L.B: dot(L.c, L.B)},
            _norm_scaling,
        ),
        "mean": Claim(
            f"{where}, without a skip, layer norm does not see what is added to all entries of a token: 1 ξᵀ.",
            hidden,
            lambda L: {L.B: L.one * L.row.T},
            lambda L: {L.B: L.B + L.one * L.row.T},
            _mean,
        ),
    }


_UNREACHED = "Columns of R span all tokens; directions outside can be added to what reads them: any Ξ."
CLAIMS: dict[str, Claim] = {
    "head-mixing": Claim(
        "Lightning heads with a ≥ d mix: V → V + c V_j and A_j → A_j − c A, on Q_j by −c K_j N⁻¹ KᵀQ with N = K_jᵀK_j.",
        "The sum of both heads stays. With the rescalings these generate GL_H.",
        lambda L: {L.V: L.c * L.V_j, L.Q_j: -L.c * _lift(L).doit()},
        lambda L: {L.V: L.V + L.c * L.V_j, L.Q_j: L.Q_j - L.c * _lift(L).doit()},
        _head_mixing,
    ),
    "layer-unreached": Claim(
        f"Behind a layer: {_UNREACHED}",
        "The next layer reads its input only through these products.",
        lambda L: _along_kernel(L, (L.Q2, L.K2, L.V2, L.U2, L.W), finite=False),
        lambda L: _along_kernel(L, (L.Q2, L.K2, L.V2, L.U2, L.W), finite=True),
        _layer_unreached,
    ),
    "attention-unreached": Claim(
        f"Between attention and MLP: {_UNREACHED}",
        "The MLP reads its input only through the first map.",
        lambda L: _along_kernel(L, (L.W1,), finite=False),
        lambda L: _along_kernel(L, (L.W1,), finite=True),
        _attention_unreached,
    ),
    "unseen-scores": Claim(
        "With one token, normalised scores do not matter: any change of queries and keys.",
        "The head's output does not depend on its scores.",
        lambda L: _any_scores(L, finite=False),
        lambda L: _any_scores(L, finite=True),
        _unseen_scores,
    ),
    "unseen-scores-rank-one": Claim(
        "If the tokens have rank ≤ 1, X = u wᵀ, scores divided by their sum do not matter: any change of Q and K.",
        "The head's output does not depend on its scores.",
        lambda L: {L.Q: L.any_Q, L.K: L.any_K},
        lambda L: {L.Q: L.Q + L.any_Q, L.K: L.K + L.any_K},
        _unseen_scores_rank_one,
    ),
    "score-scaling": Claim(
        "Scores divided by their sum can be scaled by any c ≠ 0.",
        "The weights of the values stay.",
        lambda L: {L.Q: L.c * L.Q, L.b_q: L.c * L.b_q},
        lambda L: {L.Q: L.c * L.Q, L.b_q: L.c * L.b_q},
        _score_scaling,
    ),
    "key-bias": Claim(
        "Under softmax the bias of keys does not matter: any s can be added.",
        "The weights of the values stay.",
        lambda L: {L.b_k: L.s_k},
        lambda L: {L.b_k: L.b_k + L.s_k},
        _key_bias,
    ),
    "layer-norm-input": Claim(
        "What reads a layer-normalised token does not see the direction 1: any u can be added in all columns.",
        "The normalised token is a multiple of the centred one.",
        lambda L: _along_ones(L, finite=False),
        lambda L: _along_ones(L, finite=True),
        _layer_norm_input,
    ),
    **{
        f"{place}-{rule}": claim
        for place, where in (("attention", "Between attention and MLP"), ("layer", "Between two layers"))
        for rule, claim in _norm_claims(place, where).items()
    },
}
