"""How many rows one core labels by the default rules: r@evidence, a@phrase and t@match.

    PYTHONPATH=. python benchmarks/labelling.py

Made-up questions in the three shapes of the paper, each with its own accepted answers (names, numbers, dates; one or
more), answers as generators give them: most of a few words, some a sentence, one in twenty of 250 words; one in six
abstains. The worker of the annotation stage gets them in ranges of 10,000 rows, and does all that the stage does
between reading and writing. Seconds are of the processor, of all threads together. Bar: 20,000 rows/s; exit code 1
below. Beside it, what the rules alone take, and Arrow's conversion to rows and back alone.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from rat_ray import tables
from rat_ray.annotate.abstention import Refusals, abstention
from rat_ray.annotate.evidence import evidence
from rat_ray.annotate.label_settings import LabelSettings
from rat_ray.annotate.labels import AnnotateWorker
from rat_ray.annotate.match import match
from rat_ray.annotate.rules import Item

BAR = 20_000
RANGE = 10_000
PASSAGES = 5_000
PHRASE = "Not in the passages."
TRUSTED = {"r": ["evidence"], "a": ["phrase"], "t": ["match"]}
REFUSALS = (PHRASE, "I don't know.", "The passages do not say.", "I’m sorry, there is not enough information. [2]")
PARTS = ("ma", "ri", "ko", "lan", "ber", "to", "sen", "va", "li", "dor", "ne", "ga", "ster", "wick", "ton")
WORDS = str.split(
    "the of in and was a to is by as for that with at from his her city river first known born after where"
)
MONTHS = str.split("January February March April May June July August September October November December")
SENTENCES = (
    "It is {}.",
    "The answer is {}.",
    "{} [1]",
    "According to passage 2, it was {}, who lived there for years.",
)
CLAIMS = ("SUPPORTS", "REFUTES", "SUPPORTS", "REFUTES", "True.", "The claim is false.", "NOT ENOUGH INFO")


class Memory:
    """A table as the stage hands it to a worker."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """The whole table."""
        return self._table if columns is None else self._table.select(columns)


def name(rng: random.Random) -> str:
    """One to three made-up names; one in twenty with an accent."""
    return " ".join(
        "".join(rng.choices(PARTS, k=rng.randint(2, 4))).capitalize() for _ in range(rng.choice([1, 2, 2, 3]))
    ) + ("é" if rng.random() < 0.05 else "")


def accepted(rng: random.Random) -> list[str]:
    """Accepted answers of one question: a fifth dates, a tenth numbers, the rest names."""
    kind = rng.random()
    if kind < 0.2:
        return [
            f"{rng.choice(MONTHS)} {rng.randint(1, 28)}, {rng.randint(1400, 2020)}"
            if kind < 0.1
            else f"{rng.randint(1400, 2020)}"
        ]
    if kind < 0.3:
        return [
            rng.choice([f"{rng.randint(2, 9_999_999):,}", f"{rng.randint(2, 90)} percent", f"{rng.randint(2, 90)} km"])
        ]
    return [name(rng) for _ in range(rng.choice([1, 1, 1, 2, 2, 4]))]


def answer(rng: random.Random, golds: list[str], claim: bool) -> str:
    """What a generator said: right, wrong or nothing; short, a sentence, or long."""
    if rng.random() < 1 / 6:
        return rng.choice(REFUSALS)
    said = rng.choice(CLAIMS) if claim else rng.choice(golds) if rng.random() < 0.5 else accepted(rng)[0]
    length = rng.random()
    if length < 0.7:
        return said
    if length < 0.95:
        return said + " because passage 2 says so." if claim else rng.choice(SENTENCES).format(said)
    filler = " ".join(rng.choices([*WORDS, name(rng), name(rng), "1987"], k=250))
    return f"{filler}. {said}" if rng.random() < 0.5 else f"{said}. {filler}"


def made(rows: int, seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of questions and of answers."""
    rng = random.Random(seed)
    questions, answers = [], []
    for i in range(rows):
        shape = ("claim", "two_hop", "open")[i % 3]
        golds = [rng.choice(CLAIMS[:2])] if shape == "claim" else accepted(rng)
        context = [f"p{n}" for n in rng.sample(range(PASSAGES), 5)]
        sets = [rng.sample(context, 1 + (shape == "two_hop"))] if rng.random() < 0.5 else [["p1"], ["p2", "p3"]]
        question = {"question_id": f"q{i}", "question": f"what is {name(rng)} known for", "shape": shape}
        questions.append(question | {"answers": golds, "evidence": sets})
        said = answer(rng, golds, shape == "claim")
        answers.append(
            {"question_id": f"q{i}", "context_ids": context, "answer": said, "raw": said, "output_tokens": 9}
        )
    return questions, answers


