"""t@match and the rules beside it: whole kinds of cases, not only the examples."""

from __future__ import annotations

import random
import unicodedata

import pytest

from rat_ray.annotate.agreement import find, token_f1
from rat_ray.annotate.match import (
    T_RULES,
    F1Settings,
    MatchSettings,
    NumberSettings,
    contains,
    exact,
    f1,
    match,
    says_yes_or_no,
)
from rat_ray.annotate.rules import MISSING
from rat_ray.annotate.yes_no import gold_yes_no
from rat_ray.errors import InputError
from tests.annotate.items import answered


def label(answer: str, *golds: str) -> int | None:
    return match(answered(answer, list(golds))).label


def rule(answer: str, *golds: str) -> str | None:
    return match(answered(answer, list(golds))).rule


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("Paris", "paris"),
        ("It is in Paris, France.", "Paris"),
        ("The Loire", "Loire"),
        ("Loire", "the Loire"),
        ("“Paris”", "Paris"),
        ("Paris [1].", "Paris"),
        ("rock ’n’ roll", "rock 'n' roll"),
        ("rock `n´ roll", "rock 'n' roll"),
        ("U.S.", "US"),
        ("U. S.", "US"),
        ("J. K. Rowling", "J.K. Rowling"),
        ("JK Rowling", "J. K. Rowling"),
        ("washington, d. c.", "Washington, D.C."),
        ("the s - block", "s-block"),
        ("Ｐａｒｉｓ", "Paris"),
        ("Pa\u200bris", "Paris"),
        ("Pa\u00adris", "Paris"),
        ("STRASSE", "Straße"),
        ("東京都です", "東京"),
        ("彼は1912年に", "1912年"),
        ("#MeToo", "MeToo"),
        ("It is C++.", "C++"),
    ],
)
def test_spelling_changes_nothing(answer: str, gold: str) -> None:
    assert label(answer, gold) == 1


@pytest.mark.parametrize("name", ["Beyoncé", "François Mitterrand", "Łódź", "Dvořák", "São Paulo", "Ångström", "Ôkubo"])
def test_accents_count_neither_composed_nor_decomposed_nor_left_out(name: str) -> None:
    plain = "".join(c for c in unicodedata.normalize("NFD", name) if not unicodedata.combining(c)).replace("Ł", "L")
    for one in ("NFC", "NFD", "NFKC", "NFKD"):
        for other in ("NFC", "NFD"):
            golds = unicodedata.normalize(other, name)
            assert rule(unicodedata.normalize(one, name), golds) == "exact"
    assert rule(plain, name) == rule(name, plain) == "exact"
    assert label(f"It was {unicodedata.normalize('NFD', name)}.", plain) == 1


def test_marks_of_other_scripts_tell_words_apart() -> None:
    assert label("край", "край") == label(unicodedata.normalize("NFD", "край"), "край") == 1
    assert label("край", "краи") == 0
    assert label("ガス", "カス") == 0
    assert label("कमला", "कमल") == 0
    assert label("कमल", "कमल") == 1


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("Parisian", "Paris"),
        ("zebra", "A"),
        ("a zebra", "A"),
        ("The zebra", "The"),
        ("vitamin C", "Vitamin A"),
        ("a vitamin", "Vitamin A"),
        ("", "Paris"),
        ("…", "Paris"),
        ("artist", "art"),
        ("start", "art"),
        ("Michael Jordan", "Michael Jackson"),
        ("Paris", "…"),
        ("", "…"),
        ("%", "*"),
        ("a * b", "*"),
        ("\u263a\ufe0f", "\u2764\ufe0f"),
        ("Paris", "\u2764\ufe0f"),
        ("C", "C++"),
        ("C#", "C"),
    ],
)
def test_what_only_looks_like_it_does_not_agree(answer: str, gold: str) -> None:
    assert label(answer, gold) == 0


