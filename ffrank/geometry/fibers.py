"""Generic fibers: which parameters give the same function, and whether the known symmetries are all of it.

At a generic θ the fiber of f has dimension P - rank J. The symmetry rules give an orbit in it of dimension rank T,
T the matrix of their generators. Where both agree the generic fiber consists, apart from a subset of smaller
dimension, of finitely many orbits. Where they differ, the kernel of J modulo T holds the unexplained directions.

Error direction, mod any prime and at any point: rank J and rank T can only be too small. So the fiber's dimension
can be reported too large, the orbit's too small; agreement is a theorem whatever the luck, a difference is not. With
exponentials or square roots this needs what section 3.1 of ``certificate/FORMAT.md`` states.
"""

from __future__ import annotations

import json
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, SupportsIndex

from ffrank import linalg
from ffrank.errors import InputError
from ffrank.geometry.composition import composition_bound
from ffrank.geometry.directions import Direction, unexplained_directions
from ffrank.geometry.formulas import ambient_tokens
from ffrank.geometry.generators import generator_matrix
from ffrank.geometry.proofs import RULES, prove
from ffrank.geometry.symmetry import families
from ffrank.geometry.tangents import independent_rows
from ffrank.geometry.weights import read_target
from ffrank.primes import DEFAULT_PRIME, check_prime
from ffrank.program.bounds import ambient_dimension
from ffrank.program.points import draw_theta

if TYPE_CHECKING:
    from collections.abc import Collection

    from ffrank.geometry.equations import Proof
    from ffrank.geometry.symmetry import Family
    from ffrank.models.spec import Spec
    from ffrank.program.ir import Program

__all__ = ["Factor", "Fibers", "fiber_proofs", "fibers"]


@dataclass(frozen=True)
class Factor:
    """A factor of the symmetry group: one rule with one group at all its places.

    Attributes
    ----------
    rule
        Name of the rule, as in certificates.
    group
        The group at one place; k stands for the field of numbers.
    places
        Layer and head (None: all heads, or none) of each copy.
    dimension
        Of all copies together: the number of generators. They may overlap with those of other factors.
    """

    rule: str
    group: str
    places: tuple[tuple[int, int | None], ...]
    dimension: int

    @property
    def where(self) -> str:
        """The places in words."""
        by_layer: dict[int, list[str]] = {}
        for layer, head in self.places:
            by_layer.setdefault(layer, []).extend([] if head is None else [str(head)])
        parts = [f"layer {i}" + (f" head {', '.join(h)}" if h else "") for i, h in by_layer.items()]
        return "; ".join(parts)


@dataclass(frozen=True)
class Fibers:
    """The generic fiber of an architecture, with what explains it.

    Attributes
    ----------
    architecture
        The spec in canonical form.
    prime, seed
        Where the ranks were computed, and what chose the point.
    parameters
        P.
    factors
        The symmetry group as a product, rule by rule.
    orbit
        Rank of all generators together: dimension of a generic orbit.
    dimension
        Rank of the Jacobian.
    inputs
        How many inputs that took.
    left_out
        Rules that the caller left out.
    unexplained
        A basis of the kernel of the Jacobian modulo the generators; empty if there is nothing to explain.
    """

    architecture: dict[str, Any]
    prime: int
    seed: int
    parameters: int
    factors: tuple[Factor, ...]
    orbit: int
    dimension: int
    inputs: int
    left_out: tuple[str, ...]
    unexplained: tuple[Direction, ...]

    #: Headings of the columns of :meth:`rows`.
    headings: ClassVar[tuple[str, ...]] = ("rule", "group", "where", "dimension")

    @property
    def fiber(self) -> int:
        """Dimension of the generic fiber, P - rank J."""
        return self.parameters - self.dimension

    @property
    def generators(self) -> int:
        """Number of generators, dependent ones included."""
        return sum(f.dimension for f in self.factors)

    @property
    def explained(self) -> bool:
        """Whether the symmetries fill the generic fiber; True is a theorem."""
        return self.fiber == self.orbit

    @property
    def explanation(self) -> str:
        """What is known, in a few sentences."""
        start = (
            f"{self.parameters} parameters, a Jacobian of rank {self.dimension}: generic fibers have dimension"
            f" {self.fiber}. The {self.generators} symmetry generators have rank {self.orbit}."
        )
        if self.explained:
            return (
                f"{start} Both agree: apart from a subset of smaller dimension, a generic fiber consists of"
                " finitely many orbits."
            )
        return f"{start} Directions of the fiber that they do not explain: {self.fiber - self.orbit}."

    def rows(self) -> list[tuple[str, ...]]:
        """The factors as text, one tuple a factor in the order of ``headings``."""
        return [(f.rule, f.group, f.where, str(f.dimension)) for f in self.factors]

    def to_json(self) -> str:
        """The result as JSON."""
        content: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        content["factors"] = [
            {"rule": f.rule, "group": f.group, "places": [list(x) for x in f.places], "dimension": f.dimension}
            for f in self.factors
        ]
        content["unexplained"] = [x.to_json() for x in self.unexplained]
        content |= {"fiber": self.fiber, "explained": self.explained, "explanation": self.explanation}
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def fibers(
    spec: Any, *, prime: SupportsIndex = DEFAULT_PRIME, seed: SupportsIndex = 0, without: Collection[str] = ()
) -> Fibers:
    """Compare the generic fiber of an architecture with the orbits of its known symmetries.

    Parameters
    ----------
    spec : mapping, path, or spec
        An architecture. A user's own program has no symmetry rules.
    prime
        A prime between 2^20 and 2^31.
    seed
        Chooses the point, 0 ≤ seed < 2^64.
    without
        Names of rules to leave out, to see which directions they explain.

    Returns
    -------
    Fibers
        ``explained`` is a theorem where it is true. Directions in ``unexplained`` lie in the kernel of the Jacobian
        at as many inputs as the stopping rule took: a claim mod p, of which a wrong one survives only by chance.

    Raises
    ------
    SpecError, InputError
        If the spec, the seed or a rule's name cannot be used.
    ModulusError
        If the prime cannot be used.
    """
    program, architecture = _architecture(spec)
    # a small prime loses rank by chance, and the fiber would look larger than it is
    p, number = check_prime(prime, above=2**20), _seed(seed)
    known = families(architecture)
    unknown = sorted(set(without) - {f.rule for f in known})
    if unknown:
        rules = ", ".join(dict.fromkeys(f.rule for f in known)) or "none"
        raise InputError(f"without: expected rules that occur ({rules}), got {', '.join(unknown)}")
    found = [f for f in known if f.rule not in without]
    theta = draw_theta(program, p, number)
    T = generator_matrix(program, found, theta, p)
    orbit = linalg.rank(T, p) if T.size else 0
    P = program.parameter_count
    closed = (ambient_dimension(program), ambient_tokens(architecture.architecture()), composition_bound(architecture))
    bound = min([P - orbit, *(b for b in closed if b is not None)])
    J = independent_rows(program, p, number, theta, bound)
    unexplained: tuple[Direction, ...] = ()
    if P - J.rank > orbit:
        unexplained = unexplained_directions(program, found, p, number, (J.rank, orbit), bound)
    return Fibers(
        architecture.architecture(), p, number, P, _factors(found), orbit, J.rank, J.inputs, tuple(without),
        unexplained,
    )  # fmt: skip


