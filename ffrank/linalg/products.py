"""Products of large blocks by the Strassen-Winograd scheme on top of BLAS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ffrank.linalg.blocks import Block

if TYPE_CHECKING:
    from ffrank.linalg.fields import Field
    from ffrank.linalg.threads import Team

__all__ = ["subtract_product"]


def subtract_product(field: Field, team: Team, C: Block, L: Block, X: Block, depth: int = 0) -> None:
    """C ← C - L·X; one level of the scheme for each halving down to ``field.winograd``.

    C must not overlap L or X. ``depth`` counts the levels above.
    """
    if min(C.m, C.n, L.n) < 2 * field.winograd:
        field.subtract_product(C, L, X, team)
        return
    m, n, k = C.m // 2, C.n // 2, L.n // 2
    C0, L0, X0 = C.part(0, 2 * m, 0, 2 * n), L.part(0, 2 * m, 0, 2 * k), X.part(0, 2 * k, 0, 2 * n)
    _winograd(field, team, C0, L0, X0, depth)
    # what the even sizes leave over: one row, one column, one inner index
    field.subtract_product(C0, L.part(0, 2 * m, 2 * k, L.n), X.part(2 * k, X.m, 0, 2 * n), team)
    field.subtract_product(C.part(0, 2 * m, 2 * n, C.n), L.part(0, 2 * m, 0, L.n), X.part(0, X.m, 2 * n, C.n), team)
    field.subtract_product(C.part(2 * m, C.m, 0, C.n), L.part(2 * m, C.m, 0, L.n), X, team)


def _quarters(M: Block) -> tuple[Block, Block, Block, Block]:
    m, n = M.m // 2, M.n // 2
    return M.part(0, m, 0, n), M.part(0, m, n, M.n), M.part(m, M.m, 0, n), M.part(m, M.m, n, M.n)


def _winograd(field: Field, team: Team, C: Block, L: Block, X: Block, depth: int) -> None:
    """Do one level with seven products and three scratch blocks.

    With P1 = A11·B11, P2 = A12·B21, P3 = S4·B22, P4 = A22·T4, P5 = S1·T1, P6 = S2·T2, P7 = S3·T3 and
    S1 = A21 + A22, S2 = S1 - A11, S3 = A11 - A21, S4 = A12 - S2, T1 = B12 - B11, T2 = B22 - T1,
    T3 = B22 - B12, T4 = T2 - B21, the product A·B is
    (P1 + P2, P1 + P6 + P5 + P3; P1 + P6 + P7 - P4, P1 + P6 + P7 + P5).
    """
    C11, C12, C21, C22 = _quarters(C)
    A11, A12, A21, A22 = _quarters(L)
    B11, B12, B21, B22 = _quarters(X)
    S, T, Z = (_scratch(field, team, f"{name}{depth}", M) for name, M in (("S", A11), ("T", B11), ("Z", C11)))

    def combine(D: Block, A: Block, B: Block, sign: int) -> None:
        field.combine(D, A, B, sign, team)

    def subtract(D: Block, A: Block, B: Block) -> None:
        subtract_product(field, team, D, A, B, depth + 1)

    combine(S, A21, A22, 1)
    combine(T, B12, B11, -1)
    Z.a[...] = 0
    subtract(Z, S, T)  # Z = -P5
    combine(C12, C12, Z, 1)
    combine(C22, C22, Z, 1)
    combine(S, S, A11, -1)
    combine(T, B22, T, -1)
    Z.a[...] = 0
    subtract(Z, A11, B11)  # Z = -P1
    combine(C11, C11, Z, 1)
    subtract(C11, A12, B21)
    subtract(Z, S, T)  # Z = -P1 - P6
    combine(C12, C12, Z, 1)
    combine(S, A12, S, -1)
    subtract(C12, S, B22)
    combine(T, B21, T, -1)
    subtract(C21, A22, T)
    combine(S, A11, A21, -1)
    combine(T, B22, B12, -1)
    subtract(Z, S, T)  # Z = -P1 - P6 - P7
    combine(C21, C21, Z, 1)
    combine(C22, C22, Z, 1)


def _scratch(field: Field, team: Team, name: str, like: Block) -> Block:
    size = like.m * like.n
    flat = team.scratch(0, name, size, field.dtype)
    return Block.of(flat[:size].reshape(like.m, like.n))
