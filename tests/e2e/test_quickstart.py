"""The quickstart as a newcomer runs it: real retrieval, a real model, real fits, and nothing computed twice."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from rat_ray import tables
from rat_ray.annotate.full import STATES, full_table_values, state_counts
from rat_ray.model.labels import Columns, read_labels
from rat_ray.store import MANIFEST, Store, Table
from tests.commandline import everything_under, succeed
from tests.helpers import read_partitions

pytestmark = [pytest.mark.model, pytest.mark.ray]
QUESTIONS = 60
CONFIGURATIONS = 4


class Quickstart(NamedTuple):
    folder: Path
    printed: str

    @property
    def out(self) -> Path:
        return self.folder / "rat-out" / "quickstart"

    @property
    def store(self) -> Store:
        return Store(self.folder / "rat-store")

    def tables(self, kind: str) -> list[Table]:
        keys = [path.parent.name for path in sorted(Path(self.store.root).glob(f"{kind}/*/{MANIFEST}"))]
        found = [self.store.find(kind, key) for key in keys]
        return [table for table in found if table is not None]

    @property
    def run(self) -> dict[str, object]:
        content: dict[str, object] = json.loads((self.out / "run.json").read_text())
        return content


@pytest.fixture(scope="session")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Quickstart:
    folder = tmp_path_factory.mktemp("quickstart")
    return Quickstart(folder, succeed("evaluate", "experiment=quickstart", cwd=folder))


def test_it_ends_with_a_table_and_the_path(quickstart: Quickstart) -> None:
    lines = quickstart.printed.splitlines()
    for name in read_partitions(quickstart.out / "annotations"):
        [line] = [line for line in lines if line.startswith(f"{name} ")]
        assert line.count("[") == 5, "five quantities with intervals"
    assert any(line.startswith("demo hybrid, ") and " MRR " in line for line in lines)
    assert any(line.startswith("out: ") and line.endswith("rat-out/quickstart") for line in lines)


def test_progress_is_plain_lines_in_a_log(quickstart: Quickstart) -> None:
    assert "\x1b[" not in quickstart.printed
    [line] = [line for line in quickstart.printed.splitlines() if line.startswith("answer: 240/240 rows")]
    assert "rows/s" in line
    assert re.search(r"^answer: .* \d+m?\d*s left$", quickstart.printed, re.MULTILINE)


def test_all_six_states_occur(quickstart: Quickstart) -> None:
    trusted = {"r": ["evidence"], "a": ["phrase"], "t": ["match"]}
    totals = [0] * len(STATES)
    for table in read_partitions(quickstart.out / "annotations").values():
        counts = list(state_counts(table, trusted).values())
        assert sum(counts) == QUESTIONS
        totals = [a + b for a, b in zip(totals, counts, strict=True)]
    assert min(totals) > 0, dict(zip(STATES, totals, strict=True))


def test_the_two_prompts_differ_in_policy(quickstart: Quickstart) -> None:
    trusted = {"r": ["evidence"], "a": ["phrase"], "t": ["match"]}
    rates = {
        name: full_table_values(table, trusted)["p_a"]
        for name, table in read_partitions(quickstart.out / "annotations").items()
    }
    for retriever in ("bm25", "hybrid"):
        inviting, eager = rates[f"{retriever}-gemma3_270m_policy"], rates[f"{retriever}-gemma3_270m_eager"]
        assert inviting is not None
        assert eager is not None
        assert inviting > eager + 0.1


def test_summary_has_the_schema_and_every_configuration(quickstart: Quickstart) -> None:
    summary = pq.read_table(quickstart.out / "summary.parquet")
    tables.check_table(summary, tables.SUMMARY, "summary")
    assert len(pc.unique(summary.column("config"))) == CONFIGURATIONS
    headline = summary.filter(pc.equal(summary.column("quantity"), "p_g"))
    assert headline.num_rows == CONFIGURATIONS
    for row in headline.to_pylist():
        assert row["q2.5"] < row["mean"] < row["q97.5"]
        assert row["status"] in ("ok", "warn")


def test_every_table_of_the_store_has_its_schema(quickstart: Quickstart) -> None:
    schemas = {
        "passages": tables.PASSAGES,
        "questions": tables.QUESTIONS,
        "retrievals": tables.RETRIEVALS,
        "answers": tables.ANSWERS,
        "contexts": tables.CONTEXTS,
        "verdicts": tables.VERDICTS,
        "summary": tables.SUMMARY,
        "checks": tables.CHECKS,
        "cited": tables.PASSAGES,
        "relevance": tables.RELEVANCE,
        "allocation": tables.ALLOCATION,
    }
    for kind, schema in schemas.items():
        found = quickstart.tables(kind)
        assert found, kind
        for table in found:
            tables.check_table(table.read(), schema, kind)
    for table in quickstart.tables("annotations"):
        names = table.manifest["schema"]
        sources = [name for name in names if name[1:2] == "@"]
        rules = [name.removeprefix("rule:") for name in names if name.startswith("rule:")]
        assert rules == ["r@evidence", "a@phrase", "t@match"]
        tables.check_table(table.read(), tables.annotations_schema(sources, rules, ["t@match"]), "annotations")


def test_joins_on_ids_lose_no_row(quickstart: Quickstart) -> None:
    [questions] = quickstart.tables("questions")
    ids = questions.read().column("question_id").to_pylist()
    assert len(ids) == QUESTIONS
    for kind in ("retrievals", "relevance", "answers", "contexts", "verdicts", "annotations"):
        for table in quickstart.tables(kind):
            assert table.read().column("question_id").to_pylist() == ids, kind
    passages = set(quickstart.tables("passages")[0].read(["passage_id"]).column("passage_id").to_pylist())
    for table in quickstart.tables("answers"):
        for given in table.read().column("context_ids").to_pylist():
            assert set(given) <= passages


def test_generators_with_the_same_passages_have_the_same_context(quickstart: Quickstart) -> None:
    contexts = {
        name: table.column("context").to_pylist()
        for name, table in read_partitions(quickstart.out / "annotations").items()
    }
    assert contexts["bm25-gemma3_270m_policy"] == contexts["bm25-gemma3_270m_eager"]
    assert contexts["bm25-gemma3_270m_policy"] != contexts["hybrid-gemma3_270m_policy"]
    assert None not in contexts["bm25-gemma3_270m_policy"]


def test_its_systems_can_be_compared(quickstart: Quickstart) -> None:
    quick = ["engine.chains=2", "engine.warmup=300", "engine.samples=300"]
    run = f"run={quickstart.out}"
    printed = succeed("compare", run, "out=ranks", "judges=[t@local]", *quick, cwd=quickstart.folder)
    comparison = pq.read_table(quickstart.folder / "ranks" / "comparison.parquet")
    tables.check_table(comparison, tables.COMPARISON, "comparison")
    same = {
        frozenset({row["first"], row["second"]}): row["same_context"]
        for row in comparison.filter(pc.equal(comparison.column("quantity"), "p_g")).to_pylist()
    }
    assert len(same) == 6
    assert same[frozenset({"bm25-gemma3_270m_policy", "bm25-gemma3_270m_eager"})] == QUESTIONS
    ranks = pq.read_table(quickstart.folder / "ranks" / "ranks.parquet")
    tables.check_table(ranks, tables.RANKS, "ranks")
    assert sum(ranks.column("p_best").to_pylist()) == pytest.approx(1)
    assert "P(best)" in printed


def test_shared_work_is_done_once(quickstart: Quickstart) -> None:
    for step in ("tokens", "words", "index", "vectors"):
        assert len(quickstart.tables(step)) == 1, step
    assert len(quickstart.tables("retrievals")) == 3, "bm25, dense and their fusion"
    assert len(quickstart.tables("answers")) == CONFIGURATIONS
    # Two generators with the same passages in the prompt share the verdicts on R.
    contexts = {table.digest for table in quickstart.tables("contexts")}
    judged = [table for table in quickstart.tables("verdicts") if "contexts" in table.manifest["inputs"]]
    assert len(judged) == len(contexts) == 2


def test_retrieval_is_measured_beside_p_r(quickstart: Quickstart) -> None:
    """Without judges' doubts the share of full sets among the passages given is the rule's R."""
    found = pq.read_table(quickstart.out / "retrieval.parquet")
    tables.check_table(found, tables.RETRIEVAL, "retrieval")
    full = {
        row["config"]: row for row in found.to_pylist() if row["measure"] == "recall_full" and row["k"] == row["used"]
    }
    for name, table in read_partitions(quickstart.out / "annotations").items():
        labels = pc.drop_null(table.column("r@evidence")).to_pylist()
        absent = full[name]["absent"]
        assert full[name]["questions"] + absent == len(labels)
        # A prompt that is too long holds fewer passages, so that R can be 0 where the list had them.
        assert full[name]["observed"] * full[name]["questions"] >= sum(labels) - 1e-9
        assert sum(labels) > 0
    assert pq.read_table(quickstart.out / "problems.parquet").num_rows == 0


def test_labels_are_hidden_from_the_fit_as_the_budget_says(quickstart: Quickstart) -> None:
    for table in read_partitions(quickstart.out / "annotations").values():
        assert table.column("a").null_count == 0
        assert QUESTIONS - table.column("r").null_count == 24
        kept = table.filter(pc.is_valid(table.column("r")))
        answered = kept.filter(pc.equal(kept.column("a"), 0))
        assert answered.column("t").null_count == 0
        hidden = table.filter(pc.is_null(table.column("r")))
        assert hidden.column("t").null_count == hidden.num_rows
        assert table.column("r@evidence").null_count == 0


def test_the_judge_is_in_the_fit_and_the_trusted_rules_are_not(quickstart: Quickstart) -> None:
    names = pq.read_table(quickstart.out / "summary.parquet").column("quantity").to_pylist()
    assert "tpr[t@local]" in names
    assert "tpr[r@local]" in names
    assert not [name for name in names if "evidence" in name or "match" in name or "phrase" in name]


def test_the_judge_says_yes_and_no(quickstart: Quickstart) -> None:
    for source in ("r@local", "t@local"):
        verdicts = pa.concat_tables(read_partitions(quickstart.out / "annotations").values()).column(source)
        assert set(pc.unique(pc.drop_null(verdicts)).to_pylist()) == {0, 1}, source


def test_annotations_are_hive_partitioned(quickstart: Quickstart) -> None:
    read = pyarrow.dataset.dataset(quickstart.out / "annotations", partitioning="hive").to_table()
    assert read.num_rows == QUESTIONS * CONFIGURATIONS
    assert len(pc.unique(read.column("config"))) == CONFIGURATIONS


def test_its_annotations_fit_again_without_leaking_what_was_hidden(quickstart: Quickstart) -> None:
    labels = read_labels(quickstart.out / "annotations", Columns(), [], "refuse")
    assert sorted(labels.judges) == ["r@local", "t@local"]


def test_the_report_stands_alone_and_shows_states_and_full_table(quickstart: Quickstart) -> None:
    page = (quickstart.out / "report.html").read_text()
    assert page.count("<svg") == 4
    assert "src=" not in page
    assert "full table" in page.lower()
    for name in read_partitions(quickstart.out / "annotations"):
        assert name in page


def test_the_allocation_study_has_every_cell(quickstart: Quickstart) -> None:
    study = pq.read_table(quickstart.out / "allocation.parquet")
    tables.check_table(study, tables.ALLOCATION, "allocation")
    cells = study.filter(pc.equal(study.column("quantity"), "p_g"))
    assert cells.num_rows == 4 * 3 * 3 * 20


def test_the_same_command_again_computes_nothing(quickstart: Quickstart) -> None:
    before = everything_under(Path(quickstart.store.root))
    printed = succeed("evaluate", "experiment=quickstart", cwd=quickstart.folder)
    assert everything_under(Path(quickstart.store.root)) == before
    assert " 0 computed" in printed
    stages = json.loads((quickstart.out / "run.json").read_text())["stages"]
    assert stages
    assert sum(stage["new_rows"] for stage in stages) == 0


def test_the_report_can_be_written_again(quickstart: Quickstart) -> None:
    before = (quickstart.out / "report.html").read_text()
    (quickstart.out / "report.html").unlink()
    succeed("report", f"run={quickstart.out}", cwd=quickstart.folder)
    assert (quickstart.out / "report.html").read_text() == before


def test_allocate_runs_on_a_finished_run(quickstart: Quickstart) -> None:
    arguments = [
        f"run={quickstart.out}",
        "allocation.replicates=2",
        "allocation.budgets=[10]",
        "allocation.configurations=[hybrid-gemma3_270m_eager]",
        "out=study",
    ]
    printed = succeed("allocate", *arguments, cwd=quickstart.folder)
    assert "joint" in printed
    assert pq.read_table(quickstart.folder / "study" / "allocation.parquet").num_rows == 3 * 1 * 2 * 3


@pytest.mark.slow
def test_another_prompt_redoes_only_what_depends_on_it(quickstart: Quickstart, tmp_path: Path) -> None:
    before = set(everything_under(Path(quickstart.store.root)))
    arguments = ["dataset=demo", "dataset.limit=60", "retriever=bm25", "generator.max_tokens=12", "judge=none"]
    succeed("evaluate", *arguments, f"store={quickstart.store.root}", f"out={tmp_path / 'out'}", cwd=quickstart.folder)
    new = {Path(name).parts[0] for name in set(everything_under(Path(quickstart.store.root))) - before}
    assert "answers" in new
    assert not new & {"passages", "questions", "tokens", "index", "retrievals", "cited"}
