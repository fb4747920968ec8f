"""What each retriever found: recall, MRR and nDCG beside P(R=1), in the report and on the console."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rat_ray.report.content import ReportInput
from rat_ray.report.estimates import MISSING, Configuration, Estimate, count_cell, interval, number
from rat_ray.report.html import Column, Row, bullets, figure, paragraph, section, table
from rat_ray.report.names import name_of
from rat_ray.report.retrieval_figure import Curve, recall_figure
from rat_ray.report.table import encodable, mark
from rat_ray.retrieve.measures import NDCG_AT, RECALL_AT

if TYPE_CHECKING:
    from rich.console import Console

_KINDS = {"any": "recall_any", "full": "recall_full"}
_NDCG = f"nDCG@{NDCG_AT}"
_CELL = len(".67 [.62, .72]") + 1
_LESS = (2, 20)  # left out on the console where others are in use
_TITLE = "Evidence within the first k passages, any of it or one full set: posterior mean"


@dataclass(frozen=True)
class Found:
    """One retriever on one dataset.

    used: how many passages each configuration with it gives its generator. depth: how many it was asked for.
    questions: how many were measured. absent, unknown, failed: how many were not, and why.
    estimates: by measure and k; without a mean where the list was cut before k or no question was measured.
    """

    name: str
    dataset: str
    retriever: str
    used: dict[str, int | None]
    depth: int
    questions: int
    absent: int
    unknown: int
    failed: int
    estimates: dict[tuple[str, int | None], Estimate]

    def at(self, measure: str, k: int | None) -> Estimate | None:
        """The estimate of a measure, None where the table has none."""
        return self.estimates.get((measure, k))


def read_retrieval(retrieval: pa.Table) -> list[Found]:
    """One per dataset and retriever of a table with the schema `tables.RETRIEVAL`, in the table's order.

    Configurations with the same dataset, retriever and figures share a row. In a sweep, one name can stand for
    retrievers with different settings; these are told apart by their configurations.
    """
    rows: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in retrieval.to_pylist():
        rows.setdefault((row["config"], row["dataset"], row["retriever"]), []).append(row)
    merged: list[Found] = []
    for one in (_found(mine) for mine in rows.values()):
        alike = next((index for index, other in enumerate(merged) if _same(one, other)), None)
        if alike is None:
            merged.append(one)
        else:
            merged[alike] = _together(merged[alike], one)
    names = [one.name for one in merged]
    return [_renamed(one) if names.count(one.name) > 1 else one for one in merged]


def retrieval(report: ReportInput, configurations: Sequence[Configuration]) -> str:
    """The section: recall at each k, the curves, and MRR, nDCG and P(R=1) at the k in use."""
    if report.retrieval is None or not report.retrieval.num_rows:
        return ""
    found = read_retrieval(report.retrieval)
    measured = [one for one in found if one.questions]
    if not measured:
        words = "No question's evidence is known, so there is nothing to measure retrieval by: R comes from labels."
        return section("What retrieval found", paragraph(words), bullets(_left_out(found)))
    return section(
        "What retrieval found",
        paragraph(
            "Did the first k passages hold the evidence? “Any”: at least one passage of it. “Full”: one whole set of "
            "passages that suffices, which is what R asks for. Posterior mean [95 % interval] over the questions whose "
            "evidence is known; a dash beyond the end of the list, or of the lists that it is made from (a hybrid's)."
        ),
        _recall_table(measured),
        figure(
            recall_figure([Curve(one.name, one.dataset, one.estimates) for one in measured]),
            "How to read it: the higher a line, the more questions have their evidence within k passages; the bands "
            "are 95 % intervals. Where “full” lies far below “any”, parts of the evidence are missing.",
        ),
        _ranks_table(measured),
        paragraph(
            "Each configuration: the full recall at the number of passages that it is set to give its "
            "generator, and P(R=1) of the fit. They differ where a prompt's limit cut passages off, where people or a "
            "judge and not the known evidence say what R is, where the fit saw other questions, and where a question "
            "is known to have no evidence: then R = 0, and there is nothing to recall."
        ),
        _beside_table(measured, {one.config: one for one in configurations}),
        bullets(_left_out(found)) if _left_out(found) else "",
    )


def _used(found: Sequence[Found]) -> set[int]:
    """How many passages generators are given."""
    return {k for one in found for k in one.used.values() if k}


def _ks(found: Sequence[Found]) -> list[int]:
    """The ranks at which recall is shown: the usual ones and those in use."""
    return sorted({*RECALL_AT, *_used(found)})


def _recall_table(found: Sequence[Found]) -> str:
    columns = [
        Column("retriever", "name"),
        Column("evidence", "word"),
        *(Column(f"k = {k}", "interval", f"share of questions with evidence in the first {k}") for k in _ks(found)),
    ]
    rows = [
        Row(
            [one.name if kind == "any" else "", kind, *(interval(one.at(measure, k)) for k in _ks(found))],
            group=kind == "any",
        )
        for one in found
        for kind, measure in _KINDS.items()
    ]
    return table(columns, rows)


def _ranks_table(found: Sequence[Found]) -> str:
    columns = [
        Column("retriever", "name"),
        Column("questions", hint="whose evidence is known"),
        Column("depth", hint="how many passages the retriever was asked for"),
        Column("MRR", "interval", "mean of 1 / rank of the first passage of the evidence, 0 where it is not listed"),
        Column(_NDCG, "interval", "every passage of every set is relevant"),
    ]
    rows = [
        Row(
            [
                one.name,
                count_cell(one.questions),
                count_cell(one.depth),
                interval(one.at("mrr", None)),
                interval(one.at("ndcg", NDCG_AT)),
            ]
        )
        for one in found
    ]
    return table(columns, rows)


def _beside_table(found: Sequence[Found], configurations: dict[str, Configuration]) -> str:
    columns = [
        Column("configuration", "name"),
        Column("retriever", "word"),
        Column("k in use", hint="how many passages the generator is given"),
        Column("full at k", "interval", "share of questions with one full set of the evidence in the first k"),
        Column(name_of("rho").symbol, "interval", name_of("rho").description),
    ]
    rows = []
    for one in found:
        for config, k in one.used.items():
            rho = configurations[config].estimates.get("rho") if config in configurations else None
            full = interval(None if k is None else one.at("recall_full", k))
            rows.append(Row([config, one.retriever, count_cell(k), full, interval(rho) + mark(rho)]))
    return table(columns, rows)


def _left_out(found: Sequence[Found]) -> list[str]:
    """A sentence per retriever with questions that could not be measured."""
    lines = []
    for one in found:
        reasons = {
            "evidence unknown": one.unknown,
            "evidence known to be absent": one.absent,
            "retrieval failed": one.failed,
        }
        counted = [f"{count:,} ({reason})" for reason, count in reasons.items() if count]
        if counted:
            lines.append(f"{one.name}: not measured: {', '.join(counted)}")
    return lines


# --- console --------------------------------------------------------------------------------------------------------


def format_retrieval(found: Sequence[Found], width: int | None = None) -> list[str]:
    """The figures as lines of plain text, three per retriever; a k that no retriever was asked for is left out.

    width: columns of the terminal; where the intervals do not fit, the means stand alone. None: no limit.
    """
    used = _used(found)
    ks = [k for k in _ks(found) if any(k <= one.depth for one in found)]
    usual = sum(1 for k in ks if k in RECALL_AT)
    for k in _LESS:  # as many columns as usual
        if len(ks) > usual and k not in used and k in ks:
            ks.remove(k)
    whole = len("full  ") + _CELL * len(ks) - 1
    narrow = width is not None and width < whole
    cell = len(".67") + 2 if narrow else _CELL
    write = _mean if narrow else interval
    title = f"{_TITLE}{'' if narrow else ' [95 % interval]'}"
    heads = [f"{k}*" if k in used else str(k) for k in ks]
    lines = [title, ("k     " + "".join(f"{head:<{cell}}" for head in heads)).rstrip()]
    lines.append("-" * (len("full  ") + cell * len(ks) - 1))
    for one in found:
        mrr, ndcg = write(one.at("mrr", None)), write(one.at("ndcg", NDCG_AT))
        lines.append(f"{one.name}, {count_cell(one.questions)} questions: MRR {mrr}, {_NDCG} {ndcg}")
        for kind, measure in _KINDS.items():
            cells = "".join(f"{write(one.at(measure, k)):<{cell}}" for k in ks)
            lines.append(f"{kind:<6}{cells}".rstrip())
    notes = ["* as many as a generator is given"] if used & set(ks) else []
    if any(k > one.depth for k in ks for one in found):
        notes.append(f"{MISSING} beyond the end of the list, or of the lists that it is made from")
    return [*lines, *notes]


def print_retrieval(retrieval: pa.Table, console: Console | None = None) -> None:
    """Print a table with the schema `tables.RETRIEVAL`; nothing where no question's evidence is known."""
    from rich.console import Console
    from rich.text import Text

    out = Console() if console is None else console
    found = [one for one in read_retrieval(retrieval) if one.questions]
    if not found:
        return
    for position, line in enumerate(format_retrieval(found, out.width if out.is_terminal else None)):
        text = Text(encodable(line, out.encoding), style="bold" if position == 1 else "")
        out.print(text, soft_wrap=True)


