"""Random weights and random elements of the symmetry groups of attention networks, over Q."""

import random
from fractions import Fraction

import numpy as np

from ffrank.geometry.elements import Step
from ffrank.geometry.layers import Q, plain_attention
from ffrank.geometry.symmetry import families
from ffrank.geometry.weights import read_target, weights_dict


def attention(widths, dims, tokens=2, **rest):
    return {"kind": "attention", "widths": widths, "attention_dims": dims, "tokens": tokens, **rest}


def drawn(spec, seed, largest=50):
    program, _ = read_target(spec)
    draw = random.Random(seed)
    return weights_dict(program, [Fraction(draw.randint(-largest, largest)) for _ in range(program.parameter_count)])


def invertible(n, draw):
    while True:
        m = np.array([[Fraction(draw.randint(-2, 2)) for _ in range(n)] for _ in range(n)], dtype=object).reshape(n, n)
        if Q.rank(m) == n:
            return m


def isometry(a, draw):
    """An element of O(a, a) on (K; Q): a triangular one after diag(g^-T, g)."""
    g, k = invertible(a, draw), invertible(a, draw)
    diagonal = np.block([[Q.inverse(g).T, Q.zeros(a, a)], [Q.zeros(a, a), g]])
    upper = Q.identity(2 * a)
    upper[:a, a:] = k - k.T
    return Q.dot(upper, diagonal)


def element(spec, seed):
    """Steps that use every factor of the group once, in random order."""
    architecture, draw, steps = plain_attention(spec), random.Random(seed), []
    for family in families(architecture):
        rule, place, n = family.rule, (family.layer, family.head), family.blocks[0].n
        if rule in ("general-linear", "value-basis", "layer-basis"):
            steps.append(Step(rule, *place, invertible(n, draw)))
        elif rule in ("rescaling", "score-scaling"):
            steps.append(Step(rule, *place, np.array([[Fraction(draw.choice([-3, 2, 5]), 7)]], dtype=object)))
        elif rule == "head-mixing":
            steps.append(Step(rule, *place, invertible(architecture.heads, draw)))
        elif rule == "split-orthogonal":
            steps.append(Step(rule, *place, isometry(n, draw)))
    for i in range(1, architecture.layers + 1 if architecture.heads > 1 else 1):
        order = list(range(1, architecture.heads + 1))
        draw.shuffle(order)
        steps.append(Step("head-permutation", i, order=tuple(order)))
    draw.shuffle(steps)
    return steps


def nudged(weights, name, at=0):
    """The weights with one entry changed by 2^-40."""
    out = {key: x.copy() for key, x in weights.items()}
    out[name].flat[at] += Fraction(1, 2**40)
    return out


SPECS = [
    attention([3, 3], [2]),
    attention([3, 1], [1]),
    attention([3, 2], [4]),
    attention([4, 4, 4], [2, 2]),
    attention([4, 3, 4], [2, 2]),
    attention([2, 4, 3], [2, 2]),
    attention([2, 4, 3], [2, 3]),
    attention([3, 3, 3, 3], [2, 2, 2]),
    attention([3, 3, 3], [1, 3]),
    attention([3, 2], [2], tokens=1),
    attention([3, 2], [1], tokens=1),
    attention([4, 4, 4], [2, 2], heads=2),
    attention([3, 3], [3], heads=2),
    attention([3, 3, 3], [3, 3], heads=2),
    attention([4, 4], [2], heads=4, causal=True),
    attention([3, 3], [2], heads=2, qk_bias=True),
    attention([3, 3, 3], [2, 2], heads=2, residual=True),
    attention([3, 3, 3], [2, 2], heads=2, value_dim=2),
    attention([3, 3], [2], tokens=3, heads=3, score="softmax", qk_bias=True),
    attention([3, 3, 3], [2, 2], tokens=3, heads=2, score="softmax"),
    attention([3, 3], [2], tokens=3, heads=2, score="normalized"),
    attention([8, 8, 8], [3, 3], tokens=3, heads=2),
]
