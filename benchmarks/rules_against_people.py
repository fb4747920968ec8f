"""The rules for T against people's labels, beside what judges reach on the same answers.

    PYTHONPATH=. python benchmarks/rules_against_people.py        # a second; needs ../shared/data

openqa_eval_nq301: 1,489 answers of twelve systems to 301 questions of Natural Questions, labelled by people; agreement,
true and false positive rate and Cohen's kappa of each rule and of each judge. react_fever500: 500 claims that a real
system answered; the verdict rule must reproduce `correct` on every row when abstention is not considered.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from tests.annotate.against_people import (
    OPENQA,
    REACT,
    answers,
    differing_claims,
    judge_agreement,
    labelled,
    read,
    rule_agreement,
)

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "annotations"
RULES = ("match", "exact", "f1", "contains")
JUDGES = ("judge_gpt4", "judge_davinci003")


def main() -> int:
    """Prints a table; 1 where a claim differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with the two files")
    folder = parser.parse_args().data
    missing = [name for name in (OPENQA, REACT) if not (folder / name).is_file()]
    if missing:
        print(f"skipped: {folder} has no {', '.join(missing)}")
        return 0
    rows = answers(folder)
    found = {f"t@{name}": rule_agreement(rows, name) for name in RULES}
    found |= {name: judge_agreement(rows, name) for name in JUDGES}
    print(f"{'against people':18} {'n':>5} {'agreement':>9} {'tpr':>5} {'fpr':>5} {'kappa':>5}")
    for name, (n, same, tpr, fpr, kappa) in found.items():
        print(f"{name:18} {n:5} {same:9.3f} {tpr:5.3f} {fpr:5.3f} {kappa:5.3f}")
    kinds = Counter((label.rule, label.label, row["human_final"]) for row, label in labelled(rows))
    print("\nt@match by what fired: rule, label, people's label, rows")
    for (rule, label, people), count in sorted(kinds.items(), key=lambda pair: -pair[1]):
        print(f"{rule:10} {label} {people} {count:5}")
    differing = differing_claims(folder)
    print(f"\nreact_fever500: {len(differing)} of {len(read(folder / REACT))} rows differ {differing}")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
