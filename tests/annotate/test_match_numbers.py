"""t@match on numbers, quantities, dates and ranges in their usual spellings."""

from __future__ import annotations

import pytest

from rat_ray.annotate.match import NumberSettings, date, match, number, says_yes_or_no
from rat_ray.annotate.rules import MISSING
from tests.annotate.items import answered


def label(answer: str, *golds: str) -> int | None:
    return match(answered(answer, list(golds))).label


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        *[(one, other) for one in ("4", "four", "4.0", "Four.", "4,0") for other in ("4", "four", "4.0")],
        *[
            (one, other)
            for one in ("1,000", "1 000", "1\u202f000", "1'000", "1000", "one thousand", "a thousand", "1000.0")
            for other in ("1000", "1,000", "one thousand")
        ],
        *[
            (one, other)
            for one in ("10 million", "10,000,000", "ten million", "10.000.000", "10 000 000", "10.0 million")
            for other in ("10 million", "10000000")
        ],
        *[(one, "20%") for one in ("20 %", "20 percent", "20 per cent", "twenty percent", "20.0%", "about 20 %")],
        *[(one, other) for one in ("3rd", "third", "the third") for other in ("third", "3rd")],
        *[(one, "21st century") for one in ("twenty-first century", "the 21st-century", "twenty first century")],
        ("seventy-nine", "79"),
        ("79", "seventy-nine"),
        ("Its atomic number is 79.", "seventy-nine"),
        ("one hundred and five", "105"),
        ("$10.5 million", "10.5 million dollars"),
        ("US$ 10,500,000", "$10.5 million"),
        ("21 196 km", "21,196 kilometres"),
        ("5 liters", "approximately 5 litres"),
        ("6 ft", "six feet"),
        ("90-minute", "90 minutes"),
        ("−5 °C", "minus 5 degrees Celsius"),
        ("1.234.567,89", "1,234,567.89"),
        ("203", "203 members"),
        ("World War 2", "World War II"),
        ("World War Two", "World War II"),
        ("Elizabeth the Second", "Elizabeth II"),
        ("Louis the 14th", "Louis XIV"),
        ("10-12 years", "10 to 12 years"),
        ("between 10 and 12 years", "10–12 years"),
        ("season nine", "season 9"),
        ("10 : 30 a.m.", "10:30am"),
    ],
)
def test_numbers_agree_in_their_usual_spellings(answer: str, gold: str) -> None:
    assert label(answer, gold) == 1


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("179", "79"),
        ("4.5", "4"),
        ("4.5", "5"),
        ("40", "4"),
        ("1,000", "1"),
        ("1,000", "000"),
        ("20,000", "20"),
        ("10", "10 million"),
        ("10 million", "10"),
        ("20", "20%"),
        ("20 km", "20 miles"),
        ("8", "8 km"),
        ("1.000", "1"),
        ("1.000", "1000"),
        ("-5", "5"),
        ("fourteen", "four"),
        ("fortieth", "forty"),
        ("third", "3"),
        ("no one knows", "1"),
        ("one of them", "1"),
        ("World War II", "World War I"),
        ("World War 1", "World War II"),
        ("World War II", "World War 2"),
        ("Paris [4]", "4"),
        ("12 to 10", "10 to 12"),
        ("007", "7"),
    ],
)
def test_other_numbers_and_other_units_do_not_agree(answer: str, gold: str) -> None:
    assert label(answer, gold) == 0


DATES = [
    "1912-04-15", "April 15, 1912", "15 April 1912", "15th of April 1912", "the 15th of April, 1912", "04/15/1912",
    "15/04/1912", "15.04.1912", "15.4.1912", "1912/04/15", "Apr. 15, 1912", "15 Apr 1912", "April 15th, 1912",
    "Monday, April 15, 1912", "fifteenth of April 1912", "15. April 1912", "15 avril 1912", "15 de abril de 1912",
    "APRIL 15 , 1912", "April\u00a015,\u00a01912",
]  # fmt: skip


@pytest.mark.parametrize("answer", [*DATES, "It sank on 15 April 1912 at night.", "on April 15, 1912, in the morning"])
@pytest.mark.parametrize("gold", [date for date in DATES if "Monday" not in date])
def test_a_date_agrees_in_all_its_spellings(answer: str, gold: str) -> None:
    assert label(answer, gold) == 1
    assert date(answered(answer, [gold])).label == 1


@pytest.mark.parametrize(
    ("answer", "gold", "expected"),
    [
        ("1912", "1912", 1),
        ("1912", "April 15, 1912", 0),
        ("April 1912", "April 15, 1912", 0),
        ("April 15, 1912", "1912", 1),
        ("April 15, 1912", "April 1912", 1),
        ("15 April", "April 15", 1),
        ("April 5, 1912", "April 15, 1912", 0),
        ("April 15, 1913", "April 15, 1912", 0),
        ("05/04/1912", "April 5, 1912", 0),
        ("05/04/1912", "05/04/1912", 1),
        ("5/4/1912", "05/04/1912", 1),
        ("04/04/1912", "4 April 1912", 1),
        ("2 mars 1972", "March 2, 1972", 1),
        ("Mars 2020", "March 2020", 0),
        ("in 1940", "the 1940s", 0),
        ("the 1940's", "1940s", 1),
        ("December 1836", "Dec. 1836", 1),
        ("1978", "in 1978", 1),
        ("1200", "Around 1200", 1),
        ("6th century BC", "6th century BCE", 1),
        ("nineteen forty-five", "1945", 1),
    ],
)
def test_parts_of_dates(answer: str, gold: str, expected: int) -> None:
    assert label(answer, gold) == expected


