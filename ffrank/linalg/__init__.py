"""Exact linear algebra mod p for every prime p < 2^61: ranks, profiles, factors, solutions, products."""

from ffrank.linalg.ranks import col_rank_profile, ple, rank, rank_profile, row_rank_profile
from ffrank.linalg.rational import RationalRank, rank_over_q
from ffrank.linalg.results import PLE, RankProfile, Solution
from ffrank.linalg.systems import det, inverse, matmul, nullspace, rref, solve

__all__ = [
    "PLE",
    "RankProfile",
    "RationalRank",
    "Solution",
    "col_rank_profile",
    "det",
    "inverse",
    "matmul",
    "nullspace",
    "ple",
    "rank",
    "rank_over_q",
    "rank_profile",
    "row_rank_profile",
    "rref",
    "solve",
]
