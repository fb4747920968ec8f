"""One place for what quantities and states are called, in tables, plots and text."""

from __future__ import annotations

import re
from typing import NamedTuple


class Name(NamedTuple):
    """A short symbol for headings, and a description in plain words."""

    symbol: str
    description: str


class State(NamedTuple):
    """One of the six complete states. follows: the default policy (abstain iff retrieval failed) was kept, G = 1."""

    label: str
    description: str
    follows: bool


# The quantities of the result table, in its order.
HEADLINE = ("rho", "alpha[0]", "alpha[1]", "p_t", "p_g")

QUANTITIES: dict[str, Name] = {
    "rho": Name("P(R=1)", "retrieval found all the evidence that the question needs"),
    "alpha[0]": Name("P(A|R=0)", "the system abstains when retrieval failed (it should)"),
    "alpha[1]": Name("P(A|R=1)", "the system abstains although the evidence was there (it should not)"),
    "tau[0]": Name("P(T|A=0,R=0)", "an answer given without the evidence is right"),
    "tau[1]": Name("P(T|A=0,R=1)", "an answer given with the evidence is right"),
    "p_t": Name("P(T=1)", "the question gets a right answer (an abstention is no success)"),
    "p_a": Name("P(A=1)", "the system abstains"),
    "accuracy": Name("P(T=1|A=0)", "an answer that is given is right"),
    "guess": Name("P(A=0|R=0)", "the system answers although retrieval failed"),
    "lucky": Name("P(R=0,A=0,T=1)", "a right answer without the evidence, by luck or memory"),
    "p_g[r=0]": Name("P(G=1|R=0)", "the system does what it should where retrieval failed"),
    "p_g[r=1]": Name("P(G=1|R=1)", "the system does what it should where the evidence was there"),
    "p_g": Name("P(G=1)", "the system does what it should: abstains without evidence, answers rightly with it"),
}

# Further quantities, in tables of all of them.
FURTHER: dict[str, Name] = {
    "resolved[r]": Name("resolved by R", "share of items whose G is known once R is"),
    "resolved[t]": Name("resolved by T", "share of items whose G is known once T is"),
    "info[r]": Name("I(G;R|A)", "bits that a label of R tells about G, when A is known"),
    "info[t]": Name("I(G;T|A)", "bits that a label of T tells about G, when A is known"),
    "info[r,t]": Name("I(G;R,T|A)", "bits that labels of R and T tell about G, when A is known"),
    "utility": Name("utility", "expected utility of an outcome under the policy that was set"),
}

# The order of every list of six counts: R = 0 first, and within it abstained, wrong, right.
STATES: tuple[State, ...] = (
    State("R=0, abstained", "no evidence, declined to answer", True),
    State("R=0, wrong", "no evidence, answered wrongly", False),
    State("R=0, right", "no evidence, right by luck or memory", False),
    State("R=1, abstained", "evidence there, declined to answer", False),
    State("R=1, wrong", "evidence there, answered wrongly", False),
    State("R=1, right", "evidence there, answered rightly", True),
)

_JUDGE = re.compile(r"(tpr|fpr)\[(.+)\]")
_ABSTAINED = re.compile(r"yes\[(.+),a=1\]")
_TOGETHER = re.compile(r"cor\[(.+),(.+)\]")
_FINITE = re.compile(r"finite\[(.+)\]")


def name_of(quantity: str) -> Name:
    """The name of a quantity, a judge's rates and shares among these items included; an unknown one passes through."""
    known = {**QUANTITIES, **FURTHER}
    if quantity in known:
        return known[quantity]
    if match := _FINITE.fullmatch(quantity):
        return Name(f"{name_of(match[1]).symbol} of these", f"among these items: {name_of(match[1]).description}")
    if match := _TOGETHER.fullmatch(quantity):
        return Name(quantity, f"correlation of the errors of judges {match[1]} and {match[2]}, given the outcome")
    if match := _ABSTAINED.fullmatch(quantity):
        return Name(quantity, f"judge {match[1]} says 1 where the system abstained")
    match = _JUDGE.fullmatch(quantity)
    if match is None:
        return Name(quantity, "")
    truth = "1" if match[1] == "tpr" else "0"
    return Name(quantity, f"judge {match[2]} says 1 where the truth is {truth}")


def judge_of(quantity: str) -> str | None:
    """`t@x` for `tpr[t@x]` and `fpr[t@x]`, else None."""
    match = _JUDGE.fullmatch(quantity)
    return None if match is None else match[2]
