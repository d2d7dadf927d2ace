"""Which symmetry carries weights W1 into weights W2, over Q.

Layer by layer, heads are matched by their scores; what the values require of the hidden basis behind the layer is
solved for; then the changes of basis inside each head. The result is tested: applied to W1 it gives W2, exactly.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from ffrank.errors import InputError, MatrixError
from ffrank.geometry.elements import Step, apply_steps
from ffrank.geometry.isometries import carry_factors, carry_isometry, carry_span
from ffrank.geometry.layers import Head, Q, Sight, layer_heads, plain_attention, plain_weights
from ffrank.geometry.same import same_function

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ffrank.models.spec import AttentionSpec

    Matrix = NDArray[Any]
    Weights = dict[str, Matrix]

__all__ = ["Transport", "transport"]


@dataclass(frozen=True, eq=False)
class Transport:
    """A group element with W2 = element·W1, or the reason why none was found.

    Attributes
    ----------
    steps
        The element, to be applied in this order; empty if there is none, or if W1 = W2.
    found
        Whether there is one.
    reason
        Where the search ended, if it did not find one.
    """

    architecture: AttentionSpec
    steps: tuple[Step, ...]
    found: bool
    reason: str

    def __bool__(self) -> bool:
        return self.found

    def apply(self, W: Any) -> dict[str, Matrix]:
        """The element applied to weights."""
        return apply_steps(self.architecture, plain_weights(self.architecture, W), self.steps)

    def text(self) -> str:
        """The element, a step a line, or the reason."""
        return "\n".join(step.text() for step in self.steps) if self.found else self.reason

    def to_json(self) -> str:
        """The result as JSON."""
        content = {"found": self.found, "reason": self.reason, "steps": [s.to_json() for s in self.steps]}
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


class _NoneFoundError(Exception):
    """The search ended; its message says where."""


def transport(spec: Any, W1: Any, W2: Any) -> Transport:
    """Find the element of the symmetry group that carries W1 into W2.

    Parameters
    ----------
    spec : mapping, path, or spec
        An attention network without norm and MLP.
    W1, W2 : mapping, or path
        Weights, as for ``read_weights``.

    Returns
    -------
    Transport
        If ``found``, W1 and W2 give the same function, and ``apply(W1)`` is W2: a theorem. If not, the reason says
        what does not fit, or that a matrix is not generic; for rational networks, whether the functions differ.

    Raises
    ------
    InputError
        If the architecture is another one.
    SpecError, ShapeError
        If spec or weights cannot be used.
    """
    architecture = plain_attention(spec)
    start, goal = plain_weights(architecture, W1), plain_weights(architecture, W2)
    search = _Search(architecture, start, goal)
    try:
        search.run()
    except _NoneFoundError as e:
        return Transport(architecture, (), False, f"{e}.{_functions(architecture, start, goal)}")
    except MatrixError as e:
        reason = f"The weights are not generic: {e}.{_functions(architecture, start, goal)}"
        return Transport(architecture, (), False, reason)
    return Transport(architecture, tuple(search.steps), True, "")


def _functions(spec: AttentionSpec, start: Weights, goal: Weights) -> str:
    """Whether W1 and W2 give the same function at all, where that can be decided."""
    if spec.score == "softmax":
        return ""
    try:
        same = same_function(spec, start, goal)
    except InputError:
        return ""
    if same.same:
        return " Yet both give the same function."
    found = same.difference
    assert found is not None
    return f" The functions differ: output {found.output} at X = {found.input['X'].tolist()}."


class _Search:
    """The weights on their way from W1 to W2, and the steps taken."""

    def __init__(self, spec: AttentionSpec, start: Weights, goal: Weights) -> None:
        self.spec, self.now, self.goal = spec, dict(start), goal
        self.steps: list[Step] = []
        self.outer, self.inner = ("V", "V") if spec.value_dim is None else ("O", "U")

    def take(self, step: Step) -> None:
        """Apply a step and keep it."""
        self.now = apply_steps(self.spec, self.now, [step])
        self.steps.append(step)

    def run(self) -> None:
        """Carry layer after layer to its goal."""
        S = Q.identity(self.spec.widths[0])
        for i, sight in enumerate(Sight.of(self.spec), 1):
            self._match_heads(i, sight, S)
            S_next = self._match_values(i, S)
            for h in range(1, self.spec.heads + 1):
                self._match_factors(i, h, sight, S)
            S = S_next
        if any((self.now[name] != self.goal[name]).any() for name in self.goal):
            raise _NoneFoundError("The steps that were found do not give W2")

    def _seen(self, W: Weights, i: int, sight: Sight, S: Matrix) -> list[Head]:
        """The heads as they act on reached directions."""
        T = sight.through(S)
        return [Head(sight.seen(Q.dot(T.T, h.A, T)), Q.dot(h.V, S)) for h in layer_heads(self.spec, W, i)]

    # ------------------------------------------------------------------------------------------ heads

    def _match_heads(self, i: int, sight: Sight, S: Matrix) -> None:
        """Permute, swap, mix and scale heads until all scores are those of the goal."""
        heads, goals = self._seen(self.now, i, sight, S), self._seen(self.goal, i, sight, S)
        if sight.unseen:
            if len(heads) > 1:
                raise _NoneFoundError(f"Layer {i}: scores are not seen, and only the sum of the heads' values counts")
            return
        a, n = self.spec.attention_dims[i - 1], self.spec.widths[i - 1]
        if (
            self.spec.score == "lightning" and len(heads) > 1 and a >= n and not (sight.biased or sight.rank_one)
            and self.spec.value_dim is None
        ):  # fmt: skip
            self._mix(i, heads, goals)
            return
        order, swaps, factors = [], [], []
        for j, goal in enumerate(goals, 1):
            for h, head in enumerate(heads):
                if h in order:
                    continue
                straight = _ratio(head.A, goal.A, sight)
                turned = None if straight is not None else self._turned(i, h, sight, S, goal)
                if straight is not None or turned is not None:
                    order.append(h)
                    swaps.append(straight is None)
                    factors.append(straight if straight is not None else turned)
                    break
            else:
                raise _NoneFoundError(f"Layer {i}: no head of W1 has scores{_up_to(sight)} those of head {j} of W2")
        if order != list(range(len(order))):
            self.take(Step("head-permutation", i, order=tuple(h + 1 for h in order)))
        for j, (swapped, c) in enumerate(zip(swaps, factors, strict=True), 1):
            if swapped:
                self.take(Step("swap", i, j))
            if c != 1:
                rule: Any = "rescaling" if self.spec.score == "lightning" else "score-scaling"
                self.take(Step(rule, i, j, np.array([[c]], dtype=object)))

    def _turned(self, i: int, h: int, sight: Sight, S: Matrix, goal: Head) -> Fraction | None:
        """The factor of scores after a swap, if a swap makes them fit."""
        if self.spec.score != "lightning" or sight.biased or sight.rank_one:
            return None
        try:
            swapped = apply_steps(self.spec, self.now, [Step("swap", i, h + 1)])
        except InputError:
            return None
        return _ratio(self._seen(swapped, i, sight, S)[h].A, goal.A, sight)

    def _mix(self, i: int, heads: list[Head], goals: list[Head]) -> None:
        """For a ≥ d any invertible combination of heads will do."""
        here, there = (np.array([x.A.reshape(-1) for x in side], dtype=object) for side in (heads, goals))
        m = Q.solve(here.T, there.T)
        if m is None:
            raise _NoneFoundError(f"Layer {i}: the scores of W2 are no combinations of those of W1")
        m = m.T
        if Q.rank(m) < len(m):
            raise _NoneFoundError(f"Layer {i}: the scores of different heads are dependent, which is not generic")
        if (m != Q.identity(len(m))).any():
            self.take(Step("head-mixing", i, matrix=m))

    # ------------------------------------------------------------------------------- values and basis

    def _match_values(self, i: int, S: Matrix) -> Matrix:
        """Change the basis behind layer i; return what its values reach."""
        stacks = [np.hstack([Q.dot(h.V, S) for h in layer_heads(self.spec, W, i)]) for W in (self.now, self.goal)]
        hidden = not self.spec.residual and i < self.spec.layers
        if not hidden:
            if (stacks[0] != stacks[1]).any():
                raise _NoneFoundError(f"Layer {i}: scores agree, but values do not")
            return Q.identity(self.spec.widths[i])
        reached = [stack[:, Q.rref(stacks[0])[1]] for stack in stacks]
        C = carry_span(*reached)
        if C is None or (stacks[1] != Q.dot(C, stacks[0])).any():
            raise _NoneFoundError(f"Layer {i}: no change of the hidden basis carries the values of W1 into those of W2")
        if (Q.identity(len(C)) != C).any():
            self.take(Step("layer-basis", i, matrix=C))
        return reached[1]

    # ------------------------------------------------------------------------------------ inside a head

    def _match_factors(self, i: int, h: int, sight: Sight, S: Matrix) -> None:
        """Change the bases of scores and of values of one head; then shift what nothing sees."""
        name = f"layer{i}.head{h}."
        if not sight.unseen:
            if sight.rank_one:
                o = carry_isometry(*(self._both(W, name, S) for W in (self.now, self.goal)))
                self._require(o, f"Layer {i} head {h}: no isometry carries keys and queries of W1 into those of W2")
                self._turn("split-orthogonal", i, h, o)
            else:
                g = carry_factors(*(x for W in (self.now, self.goal) for x in self._factors(W, name, S, sight)))
                self._require(g, f"Layer {i} head {h}: equal scores, but keys and queries of W1 or W2 are not generic")
                self._turn("general-linear", i, h, g)
        if self.spec.value_dim is not None:
            sides = [(Q.dot(W[name + "U"], S), W[name + "O"].T) for W in (self.now, self.goal)]
            g = carry_factors(*sides[0], *sides[1])
            self._require(g, f"Layer {i} head {h}: equal values, but their factors are not generic")
            self._turn("value-basis", i, h, g)
        self._shift(i, h, name, S, sight)

    def _require(self, found: Matrix | None, reason: str) -> None:
        if found is None:
            raise _NoneFoundError(reason)

    def _turn(self, rule: Any, i: int, h: int, g: Matrix | None) -> None:
        if g is not None and (g != Q.identity(len(g))).any():
            self.take(Step(rule, i, h, g))

    def _factors(self, W: Weights, name: str, S: Matrix, sight: Sight) -> tuple[Matrix, Matrix]:
        """Queries and keys on reached directions, biases as last columns."""
        queries, keys = Q.dot(W[name + "Q"], S), Q.dot(W[name + "K"], S)
        if sight.biased:
            queries = np.hstack([queries, W[name + "b_q"][:, None]])
            if sight.score != "softmax":
                keys = np.hstack([keys, W[name + "b_k"][:, None]])
        return queries, keys

    def _both(self, W: Weights, name: str, S: Matrix) -> Matrix:
        queries, keys = self._factors(W, name, S, Sight("lightning", self.spec.qk_bias, True, False))
        return np.vstack([keys, queries])

    def _shift(self, i: int, h: int, name: str, S: Matrix, sight: Sight) -> None:
        """Add the rest, if nothing sees it."""
        blocks = []
        for x in [n.removeprefix(name) for n in self.goal if n.startswith(name)]:
            rest = self.goal[name + x] - self.now[name + x]
            if not rest.any():
                continue
            free = sight.unseen and x in ("Q", "K", "b_q", "b_k")
            free = free or (x == "b_k" and sight.score == "softmax")
            if not free and (x in ("O", "b_q", "b_k") or Q.dot(rest, S).any()):
                raise _NoneFoundError(f"Layer {i} head {h}: {x} of W1 cannot be carried into that of W2")
            blocks.append((name + x, rest))
        if blocks:
            self.take(Step("shift", i, h, blocks=tuple(blocks)))


def _ratio(A: Matrix, goal: Matrix, sight: Sight) -> Fraction | None:
    """The c with goal = c·A; c = 1 where scores cannot be scaled; None if there is none."""
    if not A.any() and not goal.any():
        return Fraction(1)
    unit = sight.unit(A)
    c = Fraction(sight.unit(goal) / unit) if unit else Fraction(1)
    return c if c and (A * c == goal).all() else None


def _up_to(sight: Sight) -> str:
    return " equal to" if sight.score == "softmax" else " proportional to"