def _architecture(spec: Any) -> tuple[Program, Spec]:
    program, architecture = read_target(spec)
    if architecture is None:
        raise InputError("expected an architecture; a program of your own has no symmetry rules to compare with")
    return program, architecture


def _seed(seed: SupportsIndex) -> int:
    number = -1 if isinstance(seed, bool) else operator.index(seed)
    if not 0 <= number < 2**64:
        raise InputError(f"seed: expected an integer from 0 to 2^64 - 1, got {seed!r}")
    return number


# ------------------------------------------------------------------------------------------------ groups


def _factors(found: list[Family]) -> tuple[Factor, ...]:
    grouped: dict[tuple[str, str], list[Family]] = {}
    for family in found:
        grouped.setdefault((family.rule, _group(family)), []).append(family)
    return tuple(
        Factor(rule, group, tuple((f.layer, f.head) for f in same), sum(f.dimension for f in same))
        for (rule, group), same in grouped.items()
    )


def _group(family: Family) -> str:
    """The group of a family at one place, with what its name does not say left to the rule."""
    n = family.blocks[0].n
    match family.rule:
        case "general-linear" | "value-basis" | "attention-basis" | "layer-basis" | "neuron-basis":
            return f"GL({n})"
        case "split-orthogonal":
            return f"O({n}, {n})"
        case "rescaling" | "score-scaling" | "attention-norm-scaling" | "layer-norm-scaling":
            return "GL(1)"
        case "neuron-scaling":
            return "GL(1)" if n == 1 else f"GL(1)^{n}"
        case "head-mixing":
            heads = next(h for h in range(2, family.dimension + 2) if h * (h - 1) == family.dimension)
            return f"GL({heads}) less its scalings"
        case "attention-rotation" | "layer-rotation":
            return f"O({n})" if family.blocks[0].kind == "skew" else f"O({n - 1})"
        case _:
            return f"k^{family.dimension}"


def fiber_proofs(spec: Any) -> tuple[Proof, ...]:
    """Return the proofs, for symbolic sizes, of the rules that occur in an architecture.

    Parameters
    ----------
    spec : mapping, path, or spec

    Returns
    -------
    tuple of Proof
        With methods ``text()`` and ``latex()``; every one ``holds``.
    """
    _, architecture = _architecture(spec)
    biased = architecture.kind == "attention" and architecture.qk_bias
    names: dict[str, None] = {}
    for family in families(architecture):
        rule = family.rule
        if rule == "split-orthogonal" and family.layer > 1:
            names["rank-one-tokens"] = None
        variants = [f"{rule}-bias"] if biased and f"{rule}-bias" in RULES else [rule]
        if rule == "unseen-scores" and architecture.kind == "attention":
            variants = ["unseen-scores" if architecture.tokens == 1 else "unseen-scores-rank-one"]
        names |= dict.fromkeys(v for v in variants if v in RULES)
    return tuple(prove(name) for name in names)