def seconds(work: Callable[[], object]) -> float:
    """Of the processor, all threads together. What this program holds already is kept from Python's collector, as a
    stage holds none of it.
    """
    gc.collect()
    gc.freeze()
    start = time.process_time()
    work()
    return time.process_time() - start


def worker() -> AnnotateWorker:
    """That of the annotation stage, with the default rules."""
    settings = LabelSettings(
        trusted=TRUSTED, config="c", dataset="d", retriever="r", generator="g", abstention_phrase=PHRASE
    ).resolved()
    rows = [{"passage_id": f"p{i}", "title": f"Page {i}", "text": "It says so. " * 40} for i in range(PASSAGES)]
    return AnnotateWorker(settings, {"passages": Memory(pa.Table.from_pylist(rows, schema=tables.PASSAGES))})


def ranges(questions: pa.Table, answers: pa.Table) -> Iterator[dict[str, pa.Table]]:
    """The rows as the stage cuts them."""
    for start in range(0, questions.num_rows, RANGE):
        yield {"questions": questions.slice(start, RANGE), "answers": answers.slice(start, RANGE)}


def by_rules(questions: list[dict[str, Any]], answers: list[dict[str, Any]]) -> int:
    """By the rules alone; how many labels are 1."""
    refusals = Refusals.of(LabelSettings().resolved().refusal_text)
    ones = 0
    for question, said in zip(questions, answers, strict=True):
        item = Item(
            question["question"], question["shape"], question["answers"], question["evidence"], said["answer"],
            said["context_ids"], None,
        )  # fmt: skip
        refusal = abstention(item.answer, PHRASE, refusals)
        for label in (evidence(item), refusal, match(item, refusal.label)):
            ones += label.label == 1
    return ones


def main() -> int:
    """Prints rows/s; 1 below the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    asked, said = made(args.rows, args.seed)
    questions = pa.Table.from_pylist(asked, schema=tables.QUESTIONS)
    answers = pa.Table.from_pylist(said, schema=tables.ANSWERS)
    print(f"{args.rows} rows, {sum(len(row['answer']) for row in said) / args.rows:.0f} characters per answer")
    labelling = worker()
    labelled: list[pa.Table] = []
    whole = seconds(lambda: labelled.extend(labelling(part) for part in ranges(questions, answers)))
    schema = labelled[0].schema
    rows = pa.concat_tables(labelled).to_pylist()
    print({variable: sum(row[variable] == 1 for row in rows) for variable in "rat"}, "labels are 1")
    convert = seconds(
        lambda: [(t["questions"].to_pylist(), t["answers"].to_pylist()) for t in ranges(questions, answers)]
    ) + seconds(lambda: pa.Table.from_pylist(rows, schema=schema))
    for what, took in (
        ("the stage's worker", whole),
        ("rules alone", seconds(lambda: by_rules(asked, said))),
        ("rules again, accepted answers known", seconds(lambda: by_rules(asked, said))),
        ("Arrow to rows and back alone", convert),
    ):
        print(f"{what:36} {args.rows / took:9,.0f} rows/s {took / args.rows * 1e6:6.1f} us/row")
    rate = args.rows / whole
    print(f"bar {BAR:,} rows/s: {'kept' if rate >= BAR else 'missed'} ({rate / BAR:.2f})")
    return int(rate < BAR)


if __name__ == "__main__":
    sys.exit(main())