def _mean(estimate: Estimate | None) -> str:
    return MISSING if estimate is None else number(estimate.mean)


# --- reading --------------------------------------------------------------------------------------------------------


def _found(rows: Sequence[dict[str, Any]]) -> Found:
    first = rows[0]
    return Found(
        name=f"{first['dataset']} {first['retriever']}",
        dataset=first["dataset"],
        retriever=first["retriever"],
        used={first["config"]: first["used"]},
        depth=first["depth"],
        questions=first["questions"],
        absent=first["absent"],
        unknown=first["unknown"],
        failed=first["failed"],
        estimates={(row["measure"], row["k"]): Estimate(row["mean"], row["q2.5"], row["q97.5"]) for row in rows},
    )


def _same(one: Found, other: Found) -> bool:
    """Whether two configurations searched alike: each has recall at its own k in use, beside those that both have."""
    shared = one.estimates.keys() & other.estimates.keys()
    return (
        all(getattr(one, name) == getattr(other, name) for name in ("name", "depth", "questions", "absent", "unknown"))
        and one.failed == other.failed
        and all(one.estimates[key] == other.estimates[key] for key in shared)
    )


def _together(one: Found, other: Found) -> Found:
    return replace(one, used={**one.used, **other.used}, estimates={**one.estimates, **other.estimates})


def _renamed(one: Found) -> Found:
    return replace(one, name=f"{one.name} ({', '.join(one.used)})")
