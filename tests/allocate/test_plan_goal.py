"""The goal as it is typed."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rat_ray.allocate.plan_goal import DECIDE, GRAMMAR, WIDTH, GoalSettings, check_configurations, parse_goal
from rat_ray.errors import InputError


def test_a_width_is_read() -> None:
    goal = parse_goal(GoalSettings(goal="width", width="0.06", quantity="p_t", interval="finite"))
    assert (goal.kind, goal.quantity, goal.width, goal.finite) == (WIDTH, "p_t", 0.06, True)


def test_a_decision_is_read() -> None:
    goal = parse_goal(GoalSettings(goal="decide", a="x", b="y"))
    assert (goal.kind, goal.a, goal.b, goal.level) == (DECIDE, "x", "y", 0.95)
    assert math.isnan(goal.width)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "goal: must be given"),
        ({"goal": "wdth"}, "did you mean 'width'"),
        ({"goal": "width"}, "width: must be given"),
        ({"goal": "width", "width": 0.0}, "width=0.0: give a number between 0 and 1"),
        ({"goal": "width", "width": 1}, "width=1"),
        ({"goal": "width", "width": "narrow"}, "width=narrow"),
        ({"goal": "width", "width": 0.1, "level": 0.9}, "level= goes with goal=decide"),
        ({"goal": "decide", "a": "x"}, "give a= and b="),
        ({"goal": "decide", "a": "x", "b": "y", "level": 0.5}, "level=0.5"),
        ({"goal": "decide", "a": "x", "b": "y", "level": 1}, "level=1"),
        ({"goal": "decide", "a": "x", "b": "y", "width": 0.1}, "width= goes with goal=width"),
    ],
)
def test_what_cannot_be_parsed_shows_the_grammar(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_goal(GoalSettings(**given))
    assert said in str(caught.value)
    assert GRAMMAR in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"quantity": "pg"}, "did you mean 'p_g'"),
        ({"quantity": "tau[0]", "interval": "finite"}, "tau[0] has no share among the items"),
        ({"interval": "finit"}, "did you mean 'finite'"),
    ],
)
def test_unknown_names_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said.replace("[", r"\[")):
        parse_goal(GoalSettings(goal="width", width=0.1, **given))


def test_a_configuration_that_is_not_there() -> None:
    goal = parse_goal(GoalSettings(goal="decide", a="bm25-gema", b="bm25-qwen"))
    with pytest.raises(InputError, match="did you mean 'bm25-gemma'"):
        check_configurations(goal, ["bm25-gemma", "bm25-qwen"])


def test_two_different_configurations_are_needed() -> None:
    with pytest.raises(InputError, match="two different"):
        parse_goal(GoalSettings(goal="decide", a="x", b="x"))
