"""The names agree with the model's quantities and states."""

from __future__ import annotations

from rat_ray.model.states import BASE_QUANTITIES
from rat_ray.model.states import STATES as MODEL_STATES
from rat_ray.report.names import HEADLINE, QUANTITIES, STATES, judge_of, name_of


def test_every_quantity_of_the_model_has_its_own_symbol_and_words() -> None:
    assert set(BASE_QUANTITIES) == set(QUANTITIES)
    assert len({name.symbol for name in QUANTITIES.values()}) == len(QUANTITIES)
    assert all(name.description for name in QUANTITIES.values())
    assert set(HEADLINE) <= set(QUANTITIES)


def test_the_six_states_stand_in_the_models_order() -> None:
    ends = {(1, -1): "abstained", (0, 0): "wrong", (0, 1): "right"}
    labels = [f"R={r}, {ends[(a, t if a == 0 else -1)]}" for r, a, t in MODEL_STATES.tolist()]
    assert [state.label for state in STATES] == labels
    assert [state.follows for state in STATES] == [
        (r == 0 and a == 1) or (r == 1 and a == 0 and t == 1) for r, a, t in MODEL_STATES.tolist()
    ]


def test_judges_are_described_and_unknown_names_pass_through() -> None:
    assert name_of("tpr[t@x]") == ("tpr[t@x]", "judge t@x says 1 where the truth is 1")
    assert name_of("fpr[r@a[0]]").description == "judge r@a[0] says 1 where the truth is 0"
    assert name_of("finite[p_g]").symbol == "P(G=1) of these"
    assert "t@a and t@b" in name_of("cor[t@a,t@b]").description
    assert "abstained" in name_of("yes[t@x,a=1]").description
    assert name_of("whatever") == ("whatever", "")
    assert judge_of("fpr[t@x]") == "t@x"
    assert judge_of("p_g") is None
