"""How well a retriever found the evidence: ranks per question, and recall, MRR and nDCG over all of them.

Only questions whose evidence is known and exists are measured. A question whose evidence is known to be absent has
R = 0 by definition, but no passage that a retriever could have found, so no measure of retrieval is defined for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from rat_ray.errors import MissingExtraError, StageError
from rat_ray.seeds import seed_for
from rat_ray.tables import RELEVANCE, RETRIEVAL

_ABOUT: Final = ("config", "dataset", "retriever", "used")
SUMMARY: Final = pa.schema([field for field in RETRIEVAL if field.name not in _ABOUT])

MEASURED, ABSENT, UNKNOWN, FAILED = "measured", "absent", "unknown", "failed"
RECALL_AT: Final = (1, 2, 5, 10, 20, 100)
NDCG_AT: Final = 10
_DRAWS = 4000
_QUANTILES = (0.025, 0.975)


class Ranks(NamedTuple):
    """Where the evidence stands in a list, counted from 1; None where it is not in it."""

    any: int | None
    full: int | None


class MeasureWorker:
    """A worker: {"questions", "retrievals"}, row by row the same questions, in; RELEVANCE out.

    Raises: MissingExtraError without ir-measures. StageError where the two tables hold different questions.
    """

    def __init__(self, settings: Any, inputs: Mapping[str, Any]) -> None:
        self._library = _ir_measures()

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        questions, retrievals = rows["questions"], rows["retrievals"]
        question_ids = questions.column("question_id").to_pylist()
        if question_ids != retrievals.column("question_id").to_pylist():
            raise StageError("relevance: questions and retrievals do not hold the same questions in the same order")
        evidence = [_sets(one) for one in questions.column("evidence").to_pylist()]
        lists = _lists(retrievals)
        statuses = [_status(sets, ranked) for sets, ranked in zip(evidence, lists, strict=True)]
        measured = {
            row: (sets, ranked)
            for row, (status, sets, ranked) in enumerate(zip(statuses, evidence, lists, strict=True))
            if status == MEASURED and sets is not None and ranked is not None
        }
        graded = self._graded(measured)
        ranks = {row: ranks_of(*pair) for row, pair in measured.items()}
        found = [
            {
                "question_id": question_id,
                "status": status,
                "rank_any": ranks[row].any if row in ranks else None,
                "rank_full": ranks[row].full if row in ranks else None,
                "passages": None if ranked is None else len(ranked),
                **graded.get(row, {}),
            }
            for row, (question_id, status, ranked) in enumerate(zip(question_ids, statuses, lists, strict=True))
        ]
        return pa.Table.from_pylist(found, schema=RELEVANCE)

    def _graded(self, measured: Mapping[int, tuple[list[list[str]], list[str]]]) -> dict[int, dict[str, float]]:
        """Reciprocal rank and nDCG by row, from ir-measures."""
        library = self._library
        # Scores made of the ranks: the list's own may tie, and ir-measures would then order by passage id. Names made
        # of numbers: trec_eval, which it asks, takes an id to end at a NUL.
        relevant, run = {}, {}
        for row, (sets, ranked) in measured.items():
            places = _places(ranked)
            names = {one: str(number) for number, one in enumerate({**places, **{o: 0 for each in sets for o in each}})}
            relevant[str(row)] = {names[one]: 1 for each in sets for one in each}
            run[str(row)] = {names[one]: -rank for one, rank in places.items()}
        columns = {library.RR: "rr", library.nDCG @ NDCG_AT: f"ndcg@{NDCG_AT}"}
        found: dict[int, dict[str, float]] = {row: {} for row in measured}
        for one in library.iter_calc(list(columns), relevant, run):
            found[int(one.query_id)][columns[one.measure]] = float(one.value)
        return found


def ranks_of(sets: Sequence[Sequence[str]], ranked: Sequence[str]) -> Ranks:
    """Ranks of the first passage of any set, and of the passage with which a first set is whole.

    sets: alternative evidence sets, none empty. ranked: passage ids, best first.
    """
    place = _places(ranked)
    first = min((place[one] for each in sets for one in each if one in place), default=None)
    whole = [max(place[one] for one in each) for each in sets if all(one in place for one in each)]
    return Ranks(first, min(whole, default=None))


def summarise(relevance: pa.Table, depth: int, ks: Sequence[int] = RECALL_AT, seed: int = 0) -> pa.Table:
    """Means over the measured questions with 95 % intervals, one row per measure and k, with the schema SUMMARY.

    Every measure lies between 0 and 1 and has a uniform prior that counts as two questions, one at 0 and one at 1: the
    mean is (sum + 1) / (n + 2). For a share that is the Beta(1, 1) posterior, as for P(R=1). For MRR and nDCG it is a
    Bayesian bootstrap over questions (Rubin 1981) with these two added, which for a share comes to the same posterior;
    unlike a plain bootstrap it does not claim certainty where all questions have one value. `observed` is the plain
    mean.

    Args:
        relevance: with the schema RELEVANCE, all questions of a dataset.
        depth: how many passages the retriever was asked for. A measure at a greater k has no value: the list was cut.
            A list that is shorter since nothing else matched is whole.
        ks: the cut-offs of recall.
        seed: of the bootstrap; the same relevance gives the same table whatever the order of its rows.
    """
    status = relevance.column("status").to_pylist()
    counts = {name: status.count(name) for name in (MEASURED, ABSENT, UNKNOWN, FAILED)}
    measured = relevance.filter(pa.array([one == MEASURED for one in status], pa.bool_()))
    about = {
        "depth": depth,
        "questions": counts[MEASURED],
        **{name: counts[name] for name in (ABSENT, UNKNOWN, FAILED)},
    }
    rows = []
    for measure, column in (("recall_any", "rank_any"), ("recall_full", "rank_full")):
        ranks = measured.column(column).drop_null().to_numpy()
        for k in sorted(set(ks)):
            estimate = _share(int((ranks <= k).sum()), counts[MEASURED])
            rows.append(_row(measure, k, estimate, about))
    rows.append(_row("mrr", None, _average(measured.column("rr"), seed_for(seed, "mrr")), about))
    ndcg = _average(measured.column(f"ndcg@{NDCG_AT}"), seed_for(seed, "ndcg"))
    rows.append(_row("ndcg", NDCG_AT, ndcg, about))
    return pa.Table.from_pylist(rows, schema=SUMMARY)


def retrieval_rows(config: str, dataset: str, retriever: str, used: int | None, summary: pa.Table) -> pa.Table:
    """The table of `summarise` with the configuration that it belongs to, and the schema RETRIEVAL.

    used: how many passages the configuration gives its generator, the k of its P(R=1).
    """
    about = {"config": config, "dataset": dataset, "retriever": retriever, "used": used}
    return pa.Table.from_pylist([{**about, **row} for row in summary.to_pylist()], schema=RETRIEVAL)


def recall_in_words(recall: pa.Table) -> str:
    """A table with the schema `tables.RECALL` as a sentence."""
    rows = recall.to_pylist()
    shares = [f"{row['recall']:.3f} of the exact first {row['k']}" for row in rows if row["recall"] is not None]
    asked = f"over {rows[0]['questions']} questions"
    learned = rows[0]["trained_on"]
    trained = "" if learned is None else f"; trained on {learned:,} of {rows[0]['vectors']:,} vectors"
    return f"the index finds {', '.join(shares) or 'an unknown share of the exact list'} ({asked}{trained})"


class _Interval(NamedTuple):
    mean: float
    low: float
    high: float
    observed: float


def _share(hits: int, questions: int) -> _Interval | None:
    if not questions:
        return None
    from scipy.stats import beta

    low, high = beta.ppf(_QUANTILES, hits + 1, questions - hits + 1)
    return _Interval((hits + 1) / (questions + 2), float(low), float(high), hits / questions)


def _average(column: pa.ChunkedArray, seed: int) -> _Interval | None:
    values = np.asarray(column.to_numpy(), dtype=np.float64)
    if not len(values):
        return None
    # Few values differ, and the weight of equal ones together is Gamma(how many): no draws per question are needed.
    # Rounded, so that what differs in the last bit is one value.
    distinct, times = np.unique(np.round([*values, 0.0, 1.0], 12), return_counts=True)
    draw = np.random.default_rng(seed)
    weights, sums = np.zeros(_DRAWS), np.zeros(_DRAWS)
    for value, count in zip(distinct, times, strict=True):
        weight = draw.gamma(count, size=_DRAWS)
        weights += weight
        sums += weight * value
    low, high = np.quantile(sums / weights, _QUANTILES)
    mean = (float(np.sort(values).sum()) + 1) / (len(values) + 2)
    return _Interval(mean, float(low), float(high), float(np.sort(values).mean()))


def _row(measure: str, k: int | None, estimate: _Interval | None, about: Mapping[str, int]) -> dict[str, Any]:
    deep_enough = k is None or k <= about["depth"]
    row: dict[str, Any] = {**about, "measure": measure, "k": k, "deep_enough": int(deep_enough)}
    if estimate is None or not deep_enough:
        return row
    return {**row, "mean": estimate.mean, "q2.5": estimate.low, "q97.5": estimate.high, "observed": estimate.observed}


def _sets(evidence: list[list[str] | None] | None) -> list[list[str]] | None:
    """The alternative sets without empty ones, which nothing can hold (see `annotate.evidence`)."""
    return None if evidence is None else [each for each in evidence if each]


def _lists(retrievals: pa.Table) -> list[list[str] | None]:
    lists = retrievals.column("passage_ids").to_pylist()
    errors = retrievals.column("error").to_pylist()
    return [None if error else ranked for ranked, error in zip(lists, errors, strict=True)]


def _status(sets: list[list[str]] | None, ranked: list[str] | None) -> str:
    if ranked is None:
        return FAILED
    if sets is None:
        return UNKNOWN
    return MEASURED if sets else ABSENT


def _places(ranked: Sequence[str]) -> dict[str, int]:
    """The rank of each passage, from 1; the better one of a passage that is listed twice."""
    places: dict[str, int] = {}
    for rank, one in enumerate(ranked, start=1):
        places.setdefault(one, rank)
    return places


def _ir_measures() -> ModuleType:
    try:
        import ir_measures
    except ImportError as error:
        raise MissingExtraError("ir-measures", "local") from error
    return ir_measures
