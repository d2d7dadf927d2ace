"""Equations between matrices of symbolic sizes, and the symbols in which symmetry rules are written.

An equation holds here only if SymPy brings both sides to one normal form, for all sizes at once. ``ε`` is
a number of which only the first order may be kept, so that a vector field is a substitution like any other.

Error direction: SymPy may fail to see an equality (a true statement then stays unproven); it is trusted not
to accept a false one. SymPy is loaded by the first call, not by importing this module.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

__all__ = [
    "Change",
    "Claim",
    "Expr",
    "Letters",
    "Move",
    "Proof",
    "Step",
    "check",
    "dot",
    "flip",
    "latex",
    "letters",
    "plain",
    "plus",
    "sympy",
]

Expr = Any
Change = Mapping[Expr, Expr]
Letters = SimpleNamespace


@cache
def sympy() -> Any:
    """Return the module SymPy, loaded by the first call."""
    return importlib.import_module("sympy")


@dataclass(frozen=True)
class Step:
    """One equation of a proof.

    Attributes
    ----------
    because
        The words a person would put before the equation.
    left, right
        SymPy expressions as they are written, before any simplification.
    first_order
        Whether the equation is meant up to ε².
    given
        Hypotheses used as rewriting rules, pairs (pattern, replacement): Gᵀ → −G, or a product of two: νR → 0.
    holds
        Whether SymPy brought the difference to zero.
    """

    because: str
    left: Expr
    right: Expr
    first_order: bool
    given: tuple[tuple[Expr, Expr], ...]
    holds: bool

    def text(self) -> str:
        """Return the step as plain text."""
        tail = " + O(ε²)" if self.first_order else ""
        return f"{self.because}\n    {plain(self.left)}\n      = {plain(self.right)}{tail}"

    def latex(self) -> str:
        """Return the step as LaTeX: the words and a displayed equation."""
        tail = r" + O(\epsilon^2)" if self.first_order else ""
        return f"{self.because}\n\\[ {latex(self.left)} = {latex(self.right)}{tail} \\]"


@dataclass(frozen=True)
class Proof:
    """A chain of equations for one rule, proven or attempted.

    Attributes
    ----------
    rule
        Its name.
    statement
        What is claimed, in words, with its hypotheses.
    action
        The finite substitution, pairs (parameter, replacement); empty where only the vector field is treated.
    substitution
        The vector field as a substitution of first order, pairs (parameter, parameter + ε·derivative).
    steps
        The equations, those of the finite action first.
    conclusion
        Why the network does not change, given the equations.
    """

    rule: str
    statement: str
    action: tuple[tuple[Expr, Expr], ...]
    substitution: tuple[tuple[Expr, Expr], ...]
    steps: tuple[Step, ...]
    conclusion: str

    @property
    def holds(self) -> bool:
        """Whether there are steps and SymPy confirmed every one of them."""
        return bool(self.steps) and all(step.holds for step in self.steps)

    def text(self) -> str:
        """Return the proof as plain text."""
        moves = [f"    {plain(old)} -> {plain(new)}" for old, new in self.action + self.substitution]
        steps = [step.text() for step in self.steps]
        return "\n".join([f"{self.rule}. {self.statement}", *moves, *steps, self.conclusion])

    def latex(self) -> str:
        """Return the proof as LaTeX paragraphs; the words keep their Unicode letters."""
        moves = [rf"\[ {latex(old)} \mapsto {latex(new)} \]" for old, new in self.action + self.substitution]
        steps = [step.latex() for step in self.steps]
        return "\n".join([rf"\paragraph{{{self.rule}}} {self.statement}", *moves, *steps, self.conclusion])


def check(because: str, left: Expr, right: Expr, *, first_order: bool = False, given: Change | None = None) -> Step:
    """Return the step ``left = right`` with the verdict of SymPy.

    ``holds`` can be false for a true equation that SymPy does not see; it is not expected to be true for a
    false one.
    """
    rules = dict(given or {})
    holds = getattr(left, "shape", ()) == getattr(right, "shape", ())
    holds = holds and _vanishes(left - right, first_order=first_order, given=rules)
    return Step(because, left, right, first_order, tuple(rules.items()), holds)


@dataclass(frozen=True)
class Move:
    """A substitution of parameters, finite or up to ε²; parameters it does not name stay."""

    change: Change
    first_order: bool

    def __call__(self, parameter: Expr) -> Expr:
        """Return what takes the parameter's place."""
        return self.change.get(parameter, parameter)

    def basis(self, g: Expr, C: Expr) -> Expr:
        """Return the change of basis: g, or I + εC."""
        return plus(sympy().Identity(C.shape[0]), letters().eps * C) if self.first_order else g

    def factor(self, c: Expr) -> Expr:
        """Return the factor of a scaling: c, or 1 + εc."""
        return 1 + letters().eps * c if self.first_order else c

    def step(self, because: str, left: Expr, right: Expr, given: Change | None = None) -> Step:
        """Return a step that is meant exactly or up to ε², as the substitution is."""
        return check(because, left, right, first_order=self.first_order, given=given)


