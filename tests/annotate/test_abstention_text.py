"""Text made comparable: what the rules for A and T share."""

from __future__ import annotations

import unicodedata

import pytest

from rat_ray.annotate.text import plain, short_answer, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Paris", "paris"),
        ("  The\tLoire \n", "the loire"),
        ("I don’t", "i don't"),
        ("I don´t", "i don't"),
        ("I don`t", "i don't"),
        ("“Paris”", '"paris"'),
        ("1939–1945", "1939-1945"),
        ("1939−1945", "1939-1945"),
        ("Ｐａｒｉｓ", "paris"),
        ("Pa\u200bris", "paris"),
        ("Pa\u00adris\ufeff", "paris"),
        ("Straße", "strasse"),
        ("ﬁne", "fine"),
        ("Beyonce\u0301", "beyoncé"),
        ("Beyonce\u200d\u0301", "beyoncé"),
        ("İstanbul", "istanbul"),
        ("ΣΟΦΟΣ", "σοφοσ"),
        ("a\u00a0b\u2028c", "a b c"),
        ("", ""),
    ],
)
def test_plain(text: str, expected: str) -> None:
    assert plain(text) == expected
    assert plain(unicodedata.normalize("NFD", text)) == expected or "´" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("U.S.", "us"),
        ("the U.S. Navy", "the us navy"),
        ("don't, won’t", "dont wont"),
        ("rock ’n’ roll", "rock n roll"),
        ("NO_ANSWER", "no answer"),
        ("12.50 km", "12 50 km"),
        ("a\x00b\x1fc\x7fd", "a b c d"),
        ("Café-Bar", "café bar"),
        ("कि", "कि"),
        ("का", "का"),
        ("東京。", "東京"),
        ("…", ""),
        ("É.U.", "éu"),
    ],
)
def test_words(text: str, expected: str) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Loire", "loire"),
        ("A", ""),
        ("an apple a day", "apple day"),
        ("Athens", "athens"),
        ("la Loire", "la loire"),
    ],
)
def test_short_answer(text: str, expected: str) -> None:
    assert short_answer(text) == expected


@pytest.mark.parametrize("text", ["The U.S. isn't (yet) done.", "x_y [1] 'a' \"b\"", "a.b.c. d", "``q''", "\x1c\x1d x"])
def test_ascii_takes_a_short_cut_to_the_same_words(text: str) -> None:
    assert words(text) == words(f"é {text}").removeprefix("é ").removeprefix("é")
    assert plain(text) == plain(f"é {text}").removeprefix("é ").removeprefix("é")
