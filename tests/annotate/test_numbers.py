"""Numbers and dates in one spelling each."""

from __future__ import annotations

import pytest

from rat_ray.annotate.folding import folded
from rat_ray.annotate.numbers import number_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1.000", "1.000"),
        ("1.000.000", "1000000"),
        ("1.000,50", "1000.5"),
        ("1,2,3", "1,2,3"),
        ("1.2.3.4", "1.2.3.4"),
        ("3,14", "3.14"),
        (".5", "0.5"),
        ("0.50", "0.5"),
        ("two and three", "2 and 3"),
        ("one two three", "1 2 3"),
        ("two hundred and three", "203"),
        ("two thousand three", "2003"),
        ("three hundred twenty-one thousand", "321000"),
        ("nineteen hundred", "1900"),
        ("the one of them", "one of them"),
        ("no one", "no one"),
        ("one hundred", "100"),
        ("$5", "5 dollar"),
        ("€1.5 million", "1500000 euro"),
        ("£20bn", "20000000000 pound"),
        ("5-year-old", "5 year old"),
        ("In May 5 people died", "in may 5 people died"),
        ("on May 5 in Rome", "on 5 may in rome"),
        ("March 2 and 3, 2012", "2 march and 3 2012"),
        ("04/05/1912", "4/5/1912"),
        ("99/99/1912", "99/99/1912"),
        ("12/25", "12 / 25"),
        ("1979/80", "1979 to 1980"),
        ("1999–00", "1999 to 2000"),
        ("13–3", "13 to 3"),
        ("mid-1970s", "mid 1970s"),
        ("F-16", "f 16"),
        ("B17", "b17"),
        ("19th-century", "19th century"),
        ("April 1912 – May 1913", "april 1912 to may 1913"),
        ("April 1912 to May 1913", "april 1912 to may 1913"),
        ("Jan", "jan"),
        ("Mar 2020", "march 2020"),
        ("juni 1912", "june 1912"),
        ("1 mars", "1 mars"),
    ],
)
def test_number_words(text: str, words: str) -> None:
    assert " ".join(number_words(folded(text))) == words


@pytest.mark.parametrize(
    "text", ["4", "1000", "4.5", "15 april 1912", "1939 to 1945", "20 percent", "5 dollar", "1.000"]
)
def test_the_one_spelling_is_left_as_it_is(text: str) -> None:
    assert " ".join(number_words(text)) == text