@dataclass(frozen=True)
class Claim:
    """A symmetry rule as it is to be proven.

    Attributes
    ----------
    statement, conclusion
        Words before and after the equations.
    field, action
        The vector field and the finite action (empty if there is none to prove) in the symbols of :func:`letters`.
    steps
        The equations, for any substitution of the weights.
    """

    statement: str
    conclusion: str
    field: Callable[[Letters], Change]
    action: Callable[[Letters], Change]
    steps: Callable[[Letters, Move], list[Step]]


def dot(*factors: Expr) -> Expr:
    """Return the product as written, not simplified."""
    return sympy().MatMul(*factors, evaluate=False)


def plus(*terms: Expr) -> Expr:
    """Return the sum as written, not simplified."""
    return sympy().MatAdd(*terms, evaluate=False)


def flip(matrix: Expr) -> Expr:
    """Return the transpose as written, not simplified."""
    return sympy().Transpose(matrix)


@cache
def letters() -> Letters:
    """Return the symbols of the rules: weights as matrices of symbolic shape, named as in the format.

    Sizes: ``a`` scores, ``d`` and ``e`` (printed d') the widths before and behind the layer, ``t`` tokens,
    ``v`` value_dim, ``m`` neurons, ``r`` columns of a block row over all heads, ``a2`` and ``e2`` (a', d'')
    as ``a`` and ``e`` for the next layer, whose weights are ``Q2``, ``K2``, … (Q', K', …). ``B`` is the last
    linear map of a layer ([V_1 … V_H], [O_1 … O_H], W2, or W of kind mlp), ``N`` what it is applied to, ``Z``
    the result.
    """
    sp = sympy()
    matrix, L = sp.MatrixSymbol, Letters()
    L.a, L.d, L.e, L.t = sp.symbols("a d d' t", integer=True, positive=True)
    L.v, L.m, L.r, L.k = sp.symbols("v m r k", integer=True, positive=True)
    L.a2, L.e2 = sp.symbols("a' d''", integer=True, positive=True)
    L.eps, L.c, L.mu, L.sigma = sp.symbols("epsilon c mu sigma", nonzero=True)
    L.i, L.j, L.n, L.o = sp.symbols("i j n o", integer=True)
    L.c_n, L.p_n = sp.IndexedBase("c")[L.n], sp.IndexedBase("p")[L.n]
    L.y_nj = sp.IndexedBase("y")[L.n, L.j]

    L.X, L.x, L.u, L.w = matrix("X", L.d, L.t), matrix("x", L.d, 1), matrix("u", L.d, 1), matrix("w", L.t, 1)
    L.ones, L.S, L.R, L.M = matrix("1", 1, L.t), *(matrix(name, L.t, L.t) for name in "SRM")
    L.Q, L.K, L.b_q, L.b_k = (matrix(x, L.a, L.d if x in "QK" else 1) for x in ("Q", "K", "b_q", "b_k"))
    L.V, L.U, L.O = matrix("V", L.e, L.d), matrix("U", L.v, L.d), matrix("O", L.e, L.v)
    L.W1, L.W2, L.b_n = matrix("W1", L.m, L.e), matrix("W2", L.e, L.m), matrix("b", L.m, 1)
    L.B, L.N, L.Z = matrix("B", L.e, L.r), matrix("N", L.r, L.t), matrix("Z", L.e, L.t)
    L.b, L.s, L.y = matrix("b", L.e, 1), matrix("s", L.e, 1), matrix("y", L.r, 1)
    L.Q2, L.K2 = matrix("Q'", L.a2, L.e), matrix("K'", L.a2, L.e)
    L.V2, L.U2, L.W = matrix("V'", L.e2, L.e), matrix("U'", L.v, L.e), matrix("W'", L.e2, L.e)
    L.b2 = matrix("b'", L.e2, 1)

    L.E, L.F, L.G, L.H = (matrix(name, L.a, L.a) for name in "EFGH")
    L.E_v, L.C_m, L.C = matrix("E", L.v, L.v), matrix("C", L.m, L.m), matrix("C", L.e, L.e)
    L.g, L.g_v, L.g_m, L.g_e = (matrix("g", size, size) for size in (L.a, L.v, L.m, L.e))
    _more_letters(L, matrix)
    return L