@pytest.mark.parametrize("gold", ["A", "The", "An", "a", "“A”"])
def test_a_gold_of_articles_only_keeps_its_words(gold: str) -> None:
    word = gold.strip("“”")
    for answer in (word, f"{word}.", f'"{word.upper()}"', f"The answer is {word}."):
        assert label(answer, gold) == 1
    for answer in ("zebra", f"{word} zebra", f"zebra {word}", "", "an answer"):
        assert label(answer, gold) == 0


def test_a_gold_that_ends_in_an_article_keeps_it() -> None:
    assert label("It is vitamin A.", "Vitamin A") == 1
    assert label("Vitamin A is the one", "Vitamin A") == 1
    assert label("hepatitis B", "hepatitis A") == 0


@pytest.mark.parametrize(
    "answer",
    [
        "not Paris",
        "It was not Paris but Lyon.",
        "It wasn’t Paris",
        "It isn't in Paris.",
        "It was never Paris",
        "neither Paris nor Lyon",
        "neither Rome nor Paris",
        "Every city except Paris",
        "Rome rather than Paris",
        "Rome instead of Paris",
        "It cannot be Paris",
        "It could not have been Paris.",
        "nicht Paris",
    ],
)
def test_a_negated_answer_is_not_contained(answer: str) -> None:
    assert match(answered(answer, ["Paris"])).label == 0
    assert rule(answer, "Paris") == rule(answer, "the Paris") == "negated"
    assert contains(answered(answer, ["Paris"])).label == 0


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("It was not Paris but Lyon.", "Lyon"),
        ("Not only Paris but also Lyon", "Paris"),
        ("It was not until 1945 that it ended", "1945"),
        ("not Paris; no, it was Paris after all: Paris", "Paris"),
        ("I am not sure, Paris", "Paris"),
        ("No, Paris", "Paris"),
        ("not guilty", "not guilty"),
        ("The president went to Paris", "Paris"),
    ],
)
def test_a_negation_of_something_else_changes_nothing(answer: str, gold: str) -> None:
    assert label(answer, gold) == 1


def test_guilty_is_not_found_in_not_guilty() -> None:
    assert label("not guilty", "guilty") == 0


@pytest.mark.parametrize(
    ("answer", "gold", "expected"),
    [
        ("Christopher Lloyd", "Christopher Allen Lloyd", "f1"),
        ("Evgenia Armanovna Medvedeva", "Evgenia Medvedeva", "f1"),
        ("Evgenia Medvedeva and Alina Zagitova", "Evgenia Medvedeva", "contained"),
        ("Louis XV of France", "Louis XIV of France", "none"),
        ("the first President of the United States", "the second President of the United States", "none"),
        ("Bank of the Republic of North Korea", "Bank of the Republic of South Korea", "none"),
        ("the law is not in force today here", "the law is in force today here", "none"),
        ("white and black", "black and white", "f1"),
        ("Arthur Miller", "Miller, Arthur", "list"),
        ("blue, white and red", "red, white and blue", "list"),
        ("Maryland, in the town of Landover", "Landover, Maryland", "list"),
        ("Landover", "Landover, Maryland", "none"),
        ("Hugh Samuel Johnson", "Hugh S. Johnson", "initials"),
        ("B. R. Ambedkar", "Bhimrao Ramji Ambedkar", "initials"),
        ("bhimrao ramji ambedkar", "B.R. Ambedkar", "initials"),
        ("J. Smith", "John Smith", "initials"),
        ("K. Smith", "John Smith", "none"),
        ("J. K. Smith", "John Peter Smith", "none"),
        ("Al Gore", "Albert Arnold Gore", "none"),
        ("icecream", "ice cream", "exact"),
        ("Sedimentary rocks", "sedimentary rock", "contained"),
        ("temporal lobe", "the temporal lobes", "contained"),
        ("city", "cities", "contained"),
        ("glass", "glas", "none"),
        ("ADP", "adenosine diphosphate (ADP)", "exact"),
        ("adenosine diphosphate", "adenosine diphosphate (ADP)", "exact"),
        ("s-block", "in the s-block", "exact"),
        ("the road", "On the Road", "none"),
        ("Washington Heights", "In the Heights", "none"),
    ],
)
def test_less_plain_agreement_says_how(answer: str, gold: str, expected: str) -> None:
    assert rule(answer, gold) == expected
    assert label(answer, gold) == int(expected != "none")


