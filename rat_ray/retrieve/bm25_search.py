"""Search in one shard of a BM25 index, and the lists of many questions from what all shards found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray import tables
from rat_ray.retrieve.bm25_index import DATA_FILE, INDICES_FILE, INDPTR_FILE, NUMBERS_FILE, Float32s
from rat_ray.retrieve.bm25_tokens import Int64s
from rat_ray.retrieve.hits import candidates, map_array, read_ids

STRIPES: Final = 64  # see `best`


class Asked(NamedTuple):
    """A block of questions. numbers: their known words in the corpus, in a row, in order; ends: where each's end.

    floors: per question, the score of a passage without any of its words.
    """

    numbers: npt.NDArray[np.int32]
    ends: list[int]
    floors: Float32s


class Found(NamedTuple):
    """Passages that may be among the best: to which question each belongs, its score and its id."""

    questions: Int64s
    scores: Float32s
    passage_ids: pa.Array


class Shard:
    """One folder of an index, memory-mapped, so that a node's workers share it. A search needs 4 bytes per passage."""

    def __init__(self, folder: Path) -> None:
        # Plain arrays over the mapped files: a slice of np.memmap costs more than the search in it.
        self._words, self._indptr, self._indices, self._data = (
            np.asarray(map_array(folder / name)) for name in (NUMBERS_FILE, INDPTR_FILE, INDICES_FILE, DATA_FILE)
        )
        self._ids = read_ids(folder)

    def search(self, asked: Asked, bounds: Float32s, depth: int) -> Found:
        """The `depth` best of this shard per question, with ties.

        bounds: per question, a score that `depth` passages are known to have; what is below is left out. It is raised
        by what this shard holds.
        """
        starts, ends = self._places(asked.numbers)
        scores: list[Float32s] = [np.empty(0, np.float32)]
        positions: list[Int64s] = [np.empty(0, np.int64)]
        sums = np.zeros(-(-len(self._ids) // STRIPES) * STRIPES, np.float32)
        begin = 0
        for question, (end, floor) in enumerate(zip(asked.ends, asked.floors, strict=True)):
            self._add_up(sums, starts[begin:end], ends[begin:end], floor)
            begin = end
            found = best(sums, floor, bounds[question], depth)
            positions.append(found)
            scores.append(sums[found])
            if len(found) >= depth:
                bounds[question] = max(bounds[question], np.partition(scores[-1], -depth)[-depth])
        questions = np.repeat(np.arange(len(asked.ends)), [len(found) for found in scores[1:]])
        return Found(questions, np.concatenate(scores), self._ids.take(pa.array(np.concatenate(positions))))

    def _places(self, numbers: npt.NDArray[np.int32]) -> tuple[list[int], list[int]]:
        """Where each word's entries begin and end; nowhere for a word that this shard does not have."""
        if not len(self._words):
            return [0] * len(numbers), [0] * len(numbers)
        places = np.minimum(np.searchsorted(self._words, numbers), len(self._words) - 1)
        has = self._words[places] == numbers
        return (self._indptr[places] * has).tolist(), (self._indptr[places + 1] * has).tolist()

    def _add_up(self, sums: Float32s, starts: Sequence[int], ends: Sequence[int], floor: np.float32) -> None:
        """Every passage's score, in float32 and in the order of the question's words, as bm25s adds them."""
        sums.fill(0)
        for start, end in zip(starts, ends, strict=True):
            if start < end:
                np.add.at(sums, self._indices[start:end].astype(np.intp), self._data[start:end])
        if floor:
            sums += floor


def best(scores: Float32s, floor: np.float32, bound: np.float32, depth: int) -> Int64s:
    """`hits.candidates` without those below `bound`, in a fraction of the time: len(scores) is a multiple of STRIPES.

    The best of each of many small groups are compared first: the depth-th best of these is at most the depth-th best
    of all, so that few remain to be looked at.
    """
    if bound > floor:
        found = np.flatnonzero(scores >= bound)
        if len(found) <= depth:
            return found
    groups = scores.reshape(STRIPES, -1).max(axis=0)
    if len(groups) > depth:
        bound = max(bound, np.partition(groups, -depth)[-depth])
    found = np.flatnonzero(scores >= bound if bound > floor else scores > floor)
    return found[candidates(scores[found], float(floor), depth)]


def lists_of(question_ids: pa.ChunkedArray, found: Sequence[Found], depth: int) -> pa.Table:
    """tables.RETRIEVALS: `hits.rank` for all questions at once, over all shards."""
    questions = np.concatenate([np.empty(0, np.int64), *(one.questions for one in found)])
    scores = np.concatenate([np.empty(0, np.float32), *(one.scores for one in found)])
    ids = pa.chunked_array([one.passage_ids for one in found], pa.string())
    order = np.lexsort((-scores, questions))
    order = order[_first(questions[order], scores[order], depth)]
    questions, scores, ids = questions[order], scores[order], ids.take(pa.array(order))
    order = np.lexsort((_tie_ranks(questions, scores, ids), -scores, questions))
    order = order[_places(questions[order]) < depth]
    names = pa.concat_arrays([*ids.take(pa.array(order)).chunks, pa.array([], pa.string())])
    ends = np.searchsorted(questions[order], np.arange(len(question_ids)), side="right")
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    columns = {
        "question_id": question_ids,
        "passage_ids": pa.ListArray.from_arrays(offsets, names),
        "scores": pa.ListArray.from_arrays(offsets, pa.array(scores[order].astype(np.float64))),
        "error": pa.nulls(len(question_ids), pa.string()),
    }
    return pa.table(columns, schema=tables.RETRIEVALS)


def _places(questions: Int64s) -> Int64s:
    """How many rows of the same question come before each; questions are in order."""
    places: Int64s = np.arange(len(questions)) - np.searchsorted(questions, questions)
    return places


def _first(questions: Int64s, scores: Float32s, depth: int) -> npt.NDArray[np.bool_]:
    """Which of sorted rows are among the `depth` first of their question or tie with the last of them."""
    places = _places(questions)
    kept = places < depth
    beyond = np.flatnonzero(~kept)
    last = beyond - places[beyond] + depth - 1
    kept[beyond] = scores[beyond] == scores[last]
    return kept


def _tie_ranks(questions: Int64s, scores: Float32s, ids: pa.ChunkedArray) -> Int64s:
    """A number per row that orders those of one question and one score by their ids; 0 where there is but one."""
    ranks = np.zeros(len(scores), np.int64)
    same = (np.diff(scores) == 0) & (np.diff(questions) == 0)
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same)) if len(same) else same
    if len(tied):
        by_id = pc.sort_indices(ids.take(pa.array(tied))).to_numpy()
        ranks[tied[by_id]] = np.arange(len(tied))
    return ranks