def _more_letters(L: Letters, matrix: Callable[..., Expr]) -> None:
    """Symbols of the rules on several heads, on hidden directions, on normalised scores and on norms."""
    sp = sympy()
    L.rho, L.tau, L.lam, L.zeta = sp.symbols("rho tau lambda zeta", nonzero=True)
    L.Q_j, L.K_j, L.V_j = matrix("Q_j", L.a, L.d), matrix("K_j", L.a, L.d), matrix("V_j", L.e, L.d)
    L.gram = matrix("N", L.d, L.d)
    L.c_r, L.n_r = sp.symbols("c n", integer=True, positive=True)
    L.reach, L.nu, L.T = matrix("R", L.e, L.c_r), matrix("nu", L.n_r, L.e), matrix("T", L.c_r, L.t)
    L.top, L.bottom = matrix("R_1", L.c_r, L.c_r), matrix("R_2", L.n_r, L.c_r)
    L.xi = {W: matrix(f"Xi_{W.name}", W.shape[0], L.n_r) for W in (L.Q2, L.K2, L.V2, L.U2, L.W, L.W1)}
    L.any_Q, L.any_K, L.s_k = matrix("D_Q", L.a, L.d), matrix("D_K", L.a, L.d), matrix("s", L.a, 1)
    L.any_bq, L.any_bk = matrix("D_bq", L.a, 1), matrix("D_bk", L.a, 1)
    L.one, L.one_d, L.z, L.zd = matrix("1", L.e, 1), matrix("1", L.d, 1), matrix("z", L.e, 1), matrix("z", L.d, 1)
    L.row, L.skew, L.orthogonal = matrix("xi", L.r, 1), matrix("G", L.e, L.e), matrix("g_o", L.e, L.e)
    L.column = {W: matrix(f"u_{W.name}", W.shape[0], 1) for W in (L.Q, L.K, L.V, L.U, L.W1)}


def plain(expression: Expr) -> str:
    """Return an expression on one line of plain text."""
    shown = str(sympy().sstr(expression, order="none"))
    for old, new in (
        (".T", "ᵀ"),
        ("**(-1)", "⁻¹"),
        ("**", "^"),
        ("epsilon", "ε"),
        ("sigma", "σ"),
        ("lambda", "λ"),
        ("zeta", "ζ"),
        ("rho", "ρ"),
        ("tau", "τ"),
        ("Xi", "Ξ"),
        ("xi", "ξ"),
        ("nu", "ν"),
        ("mu", "μ"),
        ("+ (-ε)", "- ε"),
    ):
        shown = shown.replace(old, new)
    return shown


def latex(expression: Expr) -> str:
    """Return an expression as LaTeX."""
    return str(sympy().latex(expression, order="none")).replace("+ -", "-")


def _vanishes(difference: Expr, *, first_order: bool, given: Change) -> bool:
    """Whether SymPy brings a matrix or a number to zero, up to ε² if asked."""
    sp, eps = sympy(), letters().eps
    if not getattr(difference, "is_Matrix", False):
        at_zero, slope = difference.subs(eps, 0), difference.diff(eps).subs(eps, 0)
        orders = (at_zero, slope) if first_order else (difference,)
        return all(sp.simplify(sp.expand(order)) == 0 for order in orders)
    zero = sp.ZeroMatrix(*difference.shape)
    products = {old.args: new for old, new in given.items() if old.is_MatMul}
    single = {old: new for old, new in given.items() if not old.is_MatMul}
    total = difference.doit().expand().doit().xreplace(single).doit().expand().doit()
    total = _replace_products(total, products).doit().expand().doit() if products else total
    kept = zero
    for term in sp.MatAdd.make_args(total):
        number, product = term.as_coeff_mmul() if term.is_MatMul else (sp.Integer(1), term)
        number = sp.expand(number)
        if first_order:
            number = number.coeff(eps, 0) + eps * number.coeff(eps, 1)
        kept += number * product
    return bool(kept.doit() == zero)


def _replace_products(total: Expr, rules: Mapping[tuple[Expr, ...], Expr]) -> Expr:
    """Replace neighbouring factors (a, b) of every term of an expanded matrix expression, until none is left."""
    sp = sympy()
    out = sp.ZeroMatrix(*total.shape)
    for term in sp.MatAdd.make_args(total):
        number, product = term.as_coeff_mmul() if term.is_MatMul else (sp.Integer(1), term)
        factors = list(sp.MatMul.make_args(product))
        at = 0
        while at + 1 < len(factors):
            new = rules.get((factors[at], factors[at + 1]))
            if new is None:
                at += 1
            else:
                factors[at : at + 2] = [new]
                at = max(0, at - 1)
        out += number * sp.MatMul(*factors)
    return out