def test_any_accepted_answer_will_do_and_the_score_is_of_the_best() -> None:
    assert match(answered("Paris", ["Rome", "Paris"])) == (1, "exact", 1.0)
    assert match(answered("Paris France", ["Rome", "Paris"])) == (1, "contained", pytest.approx(2 / 3))
    assert match(answered("Ann Smith", ["John Adams", "Jane Ann Doe", "Ann Doe"])) == (0, "none", pytest.approx(0.5))
    assert match(answered("Oslo", ["Rome", "Paris"])) == (0, "none", 0.0)


def test_missing_where_t_is_not_defined_or_unknown() -> None:
    assert match(answered("Paris", ["Paris"]), abstained=1) == MISSING
    assert match(answered("Paris", ["Paris"]), abstained=0).label == 1
    assert match(answered(None, ["Paris"])) == match(answered("Paris", None)) == MISSING
    assert match(answered("Paris", [])).label == 0
    assert match(answered("SUPPORTS", [], "claim")).label == 0
    for name, kind in T_RULES.items():
        settings = kind.settings()
        assert kind.label(answered(None, ["Paris"]), settings) == MISSING, name
        assert kind.label(answered("Paris", None), settings) == MISSING, name


@pytest.mark.parametrize(
    ("answer", "gold", "expected"),
    [
        ("I don't know", "no", 0),
        ("I don’t know", "No", 0),
        ("know", "no", 0),
        ("Norway", "no", 0),
        ("yesterday", "yes", 0),
        ("There is no such thing", "no", 0),
        ("Yes, it is.", "yes", 1),
        ("No.", "no", 1),
        ("nope", "no", 1),
        ("The answer is no.", "No.", 1),
        ("True", "yes", 1),
        ("No", "yes", 0),
    ],
)
def test_yes_and_no(answer: str, gold: str, expected: int) -> None:
    assert match(answered(answer, [gold])) == (expected, "yes_no", None)
    assert says_yes_or_no(answered(answer, [gold])).label == expected


@pytest.mark.parametrize(
    ("answer", "golds", "expected"),
    [
        ("true", ["SUPPORTS"], 1),
        ("neither supports nor refutes", ["SUPPORTS"], 0),
        ("neither supports nor refutes", ["NOT ENOUGH INFO"], 1),
        ("Paris", ["SUPPORTS"], 0),
        ("Paris", ["Paris"], 0),
        ("REFUTES", ["SUPPORTS", "false"], 1),
    ],
)
def test_claims_are_matched_by_verdict(answer: str, golds: list[str], expected: int) -> None:
    assert match(answered(answer, golds, "claim")) == (expected, "claim", None)


def test_rules_beside_match() -> None:
    assert exact(answered("the Paris", ["paris."])).label == 1
    assert exact(answered("Paris, France", ["Paris"])) == (0, "none", pytest.approx(2 / 3))
    assert exact(answered("15 April 1912", ["1912-04-15"])).label == 1
    assert exact(answered("a zebra", ["A"])).label == 0
    assert contains(answered("in Paris, France", ["Paris"])).label == 1
    assert contains(answered("Christopher Lloyd", ["Christopher Allen Lloyd"])).label == 0
    assert contains(answered("a zebra", ["A"])).label == 0
    assert f1(answered("Paris in France", ["Paris France"])) == (1, "f1", pytest.approx(0.8))
    assert f1(answered("Paris in France", ["Paris France"]), F1Settings(at_least=0.9)).label == 0
    assert f1(answered("a zebra", ["A"])).label == 0
    assert f1(answered("It is vitamin A", ["Vitamin A"])).score == pytest.approx(2 / 3)
    assert f1(answered("", ["Paris"])) == (0, "f1", 0.0)


