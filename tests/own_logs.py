"""A log as a RAG team would have it: questions of the demo, the texts that were given, what was answered."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from rat_ray.datasets import DemoSettings, load

REFUSALS = ("I don’t know.", "The documents do not mention this.", "Sorry, I cannot answer that from the context.")


def rows(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """question, contexts, response, reference, and what is true of each row: r, a, t (None where it abstained)."""
    source = load(DemoSettings(name="demo"))
    texts = {row["passage_id"]: row["text"] for batch in source.passages() for row in batch.to_pylist()}
    questions = [row for row in source.questions().to_pylist() if row["shape"] == "open" and row["evidence"]]
    chance = random.Random(seed)
    ids = list(texts)
    found = []
    for number in range(count):
        asked = questions[number % len(questions)]
        r, a, t = (chance.random() < share for share in (0.7, 0.3, 0.7))
        given = list(asked["evidence"][0]) if r else []
        given += [name for name in chance.sample(ids, 8) if name not in {*asked["evidence"][0], *given}]
        answer = chance.choice(REFUSALS) if a else asked["answers"][0] if t else "Liechtenstein"
        found.append(
            {
                "id": f"req-{number:03d}",
                "question": asked["question"],
                "retrieved_contexts": [texts[name] for name in given[:3]],
                "response": answer,
                "reference": asked["answers"][0],
                "truth": {"r": int(r), "a": int(a), "t": None if a else int(t)},
            }
        )
    return found


def write(path: Path, found: list[dict[str, Any]]) -> None:
    lines = ({name: value for name, value in row.items() if name != "truth"} for row in found)
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
