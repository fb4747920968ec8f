"""Tokens as the server counts them, whichever server it is; else an estimate that is rather too high."""

from __future__ import annotations

from pathlib import Path

import pytest

from rat_ray.errors import InputError, StageError
from rat_ray.generate.engine import Prompt
from rat_ray.generate.server import open_engine
from rat_ray.generate.server_tokens import AT_ONCE, estimate
from tests.generate.llm_server import LlmServer, running

PROMPTS = [Prompt("one two three"), Prompt("four", "system words here"), Prompt("five six")]

pytestmark = pytest.mark.usefixtures("impatient")


@pytest.mark.parametrize(
    ("kind", "mode", "counts"),
    [
        ("vllm", "completion", [3, 4, 2]),
        ("vllm", "chat", [8, 9, 7]),  # that server's template adds five
        ("sglang", "completion", [3, 4, 2]),
        ("sglang", "chat", [27, 28, 26]),  # no templates there: what one adds is allowed for
        ("llama", "completion", [3, 4, 2]),
        ("llama", "chat", [5, 8, 4]),  # <role> and <end> around each message
    ],
)
def test_the_server_counts(server: LlmServer, kind: str, mode: str, counts: list[int]) -> None:
    server.tokenize = kind
    engine = open_engine(server.settings(mode=mode))
    assert engine.counts_exactly
    assert engine.count_tokens(PROMPTS) == counts
    tries = len(server.paths)
    assert engine.count_tokens(PROMPTS * 20) == counts * 20
    per_prompt = 2 if (kind, mode) == ("llama", "chat") else 1
    assert len(server.paths) - tries == 60 * per_prompt  # how it counts was found out once
    assert engine.count_tokens([]) == []
    engine.close()


@pytest.mark.parametrize("mode", ["completion", "chat"])
def test_a_server_that_cannot_count(server: LlmServer, mode: str) -> None:
    engine = open_engine(server.settings(mode=mode))
    assert not engine.counts_exactly
    asked = len(server.paths)
    added = 24 if mode == "chat" else 0
    assert engine.count_tokens(PROMPTS) == [estimate(one.whole) + added for one in PROMPTS]
    assert len(server.paths) == asked
    engine.close()


def test_a_server_that_is_gone_cannot_be_asked(server: LlmServer) -> None:
    other = LlmServer(tokenize="vllm")
    with running(other.application()) as process:
        other.url = process.url
        engine = open_engine(other.settings(retries=1))
        assert engine.count_tokens(PROMPTS) == [3, 4, 2]
        process.stop()
        with pytest.raises(StageError, match=r"no answer after 2 tries \(cannot connect"):
            engine.count_tokens(PROMPTS)
        engine.close()


def test_an_address_below_a_path(server: LlmServer) -> None:
    """/tokenize lies beside /v1, also behind a gateway's path."""
    engine = open_engine(server.settings())
    engine.close()
    assert "/tokenize" in server.paths
    assert AT_ONCE > 1


TEXTS = {
    "english": "The Treaty of Westphalia, signed in 1648, ended the Thirty Years' War in the Holy Roman Empire, "
    "closing a calamitous period of European history that killed approximately eight million people.",
    "names": "Krzysztof Kieślowski's Trois couleurs: Bleu starred Juliette Binoche, Benoît Régent and Emmanuelle Riva.",
    "numbers": "In 1939–1945 the population fell from 1,234,567 to 987,654 (−20.1 %), i.e. by 246,913; see p. 12.",
    "german": "Die Bundesverfassungsgerichtsentscheidung über die Verfassungsmäßigkeit der Übergangsregelungen fällt "
    "voraussichtlich im nächsten Frühjahr, wie aus Karlsruhe verlautete.",
    "french": "Les élèves français ont été reçus à l'hôtel de ville, où l'on fêtait l'anniversaire de la République.",
    "russian": "Москва является столицей Российской Федерации и крупнейшим по численности населения городом страны.",
    "greek": "Η Αθήνα είναι η πρωτεύουσα της Ελλάδας και η μεγαλύτερη πόλη της χώρας.",
    "arabic": "القاهرة هي عاصمة جمهورية مصر العربية وأكبر مدنها من حيث عدد السكان.",
    "hindi": "नई दिल्ली भारत की राजधानी है और यह देश के उत्तरी भाग में स्थित है।",
    "chinese": "北京是中华人民共和国的首都，位于华北平原的北部，是全国的政治和文化中心。",
    "japanese": "東京は日本の首都であり、世界最大の都市圏の一つである。カタカナとひらがなも使われる。",
    "korean": "서울특별시는 대한민국의 수도이자 최대 도시이다.",
    "thai": "กรุงเทพมหานครเป็นเมืองหลวงและนครที่มีประชากรมากที่สุดของประเทศไทย",
    "emoji": "Great 👍🏽 see you 🎉🎉 👨‍👩‍👧",
    "code": 'def f(x):\n    return {"a": [x ** 2, -1], "b": None}  # why?\n\n\nfor i in range(10):\n\tprint(f(i))\n',
    "markup": '[1] Castle (12th c.): "It\'s" ... <b>bold</b> && ### --- == ||| http://example.org/a_b?c=d&e=%20f',
    "single": "a",
    "blanks": "a  b   c\n\n\n   d\t\te",
}


def test_an_estimate_is_about_a_token_for_three_letters_and_one_for_each_sign() -> None:
    assert estimate("") == 1
    assert estimate("word") == 3
    assert estimate("a cat sat.") == 1 + 1 + 1 + 1 + 1
    assert estimate("1984") == 5
    assert estimate("a\n\nb") == 5
    assert estimate("é") == 2
    assert estimate("日本") == 5
    assert estimate("\ud800") == 3  # half a character is no reason to fail
    for text in TEXTS.values():
        assert estimate(text) <= 1 + len(text.encode())  # what a tokenizer of bytes would make of it


def test_an_estimate_is_not_below_what_llama_2_s_tokenizer_counts() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    wordllama = pytest.importorskip("wordllama")
    folder = Path(wordllama.__file__).parent / "tokenizers"
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "l2_supercat_tokenizer_config.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    for name, text in TEXTS.items():
        if name != "greek":  # most of its letters are two or three tokens there, in no tokenizer of today
            assert len(tokenizer.encode(text).ids) <= estimate(text), name


def test_a_chat_without_a_template_is_known_when_the_engine_is_opened(server: LlmServer) -> None:
    server.tokenize = "no template"
    with pytest.raises(InputError, match="model 'tiny' has no chat template; set mode: completion"):
        open_engine(server.settings(mode="chat"))
    open_engine(server.settings()).close()