RANGES = ["1939-1945", "1939–1945", "1939—1945", "1939\u20111945", "1939 – 1945", "1939−1945", "1939 to 1945",
          "from 1939 to 1945", "between 1939 and 1945", "1939 until 1945", "1939–45", "1939/45"]  # fmt: skip


@pytest.mark.parametrize("answer", [*RANGES, "The war (1939–1945)"])
@pytest.mark.parametrize("gold", RANGES)
def test_a_range_of_years_agrees_in_all_its_spellings(answer: str, gold: str) -> None:
    assert label(answer, gold) == 1


def test_a_range_is_not_its_end_nor_another() -> None:
    assert label("1939", "1939–1945") == label("1939-1946", "1939–1945") == label("1945-1939", "1939–1945") == 0
    assert label("It began in 1939 and ended in 1945.", "1939–1945") == 1
    assert label("It began in 1945 and ended in 1939.", "1939–1945") == label("1939, not 1945", "1939–1945") == 0
    assert label("9 to 25 February 2018", "February 9–25, 2018") == 1


def test_number_and_date_are_missing_where_no_answer_is_one() -> None:
    assert number(answered("4", ["Paris"])) == date(answered("1912", ["Paris"])) == MISSING
    assert says_yes_or_no(answered("yes", ["Paris"])) == MISSING
    assert number(answered("four of them", ["Paris", "4"])) == (1, "number", pytest.approx(0.5))
    assert date(answered("in 1912", ["Paris", "1912"])).label == 1
    assert date(answered("in 1913", ["1912"])).label == 0


def test_a_number_within_the_tolerance() -> None:
    item = answered("about 2.4 billion years", ["2.45 billion years"])
    assert number(item).label == 0
    assert number(item, NumberSettings(tolerance=0.05)) == (1, "near", pytest.approx(0.4))
    assert number(answered("2.4 billion km", ["2.45 billion miles"]), NumberSettings(tolerance=0.05)).label == 0
    assert number(answered("3 billion years", ["2.45 billion years"]), NumberSettings(tolerance=0.05)).label == 0


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("\u0661\u066c\u0662\u0663\u0664\u066c\u0665\u0666\u0667", "1,234,567"),
        ("\u0967\u0968", "12"),
        ("25\u066a", "25%"),
        ("25 percents", "25%"),
        ("3\u00bd", "3.5"),
        ("3 1/2", "3.5"),
        ("three and a half", "3.5"),
        ("three point one four", "3.14"),
        ("\u00bd", "1/2"),
        ("USD 2.5 billion", "$2.5 billion"),
        ("2.5 billion US dollars", "$2.5 billion"),
        ("two and a half billion dollars", "$2.5 billion"),
        ("$2.5B", "$2.5 billion"),
        ("negative 40", "-40"),
        ("\u201c\u2212128.6 \u00b0F\u201d", "\u2212128.6 \u00b0F"),
        ("a dozen", "12"),
        ("two dozen", "24"),
        ("5 ft 10 in", "5 feet 10 inches"),
        ("5'10\"", "5 feet 10 inches"),
        ("5\u203210\u2033", "5 feet 10 inches"),
        ("1912\u00b9", "1912"),
        ("It was 1912.\u00b2", "1912"),
        ("10\u2076", "10^6"),
    ],
)
def test_less_usual_spellings_of_numbers(answer: str, gold: str) -> None:
    assert label(answer, gold) == label(gold, answer) == 1 or (label(answer, gold) == 1 and "1912" in gold)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("31/2", "3.5"),
        ("3\u00bd", "31"),
        ("10\u2076", "106"),
        ("two and half of it", "2.5"),
        ("1/2", "1"),
        ("$2.5m", "2.5 metres"),
    ],
)
def test_a_fraction_or_a_power_is_no_other_number(answer: str, gold: str) -> None:
    assert label(answer, gold) == (1 if gold == "1" else 0)


@pytest.mark.parametrize("answer", ["July 20,1969", "1969 July 20", "1969, July 20", "20-Jul-1969", "1969.07.20",
                                    "1969\u5e747\u670820\u65e5", "20 july, 1969", "7/20/1969"])  # fmt: skip
def test_less_usual_spellings_of_dates(answer: str) -> None:
    for gold in ("1969-07-20", "July 20, 1969"):
        assert label(answer, gold) == label(gold, answer) == 1
        assert label(f"It was on {answer}, at night", gold) == 1
    assert label(answer, "July 21, 1969") == label(answer, "July 20, 1968") == 0


def test_a_date_of_two_days_is_a_date() -> None:
    assert date(answered("04/05/1912", ["04/05/1912"])) == (1, "date", 1.0)
    assert date(answered("4 May 1912", ["04/05/1912"])).label == 0
    assert number(answered("04/05/1912", ["04/05/1912"])) == MISSING


@pytest.mark.parametrize(
    "text",
    [
        "04/05/1912 trillion", "0000-00-00 million", "minus 10th hundred", "1 " + "bn " * 120_000, "-1.2.3 million",
        "1e999", "1e999 million", "nan", "inf", str(10**400), f"{10**400} million", "31 Feb 9999", "0/0/0000",
        "99.99.9999", "year 0", "\u0661/\u0662/\u0663\u0664\u0665\u0666 bn", "1/0", "5'99\"",
    ],
    ids=range(18),
)  # fmt: skip
def test_no_number_or_date_is_too_odd(text: str) -> None:
    for answer, gold in ((text, text), (text, "5 km"), ("5 million", text), (text, "1912")):
        for tolerance in (0.0, 0.5):
            found = number(answered(answer, [gold]), NumberSettings(tolerance=tolerance))
            assert found.label in (None, 0, 1)
            assert found.score is None or 0 <= found.score <= 1
        assert match(answered(answer, [gold])).label in (0, 1)
    assert label(text, text) == 1
