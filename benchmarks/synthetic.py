"""A made-up corpus with Wikipedia's lengths and word statistics, of any size, the same in every process.

Words follow Zipf's law up to rank 10,000 and fall faster beyond it (exponent 1.7), so that the vocabulary grows by
Heaps' law with an exponent near 0.59: about 300,000 words in 100,000 passages, 7 million in 21 million. The 33
commonest are English stop words, a third of all tokens. A passage has 100 words on average, and pages of 1 to 12
passages share a title, as in the passages of DPR.

    python benchmarks/synthetic.py 100000 FOLDER [--questions 2000] [--format jsonl|dpr]

writes corpus.jsonl (or psgs_w100.tsv) and questions.jsonl into FOLDER.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rat_ray import tables

STOPWORDS = (
    *("the", "of", "and", "in", "to", "a", "was", "is", "as", "for", "on", "by", "with", "at", "that", "it", "are"),
    *("be", "an", "or", "this", "not", "but", "into", "if", "no", "such", "their", "then", "there", "these", "they"),
    "will",
)
COMMON = 10_000  # ranks that follow Zipf's law with exponent 1
STEEP = 0.7  # the tail's exponent is 1 more
TOP_RANK = 2**40
CONSONANTS = "bcdfghjklmnprstvwxz"
VOWELS = "aeiou"
SYLLABLES = [first + second for first in CONSONANTS for second in VOWELS]
ENDINGS = ("", "n", "r", "s", "ed", "ing", "l", "t")
WORDS = 100  # per passage, on average
BATCH = 10_000  # passages drawn at once; part of what decides them

Ranks = npt.NDArray[np.int64]


def batches(size: int, seed: int = 1) -> Iterator[pa.Table]:
    """`size` passages (tables.PASSAGES) in tables of up to 10,000: the first n of a larger corpus are the smaller one.

    Ids are "1", "2", … as in DPR's file. Memory is that of one table.
    """
    page = 0
    for start in range(0, size, BATCH):
        rows = min(BATCH, size - start)
        draw = np.random.default_rng([seed, start])
        ranks, lengths = draw_ranks(draw, int(BATCH * WORDS * 1.2)), draw_lengths(draw, BATCH)
        titles, page = draw_titles(draw, page)
        texts = sentences(ranks, lengths[:rows])
        ids = [str(number) for number in range(start + 1, start + rows + 1)]
        yield pa.table({"passage_id": ids, "title": titles[:rows], "text": texts}, schema=tables.PASSAGES)


def passages(size: int, seed: int = 1) -> pa.Table:
    """All of `batches` in one table: about 600 bytes per passage."""
    return pa.concat_tables([tables.PASSAGES.empty_table(), *batches(size, seed)])


def questions(size: int, corpus: int, seed: int = 1) -> pa.Table:
    """`size` questions (tables.QUESTIONS) of 6 to 14 consecutive words of one of the first `corpus` passages each.

    Its evidence is that passage.
    """
    draw = np.random.default_rng([seed, 2**31])
    wanted = draw.integers(0, min(corpus, BATCH), size)  # of the first table: the others need not be made
    table = next(batches(min(corpus, BATCH), seed))
    texts, ids = table["text"].to_pylist(), table["passage_id"].to_pylist()
    lengths, places = draw.integers(6, 15, size), draw.random(size)
    asked = []
    for position, length, place in zip(wanted, lengths, places, strict=True):
        words = texts[position].replace(".", "").replace(",", "").split()
        begin = int(place * max(1, len(words) - length))
        asked.append(" ".join(words[begin : begin + length]) + "?")
    return pa.table(
        {
            "question_id": [f"q{number}" for number in range(size)],
            "question": asked,
            "answers": [None] * size,
            "evidence": [[[ids[position]]] for position in wanted],
            "shape": [None] * size,
        },
        schema=tables.QUESTIONS,
    )


def draw_ranks(draw: np.random.Generator, size: int) -> Ranks:
    """Ranks from 0: harmonic weights up to COMMON, then a power law that continues them."""
    harmonic = np.cumsum(1 / np.arange(1, COMMON + 1))
    total = harmonic[-1] + 1 / STEEP
    place = draw.random(size) * total
    ranks = np.searchsorted(harmonic, place, side="right").astype(np.float64)
    beyond = place >= harmonic[-1]
    left = (total - place[beyond]) * STEEP  # uniform in (0, 1]
    ranks[beyond] = np.minimum(COMMON * left ** (-1 / STEEP), TOP_RANK)
    return ranks.astype(np.int64)


def draw_lengths(draw: np.random.Generator, size: int) -> Ranks:
    """Words per passage: most are near 100; one in eight is the short rest of its page."""
    full = np.clip(draw.normal(104, 8, size), 60, 140)
    rest = draw.uniform(10, 100, size)
    return np.where(draw.random(size) < 0.125, rest, full).astype(np.int64)


def draw_titles(draw: np.random.Generator, page: int) -> tuple[list[str], int]:
    """BATCH titles, and the number of the page that comes next."""
    sizes = draw.integers(1, 13, BATCH)
    pages = np.repeat(np.arange(BATCH), sizes)[:BATCH]
    heads = draw_ranks(draw, 2 * BATCH) + len(STOPWORDS)
    names = spell(heads)
    titles = [f"{names[2 * n].title()} {names[2 * n + 1].title()} ({page + n})" for n in range(int(pages[-1]) + 1)]
    return [titles[n] for n in pages], page + int(pages[-1]) + 1


def sentences(ranks: Ranks, lengths: Ranks) -> list[str]:
    """Texts of so many words each, in sentences of 17 words with a comma in their middle."""
    words = spell(ranks[: int(lengths.sum())])
    texts, begin = [], 0
    for length in lengths.tolist():
        mine = words[begin : begin + length]
        begin += length
        mine[::17] = [word.capitalize() for word in mine[::17]]
        mine[8::17] = [f"{word}," for word in mine[8::17]]
        mine[16::17] = [f"{word}." for word in mine[16::17]]
        texts.append(" ".join(mine))
    return texts


def spell(ranks: Ranks) -> list[str]:
    """The words of these ranks: another word for every rank, longer the rarer."""
    different, where = np.unique(ranks, return_inverse=True)
    words = np.array([word_of(rank) for rank in different.tolist()], dtype=object)
    spelled: list[str] = words[where].tolist()
    return spelled


def word_of(rank: int) -> str:
    """A stop word, or syllables that count in base 95 and an ending."""
    if rank < len(STOPWORDS):
        return STOPWORDS[rank]
    number, ending = divmod(rank - len(STOPWORDS), len(ENDINGS))
    number += len(SYLLABLES)  # two syllables at least
    word = ""
    while number:
        number, digit = divmod(number, len(SYLLABLES))
        word = SYLLABLES[digit] + word
    return word + ENDINGS[ending]


def write(folder: Path, size: int, asked: int, kind: str, seed: int = 1) -> None:
    """corpus.jsonl or psgs_w100.tsv, and questions.jsonl."""
    folder.mkdir(parents=True, exist_ok=True)
    write_corpus = write_jsonl if kind == "jsonl" else write_dpr
    write_corpus(folder, size, seed)
    with (folder / "questions.jsonl").open("w") as file:
        for row in questions(asked, size, seed).to_pylist():
            shown = {"id": row["question_id"], "question": row["question"], "evidence": row["evidence"][0]}
            file.write(json.dumps(shown) + "\n")


def write_jsonl(folder: Path, size: int, seed: int) -> None:
    with (folder / "corpus.jsonl").open("w") as file:
        for table in batches(size, seed):
            file.writelines(json.dumps(_document(row)) + "\n" for row in table.to_pylist())


def write_dpr(folder: Path, size: int, seed: int) -> None:
    with (folder / "psgs_w100.tsv").open("w", newline="") as file:
        rows = csv.writer(file, delimiter="\t", lineterminator="\n")
        rows.writerow(["id", "text", "title"])
        for table in batches(size, seed):
            rows.writerows((row["passage_id"], row["text"], row["title"]) for row in table.to_pylist())


def _document(row: dict[str, Any]) -> dict[str, Any]:
    return {"id": row["passage_id"], "title": row["title"], "text": row["text"]}


def main() -> None:
    """Write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--format", choices=("jsonl", "dpr"), default="jsonl")
    given = parser.parse_args()
    write(given.folder, given.size, given.questions, given.format)


if __name__ == "__main__":
    main()
