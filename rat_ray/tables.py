"""Every Arrow schema of the project, and the one check that a table matches its schema.

Labels are nullable int8 (0, 1 or missing): never float, never NaN. Ids are strings.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rat_ray.errors import StageError

LABEL = pa.int8()
ID = pa.string()
IDS = pa.list_(pa.string())


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


PASSAGES = pa.schema([_required("passage_id", ID), pa.field("title", pa.string()), _required("text", pa.string())])

# evidence: alternative sets of passage ids. null: unknown (R is missing); empty list: known to be absent (R = 0).
QUESTIONS = pa.schema(
    [
        _required("question_id", ID),
        _required("question", pa.string()),
        pa.field("answers", pa.list_(pa.string())),
        pa.field("evidence", pa.list_(IDS)),
        pa.field("shape", pa.string()),  # "claim", "two_hop", "open" or null: which prompt fits
    ]
)

# What was left out or is not known of a dataset, one row each. kind: skipped (a broken row, on_error=skip) | unmapped
# (evidence that the corpus does not show); place: file and line; id: of the question or passage, where there is one.
PROBLEMS = pa.schema(
    [
        _required("dataset", pa.string()),
        _required("kind", pa.string()),
        _required("place", pa.string()),
        pa.field("id", pa.string()),
        _required("detail", pa.string()),
    ]
)

RETRIEVALS = pa.schema(
    [
        _required("question_id", ID),
        pa.field("passage_ids", IDS),
        pa.field("scores", pa.list_(pa.float64())),
        pa.field("error", pa.string()),
    ]
)

# Where the evidence of each question stands in a retriever's list.
RELEVANCE = pa.schema(
    [
        _required("question_id", ID),
        _required("status", pa.string()),  # measured | absent | unknown | failed
        pa.field("rank_any", pa.int32()),  # of the first passage of any evidence set, from 1; null: not in the list
        pa.field("rank_full", pa.int32()),  # the smallest k whose first k passages hold one whole set; null: none
        pa.field("passages", pa.int32()),  # length of the list; null where the retrieval failed
        pa.field("rr", pa.float64()),  # reciprocal rank, 0 where nothing was found; null unless measured
        pa.field("ndcg@10", pa.float64()),  # every passage of every set is relevant, all alike; null unless measured
    ]
)

# One row per configuration, measure and k; see `retrieve.measures.summarise`.
RETRIEVAL = pa.schema(
    [
        _required("config", pa.string()),
        _required("dataset", pa.string()),
        _required("retriever", pa.string()),
        pa.field("used", pa.int32()),  # how many passages the configuration gives its generator
        _required("depth", pa.int32()),  # how many passages the retriever was asked for
        _required("measure", pa.string()),  # recall_any | recall_full | mrr | ndcg
        pa.field("k", pa.int32()),  # null for mrr, which takes the whole list
        pa.field("mean", pa.float64()),
        pa.field("q2.5", pa.float64()),
        pa.field("q97.5", pa.float64()),
        pa.field("observed", pa.float64()),  # the plain share or average
        _required("questions", pa.int64()),
        _required("absent", pa.int64()),
        _required("unknown", pa.int64()),
        _required("failed", pa.int64()),
        _required("deep_enough", LABEL),
    ]
)

# What share of the exact first k passages an approximate index finds, over a sample of the questions (null: it lists
# fewer than k). vectors: in the index; trained_on: how many of them its centres and codebooks were learned from.
RECALL = pa.schema(
    [
        _required("k", pa.int32()),
        pa.field("recall", pa.float64()),
        _required("questions", pa.int64()),
        _required("vectors", pa.int64()),
        pa.field("trained_on", pa.int64()),
    ]
)

# context_ids: the passages that went into the prompt after truncation, in the prompt's order. answer: the cleaned text;
# raw: as the model wrote it; reasoning: what it thought before, which the answer does not have.
ANSWERS = pa.schema(
    [
        _required("question_id", ID),
        pa.field("context_ids", IDS),
        pa.field("answer", pa.string()),
        pa.field("raw", pa.string()),
        pa.field("reasoning", pa.string()),
        pa.field("finish_reason", pa.string()),
        pa.field("prompt_tokens", pa.int32()),
        pa.field("output_tokens", pa.int32()),
        pa.field("error", pa.string()),
    ]
)

# What a judge of R sees: the answers' context_ids alone, so that generators with equal contexts share its verdicts.
CONTEXTS = pa.schema([_required("question_id", ID), pa.field("context_ids", IDS), pa.field("error", pa.string())])

# One judge's verdicts on one variable. verdict: 1, 0 or missing; raw: the text it was read from (null: not asked);
# status: ok | unparsed | not_asked | error.
VERDICTS = pa.schema(
    [
        _required("question_id", ID),
        pa.field("verdict", LABEL),
        pa.field("raw", pa.string()),
        _required("status", pa.string()),
        pa.field("finish_reason", pa.string()),
        pa.field("prompt_tokens", pa.int32()),
        pa.field("output_tokens", pa.int32()),
        pa.field("error", pa.string()),
    ]
)

# People's labels, one row per judgement. item: what was judged (`annotate.items`); label: missing where the annotator
# was unsure. question_id: where it was seen, for people to read.
PEOPLE = pa.schema(
    [
        _required("variable", pa.string()),
        _required("item", pa.string()),
        pa.field("label", LABEL),
        _required("annotator", pa.string()),
        pa.field("question_id", ID),
        pa.field("time", pa.string()),
        pa.field("comment", pa.string()),
    ]
)

# In `out`: people's labels with what became of them, and to how many rows they were applied.
PEOPLE_USED = PEOPLE.append(_required("status", pa.string())).append(_required("rows", pa.int64()))

# In `out`: answers with their questions and the accepted answers; the passages that were given, by dataset.
ANSWERS_OUT = pa.schema(
    [
        _required("question_id", ID),
        _required("question", pa.string()),
        pa.field("accepted", pa.list_(pa.string())),
        *(field for field in ANSWERS if field.name != "question_id"),
    ]
)
PASSAGES_OUT = pa.schema([_required("dataset", pa.string()), *PASSAGES])

# The columns that every annotations table has; source columns (`r@NAME`, `a@NAME`, `t@NAME`) follow.
ANNOTATIONS = pa.schema(
    [
        _required("config", pa.string()),
        pa.field("dataset", pa.string()),
        pa.field("retriever", pa.string()),
        pa.field("generator", pa.string()),
        _required("question_id", ID),
        pa.field("context", pa.string()),  # a digest of the passages that were given: equal where they were the same
        pa.field("r_item", pa.string()),  # what R was judged on, and A and T: see annotate.items
        pa.field("t_item", pa.string()),
        pa.field("r", LABEL),
        pa.field("a", LABEL),
        pa.field("t", LABEL),
        pa.field("r_source", pa.string()),
        pa.field("a_source", pa.string()),
        pa.field("t_source", pa.string()),
        pa.field("stratum", pa.string()),
        pa.field("error", pa.string()),
    ]
)


# In the metadata of an annotations table: the trusted source columns, comma-separated. The values of r_source and so on
# do not tell all of them, since a budget may have hidden every label of one.
TRUSTED = b"rat_ray.trusted"


def annotations_schema(sources: list[str], rules: Sequence[str] = (), scored: Sequence[str] = ()) -> pa.Schema:
    """The annotations schema with one int8 column per source, such as `r@evidence` or `t@local`.

    rules: sources that also have `rule:SOURCE`, which part of the rule gave the label; scored: and `score:SOURCE`.
    """
    schema = ANNOTATIONS
    for source in sources:
        schema = schema.append(pa.field(source, LABEL))
    for source in rules:
        schema = schema.append(pa.field(f"rule:{source}", pa.string()))
    for source in scored:
        schema = schema.append(pa.field(f"score:{source}", pa.float64()))
    return schema


def patterns_schema(judges: list[str]) -> pa.Schema:
    """A count table: r, a, t and each judge's column in {0, 1, missing}, and n, the number of items.

    stratum: null without strata. use: "fit" for items that inform the fit, "calibration" for those that inform the
    judges' rates only, "failed" for rows whose generation failed (counted, left out). stands_for: how many items of the
    population they stand for; n, unless they were drawn with unequal probabilities.
    """
    labels = [pa.field(name, LABEL) for name in ["r", "a", "t", *judges]]
    rest = [_required("use", pa.string()), _required("n", pa.int64()), _required("stands_for", pa.float64())]
    return pa.schema([*labels, pa.field("stratum", pa.string()), *rest])


def posterior_schema(quantities: list[str]) -> pa.Schema:
    """One row per draw: config, chain (from 0), draw (from 0), the sampler's columns, one double per quantity.

    Replicated counts (`n_rep[i]`) are whole numbers.
    """
    sampler = [
        pa.field("lp__", pa.float64()),
        pa.field("divergent__", pa.int8()),
        pa.field("treedepth__", pa.int16()),
        pa.field("energy__", pa.float64()),
        pa.field("log_prior", pa.float64()),
        pa.field("log_likelihood", pa.float64()),
    ]
    head = [_required("config", pa.string()), _required("chain", pa.int16()), _required("draw", pa.int32())]
    kinds = (pa.int64() if name.startswith("n_rep[") else pa.float64() for name in quantities)
    return pa.schema([*head, *sampler, *(pa.field(name, kind) for name, kind in zip(quantities, kinds, strict=True))])


# identified: "identified", "bounded" (then low and high hold the bounds) or "prior only".
# mcse, r_hat and ess are null for a constant quantity. status: ok | warn | fail, with its reason. prior_*: what the
# prior alone says. *_sensitivity: to power-scaling the prior or the likelihood. ppi_*: a prediction-powered estimate.
# sampler: importance | nuts, what made the draws in the end; pareto_k: of importance weights, null without any.
SUMMARY = pa.schema(
    [
        _required("config", pa.string()),
        _required("quantity", pa.string()),
        *(
            pa.field(name, pa.float64())
            for name in ["mean", "sd", "mcse", "q2.5", "q5", "q50", "q95", "q97.5", "r_hat", "ess_bulk", "ess_tail"]
        ),
        pa.field("identified", pa.string()),
        pa.field("low", pa.float64()),
        pa.field("high", pa.float64()),
        *(pa.field(name, pa.float64()) for name in ["prior_mean", "prior_sd", "prior_q2.5", "prior_q97.5"]),
        pa.field("prior_sensitivity", pa.float64()),
        pa.field("likelihood_sensitivity", pa.float64()),
        pa.field("sensitivity", pa.string()),
        pa.field("ppi_mean", pa.float64()),
        pa.field("ppi_low", pa.float64()),
        pa.field("ppi_high", pa.float64()),
        pa.field("ppi_disagrees", LABEL),
        pa.field("items", pa.int64()),
        pa.field("divergences", pa.int64()),
        pa.field("at_max_treedepth", pa.int64()),
        pa.field("e_bfmi", pa.float64()),
        _required("status", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("seconds", pa.float64()),
        pa.field("sampler", pa.string()),
        pa.field("pareto_k", pa.float64()),
    ]
)

# Two configurations on the same questions; mean, sd and quantiles are of first minus second. p_greater: P(first >
# second). correlation: of the two posteriors' normal scores. items: questions that both have; finite[...] is over all
# that either has. identified: 1 where the labels identify the quantity in both.
COMPARISON = pa.schema(
    [
        _required("first", pa.string()),
        _required("second", pa.string()),
        _required("quantity", pa.string()),
        *(
            pa.field(name, pa.float64())
            for name in ["mean_first", "mean_second", "mean", "sd", "mcse", "q2.5", "q5", "q50", "q95", "q97.5"]
        ),
        *(pa.field(name, pa.float64()) for name in ["p_greater", "correlation", "r_hat", "ess_bulk", "ess_tail"]),
        _required("identified", LABEL),
        pa.field("items", pa.int64()),
        pa.field("same_context", pa.int64()),
        _required("status", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("seconds", pa.float64()),
    ]
)

# Many configurations: the posterior of each one's rank in a quantity, 1 for the greatest.
RANKS = pa.schema(
    [
        _required("config", pa.string()),
        _required("quantity", pa.string()),
        *(pa.field(name, pa.float64()) for name in ["mean", "sd", "rank_mean", "rank_q5", "rank_q95", "p_best"]),
        _required("configurations", pa.int32()),
    ]
)

# Posterior predictive checks. pattern: a cell such as "r=1 a=0 t=1", or "all": then observed and mean are of the
# part's overall discrepancy. tail: probability of a replicated count as far out as the observed one.
CHECKS = pa.schema(
    [
        _required("config", pa.string()),
        _required("part", pa.string()),
        pa.field("stratum", pa.string()),
        _required("pattern", pa.string()),
        *(_required(name, pa.float64()) for name in ["observed", "mean", "q2.5", "q97.5", "tail"]),
    ]
)

# base and items count items; budget and cost are the cost beyond the base, cost_r and cost_t of one label. resampling:
# none (subsets of the table), bootstrap (its items drawn anew first) or simulated (new items from a truth). target:
# full_table (the plain share of complete labels), full_table_fit (the posterior mean given all labels there are) or
# truth. width: of the interval that goes with the target, finite_q2.5 to finite_q97.5 (among exactly these items) where
# the target is the share of exactly these, else q2.5 to q97.5; covered and finite_covered: whether each holds the
# target. nuts_*: of the fits that were made once more by NUTS, to check.
ALLOCATION = pa.schema(
    [
        _required("config", pa.string()),
        _required("strategy", pa.string()),
        _required("budget", pa.float64()),
        _required("replicate", pa.int32()),
        _required("quantity", pa.string()),
        pa.field("base", pa.int32()),
        pa.field("items", pa.int32()),
        pa.field("resampling", pa.string()),
        pa.field("target", pa.string()),
        pa.field("target_value", pa.float64()),
        pa.field("cost_r", pa.float64()),
        pa.field("cost_t", pa.float64()),
        pa.field("labels_r", pa.int32()),
        pa.field("labels_t", pa.int32()),
        *(
            pa.field(name, pa.float64())
            for name in ["cost", "mean", "sd", "q2.5", "q97.5", "finite_q2.5", "finite_q97.5", "width", "error"]
        ),
        pa.field("covered", LABEL),
        pa.field("finite_covered", LABEL),
        pa.field("sampler", pa.string()),
        *(
            pa.field(name, pa.float64())
            for name in ["pareto_k", "ess", "nuts_mean", "nuts_sd", "nuts_q2.5", "nuts_q97.5"]
        ),
        _required("status", pa.string()),
    ]
)


# A judge's labels beside trusted ones. judge: a source column, or several joined by "+"; judge_labels, trusted_labels:
# items that have them. quantity: p_g, p_t, rho, or of one judge tpr and fpr. target: full_table (the plain share of
# complete labels) or full_table_fit (the posterior mean given all trusted labels there are). width and covered: of the
# interval among exactly these items where the quantity has one, else of q2.5 to q97.5.
JUDGE_STUDY = pa.schema(
    [
        _required("config", pa.string()),
        _required("judge", pa.string()),
        _required("judge_model", pa.string()),
        _required("judge_labels", pa.int32()),
        _required("trusted_labels", pa.int32()),
        _required("replicate", pa.int32()),
        _required("quantity", pa.string()),
        pa.field("items", pa.int32()),
        pa.field("resampling", pa.string()),
        pa.field("target", pa.string()),
        pa.field("target_value", pa.float64()),
        *(
            pa.field(name, pa.float64())
            for name in ["mean", "sd", "q2.5", "q97.5", "finite_q2.5", "finite_q97.5", "width", "error"]
        ),
        pa.field("covered", LABEL),
        pa.field("sampler", pa.string()),
        pa.field("pareto_k", pa.float64()),
        pa.field("ess", pa.float64()),
        _required("status", pa.string()),
    ]
)


def check_table(table: pa.Table, schema: pa.Schema, what: str) -> None:
    """Raise StageError unless the table has exactly the schema's names and types, and no null where none may be."""
    if table.schema.names != schema.names:
        missing = [name for name in schema.names if name not in table.schema.names]
        extra = [name for name in table.schema.names if name not in schema.names]
        raise StageError(
            f"{what}: columns differ from the schema: missing {missing}, not in the schema {extra}, "
            f"order {table.schema.names}"
        )
    for field in schema:
        column = table.column(field.name)
        if column.type != field.type:
            raise StageError(f"{what}: column {field.name!r} is {column.type}, the schema says {field.type}")
        if not field.nullable and column.null_count:
            raise StageError(f"{what}: column {field.name!r} has {column.null_count} nulls and may have none")
        if pa.types.is_floating(column.type) and _has_nan(column):
            raise StageError(f"{what}: column {field.name!r} holds NaN; missing must be null")


def _has_nan(column: pa.ChunkedArray) -> bool:
    import pyarrow.compute as pc

    return bool(pc.any(pc.is_nan(column), min_count=0).as_py())