def test_match_takes_what_at_least_asks_for() -> None:
    item = answered("Christopher Lloyd", ["Christopher Allen Lloyd"])
    assert T_RULES["match"].label(item, MatchSettings()).label == 1
    assert T_RULES["match"].label(item, MatchSettings(at_least=1.0)).label == 0
    assert T_RULES["match"].label(answered("Nixon", ["Richard Nixon"]), MatchSettings(at_least=0.6)).label == 1


@pytest.mark.parametrize(
    "settings",
    [MatchSettings(0.0), MatchSettings(1.1), F1Settings(-0.1), F1Settings(0.0), NumberSettings(-1), NumberSettings(1)],
)
def test_bad_options_are_refused(settings: MatchSettings | F1Settings | NumberSettings) -> None:
    with pytest.raises(InputError, match="give a share"):
        settings.validate()


def test_token_f1_counts_words_as_often_as_both_have_them() -> None:
    assert token_f1(["new", "york", "new", "york"], ["new", "york"]) == pytest.approx(2 / 3)
    assert token_f1(["new", "new"], ["new", "new", "new"]) == pytest.approx(0.8)
    many = [f"w{i}" for i in range(20)]
    assert token_f1([*many, *many], many) == pytest.approx(2 / 3)
    assert token_f1([], []) == 1.0
    assert token_f1([], ["a"]) == token_f1(["a"], []) == 0.0


def test_find_tells_found_from_negated_from_absent() -> None:
    assert (find(" paris ", " in paris "), find(" paris ", " not in paris "), find(" paris ", " rome ")) == (1, 0, None)


def test_no_text_breaks_a_rule() -> None:
    """Digits of all scripts and of no script, halves of characters, numbers that are none."""
    odd = ["፩ April 1912", "١٢ million", "²½", "①", "\ud800", "\x00", "1.2.3 million", "-", "--1", "9" * 400, "$", "%"]
    odd += [
        "\u0301",
        "99/99/9999",
        "0/0/0000",
        "one hundred and",
        "minus",
        "1" + "0" * 400 + " trillion",
        "[1",
        "..",
        "'",
    ]
    for kind in T_RULES.values():
        for answer in [*odd, *(f"It is {one}, I think." for one in odd)]:
            for gold in odd:
                assert kind.label(answered(answer, [gold]), kind.settings()).label in {0, 1, None}
                assert kind.label(answered(gold, [gold], "claim"), kind.settings()).label in {0, 1, None}


def test_every_answer_agrees_with_itself() -> None:
    rng = random.Random(6)
    parts = [*"0123456789.,-/ $%'()ab²½①፩éÉ—–\u200b  ", "May", "april", " one ", "two", "hundred", "million", "first"]
    parts += ["to", "between", " and ", "minus", "the", "World War II", "yes", "no"]
    for _ in range(3_000):
        text = "".join(rng.choices(parts, k=rng.randint(1, 12)))
        if any(char.isalnum() for char in text):
            golds = ["Paris", text]
            if gold_yes_no(text) is None:
                assert label(text, *golds) == 1, text
                assert exact(answered(text, golds)).label == 1, text


@pytest.mark.parametrize("shape", ["open", "claim"])
@pytest.mark.parametrize(
    "unit",
    ["not Paris ", "1 ", "1,", "a.", "[1", "April ", "twenty ", "one hundred and ", "neither ", "not support ", "-"],
)
def test_an_answer_of_100_000_characters_is_labelled(unit: str, shape: str) -> None:
    long = (unit * 100_000)[:100_000]
    golds = ["Paris", "15 April 1912", "Landover, Maryland", "yes", "A"]
    assert match(answered(long, golds, shape)).label == 0
    if shape == "open":
        assert match(answered(f"{long} It was Lyon on 15 April 1912.", ["Lyon"])).label == 1
        assert match(answered(f"{long}. It was Lyon on April 15, 1912.", ["15 April 1912"])).label == 1
