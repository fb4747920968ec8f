"""Names: safe, and never two alike."""

from __future__ import annotations

from rat_ray.naming import safe_name, swept_suffix


def test_every_job_of_a_sweep_has_its_own_suffix() -> None:
    swept = ["dataset", "retriever", "retriever.depth"]
    first = swept_suffix(["dataset=fever", "retriever=bm25", "++retriever.depth=3", "++seed=1"], swept)
    assert first == "-dataset_fever-retriever.depth_3", "the retriever is in the configuration's name already"
    assert swept_suffix(["dataset=demo", "retriever=bm25", "++retriever.depth=3"], swept) != first
    assert swept_suffix(["dataset=fever", "retriever=bm25", "++retriever.depth=5"], swept) != first


def test_names_are_safe_and_differ() -> None:
    texts = ["a b", "a-b", "a/b", "17", "x" * 200, "x" * 201, "..", ""]
    names = [safe_name(text) for text in texts]
    assert len(set(names)) == len(texts)
    for name in names:
        assert not set(name) - set("abcdefghijklmnopqrstuvwxyz0123456789-_.")
        assert not name.isdigit()
