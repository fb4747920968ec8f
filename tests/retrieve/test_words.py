"""Words of texts in many scripts."""

from __future__ import annotations

import random
import unicodedata

import bm25s
import pytest
import Stemmer

from rat_ray.retrieve.bm25 import Bm25Settings
from rat_ray.retrieve.words import Tokenizer

PLAIN = Bm25Settings(stemmer="", stopwords="")


def words(text: str) -> list[str]:
    [found] = Tokenizer(PLAIN)([text])
    return found


def as_bm25s(texts: list[str], settings: Bm25Settings) -> list[list[str]]:
    stemmer = Stemmer.Stemmer(settings.stemmer) if settings.stemmer else None
    stopwords = settings.stopwords or None
    return bm25s.tokenize(texts, stopwords=stopwords, stemmer=stemmer, return_ids=False, show_progress=False)


@pytest.mark.parametrize("tokens", ["unicode", "bm25s"])
@pytest.mark.parametrize(
    "languages",
    [("english", "english"), ("", ""), ("german", "german"), ("russian", "russian"), ("", "english_plus")],
)
def test_words_are_those_of_bm25s(tokens: str, languages: tuple[str, str]) -> None:
    texts = [
        "The runners' 3 races, re-run in 1912!",
        "",
        "a I",
        "Škoda und Straße",
        "Москва — столица",
        "Ωμέγα x² ½",
        "_a __",
    ]
    settings = Bm25Settings(tokens=tokens, stemmer=languages[0], stopwords=languages[1])
    assert Tokenizer(settings)(texts) == as_bm25s(texts, settings)


def test_as_bm25s_whatever_the_text_holds() -> None:
    draw = random.Random(1)
    settings = Bm25Settings(tokens="bm25s")
    signs = "ab ż ü漢字カナ한글กิ हि שָׁ اَ ا e\u0301 İ.ﾊﾟ１"
    texts = ["".join(draw.choices(signs, k=30)) for _ in range(200)]
    assert Tokenizer(settings)(texts) == as_bm25s(texts, settings)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("北京大学", ["北京", "京大", "大学"]),
        ("在 北京。水", ["在", "北京", "水"]),
        ("東京タワーへ", ["東京", "京タ", "タワ", "ワー", "ーへ"]),
        ("NHK東京放送局2階", ["nhk", "東京", "京放", "放送", "送局", "階"]),
        ("ｱﾊﾟｰﾄ", ["アパ", "パー", "ート"]),
        ("ＮＨＫ ２０２０", ["nhk", "2020"]),
        ("서울은 a", ["서울", "울은"]),
        ("\u1112\u1161\u11ab\u1100\u1173\u11af", ["한글"]),  # decomposed
        ("กรุงเทพ", ["กรุ", "รุง", "งเ", "เท", "ทพ"]),
        ("𠀀𠀁", ["𠀀𠀁"]),
        ("Санкт-Петербург", ["санкт", "петербург"]),
        ("йод", ["йод"]),
        ("مُحَمَّد كـتاب", ["محمد", "كتاب"]),
        ("שָׁלוֹם עולם", ["שלום", "עולם"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("Cafe\u0301 na\u0308ive", ["café", "näive"]),
        ("İstanbul", ["istanbul"]),
        ("q\u0307", ["q\u0307"]),
        ("\u0301\u0301 ", []),
        ("a b c", []),
    ],
)
def test_scripts(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    "text", ["Ærøskøbing Café", "한글 서울은", "タワー", "हिन्दी", "đường phố", "مُحَمَّد", "ά ὰ Ωμ Å ngström"]
)
def test_words_do_not_depend_on_how_a_text_is_normalised(text: str) -> None:
    assert len(words(text)) > 0
    for form in ("NFC", "NFD"):
        assert words(unicodedata.normalize(form, text)) == words(text)


def test_a_question_finds_its_words_within_a_run() -> None:
    """What pairs are for: each word of two characters is among those of any run that holds it."""
    sentence = words("清华大学位于北京市海淀区")
    for word in ("清华", "大学", "北京", "海淀"):
        assert set(words(word)) <= set(sentence)


def test_stop_words_and_stems_come_after_the_split() -> None:
    assert Tokenizer(Bm25Settings())(["The runners of 東京都"]) == [["runner", "東京", "京都"]]
    assert Tokenizer(Bm25Settings(stopwords="chinese", stemmer=""))(["我们北京"]) == [["们北", "北京"]]
