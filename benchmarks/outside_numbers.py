"""Evidence recall on 500 HotpotQA questions beside another implementation's, in several settings of ours.

    PYTHONPATH=. python benchmarks/outside_numbers.py        # half a minute; needs ../shared/data

The other's lists are given: its pool is the 4,937 passages that the 500 questions came with. What tells the rows apart
is the words that are indexed, the formula, and the passages that are searched. The bars: with stemming and titles at
least .87 (any@2) and .73 (full@10); plain words within .02 of .77 and .57.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.retrieve import outside
from tests.retrieve.outside import Case, Outside, figures

SHARED = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
COLUMNS = ("any@1", "any@2", "any@5", "any@10", "full@2", "full@5", "full@10", "mrr", "ndcg@10")


def cases(real: Outside, folder: Path) -> list[Case]:
    """All ways to search, from the other's own to the product's defaults."""
    given = [outside.theirs(real, name) for name in ("bm25", "dense", "rerank")]
    again = [outside.okapi_words(real, real.pool), outside.bm25s_words(real, real.pool)]
    settings = (
        {"stemmer": "", "stopwords": "", "title": False},
        {"stemmer": "", "stopwords": ""},
        {"title": False},
        {},
    )
    product = [
        outside.ours(real, real.pool, folder / f"pool-{number}", **one)  # type: ignore[arg-type]
        for number, one in enumerate(settings)
    ]
    return [*given, *again, *product, outside.ours(real, real.everything, folder / "all")]


def main() -> int:
    if not (SHARED / outside.OUTCOMES).is_file():
        print(f"shared data absent: {SHARED}")
        return 1
    real = outside.read_outside(SHARED.resolve())
    with tempfile.TemporaryDirectory() as folder:
        found = cases(real, Path(folder))
    shown = [figures(real, case) for case in found]
    width = max(len(case.name) for case in found)
    print(f"{real.questions.num_rows} questions; a share's 95 % interval is ± .044 at its widest\n")
    print(f"{'':<{width}}  passages  " + "  ".join(f"{name:>7}" for name in COLUMNS))
    for case, values in zip(found, shown, strict=True):
        cells = "  ".join(f"{values[name]:>7.3f}" for name in COLUMNS)
        print(f"{case.name:<{width}}  {case.passages:>8,}  {cells}")
    print(f"\nthe other's bm25 and Okapi on the same words: {_alike(found[0], found[3])}")
    return _bars(shown)


def _alike(one: Case, other: Case) -> str:
    pairs = list(zip(*(case.lists["passage_ids"].to_pylist() for case in (one, other)), strict=True))
    same, sets = (sum(kind(a) == kind(b) for a, b in pairs) for kind in (list, set))
    return f"the same ten passages for {sets} of {len(pairs)} questions, in the same order for {same}"


def _bars(values: list[dict[str, float]]) -> int:
    words, defaults = values[4], values[-2:]
    met = {
        "stemming and titles, any@2 at least .87": min(one["any@2"] for one in defaults) >= 0.87,
        "stemming and titles, full@10 at least .73": min(one["full@10"] for one in defaults) >= 0.73,
        "plain words, any@2 near .77": abs(words["any@2"] - 0.77) <= 0.02,
        "plain words, full@10 near .57": abs(words["full@10"] - 0.57) <= 0.02,
    }
    for bar, is_met in met.items():
        print(f"{'met' if is_met else 'NOT MET'}: {bar}")
    return 0 if all(met.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
