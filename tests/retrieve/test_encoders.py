"""Encoders without torch: wordllama, settings, what identifies weights, and a server over HTTP."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from rat_ray.errors import InputError, MissingExtraError, StageError
from rat_ray.keys import key_of
from rat_ray.retrieve import encoders
from rat_ray.retrieve.encoders import EncoderSettings, open_encoder, resolve, revision
from rat_ray.weights import identity_of
from tests.retrieve.corpora import made_up
from tests.retrieve.embedding_server import MODEL, EmbeddingServer, embedding_server

TEXTS = ["Oslo is the capital of Norway.", "", "A recipe for bread. " * 20, " \n", "東京", "A castle", "Bergen " * 7]
KEY = "sk-test-0123456789-secret"


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    pytest.importorskip("openai", reason="the extra `openai` is not installed")
    with embedding_server() as running:
        yield running


# --- wordllama -------------------------------------------------------------------------------------------------------


def test_wordllama_gives_rows_of_length_one_and_zeros_for_blank_texts() -> None:
    vectors = open_encoder(EncoderSettings()).encode_passages(TEXTS)
    assert vectors.shape == (len(TEXTS), 256)
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 0, 1, 0, 1, 1, 1], atol=1e-6)


def test_wordllama_is_what_the_library_gives() -> None:
    import wordllama

    texts = [text for text in TEXTS if text.strip()]
    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    expected = model.embed(texts, norm=True)
    np.testing.assert_allclose(open_encoder(EncoderSettings()).encode_passages(texts), expected, atol=1e-6)


def test_batches_change_no_bit_of_wordllama() -> None:
    texts = made_up(120)["text"].to_pylist()
    one = open_encoder(EncoderSettings(batch=1)).encode_passages(texts)
    for batch in (7, 500):
        np.testing.assert_array_equal(open_encoder(EncoderSettings(batch=batch)).encode_passages(texts), one)


def test_a_long_text_is_not_what_the_others_are_padded_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """wordllama cuts no text and holds 256 numbers per padded token: a book among short texts would take it all."""
    texts = [*made_up(200)["text"].to_pylist(), "river bridge castle " * 20_000, "winter " * 2_000, "meadow " * 2_000]
    encoder = open_encoder(EncoderSettings())
    expected = open_encoder(EncoderSettings(batch=1)).encode_passages(texts)
    sizes = []
    embed = encoder._model.embed  # type: ignore[attr-defined]

    def recorded(batch: list[str], **more: object) -> object:
        sizes.append((len(batch), len(batch) * max(map(len, batch))))
        return embed(batch, **more)

    monkeypatch.setattr(encoder._model, "embed", recorded)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(encoder.encode_passages(texts), expected)
    assert all(count == 1 or padded <= 1 << 18 for count, padded in sizes)
    assert max(count for count, _ in sizes) == 64, "short texts still come in full batches"


def test_prefixes_are_put_before_texts_but_not_before_blank_ones() -> None:
    plain = open_encoder(EncoderSettings())
    prefixed = open_encoder(EncoderSettings(query_prefix="query: ", passage_prefix="passage: "))
    np.testing.assert_array_equal(prefixed.encode_questions(["a castle"]), plain.encode_passages(["query: a castle"]))
    np.testing.assert_array_equal(prefixed.encode_passages(["a castle"]), plain.encode_passages(["passage: a castle"]))
    assert not prefixed.encode_questions([" "]).any()


@pytest.mark.parametrize("dim", [64, 128])
def test_shorter_vectors_are_the_first_numbers_scaled_anew(dim: int) -> None:
    whole = open_encoder(EncoderSettings(normalise=False)).encode_passages(TEXTS)
    short = open_encoder(EncoderSettings(dim=dim))
    assert short.dim == dim
    lengths = np.linalg.norm(whole[:, :dim], axis=1, keepdims=True)
    expected = np.divide(whole[:, :dim], lengths, out=np.zeros((len(TEXTS), dim), np.float32), where=lengths > 0)
    np.testing.assert_allclose(short.encode_passages(TEXTS), expected, atol=1e-6)


@pytest.mark.parametrize(("kind", "package"), [("sentence-transformers", "torch"), ("vllm", "vllm")])
def test_a_library_that_is_not_installed_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, kind.replace("-", "_"), None)  # as Python marks what cannot be imported
    settings = EncoderSettings(kind=kind, model=str(a_model(tmp_path / "model")))
    with pytest.raises(MissingExtraError, match=rf"{kind} is not installed; .*rat_ray\[{package}\]"):
        open_encoder(settings)


def test_no_texts() -> None:
    assert open_encoder(EncoderSettings(dim=64)).encode_questions([]).shape == (0, 64)


def test_opening_an_encoder_leaves_logging_alone() -> None:
    before = (list(logging.getLogger().handlers), logging.getLogger().level)
    open_encoder(EncoderSettings())
    assert (list(logging.getLogger().handlers), logging.getLogger().level) == before


# --- settings and keys -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        (EncoderSettings(kind="wordlama"), "did you mean 'wordllama'?"),
        (EncoderSettings(kind="sentence_transformers"), "did you mean 'sentence-transformers'?"),
        (EncoderSettings(pooling="men"), "did you mean 'mean'?"),
        (EncoderSettings(dtype="float64"), "encoder.dtype='float64'"),
        (EncoderSettings(batch=0), "encoder.batch=0"),
        (EncoderSettings(dim=100), "encoder.dim=100: wordllama has 64, 128 and 256"),
        (EncoderSettings(model="x"), "encoder.model='x': kind wordllama has no such choice"),
        (EncoderSettings(url="http://x/v1"), "encoder.url='http://x/v1': kind wordllama"),
        (EncoderSettings(kind="openai"), "encoder.url='': give the server's address"),
        (EncoderSettings(kind="openai", url="localhost:8000"), "give the server's address"),
        (EncoderSettings(kind="openai", url="http://x/v1", pooling="cls"), "encoder.pooling='cls'"),
        (EncoderSettings(kind="sentence-transformers"), "encoder.model: must be given"),
        (EncoderSettings(kind="vllm", model="/nowhere", device="cpu"), "encoder.device='cpu'"),
    ],
)
def test_bad_settings(settings: EncoderSettings, part: str) -> None:
    with pytest.raises(InputError) as caught:
        settings.validate()
    assert part in str(caught.value)


def test_a_key_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(InputError, match="key_variable") as caught:
        EncoderSettings(kind="openai", url=f"https://user:{KEY}@host/v1").validate()
    assert KEY not in str(caught.value)


def test_speed_and_place_are_no_part_of_the_key() -> None:
    settings = EncoderSettings()
    speed = {"batch": 1, "device": "cpu", "concurrency": 9, "timeout": 1.0, "retries": 0}
    place = {"model": "elsewhere", "commit": "x", "url": "http://x/v1", "key_variable": "X", "shorten": True}
    assert key_of(replace(settings, **speed, **place)) == key_of(settings)
    content = {"kind": "openai", "dim": 64, "query_prefix": "q", "passage_prefix": "p", "pooling": "cls"}
    more = {"normalise": False, "dtype": "bfloat16", "max_tokens": 9}
    for name, value in {**content, **more}.items():
        assert key_of(replace(settings, **{name: value})) != key_of(settings), name
    assert {*speed, *place, *content, *more, "identity"} == {each.name for each in fields(EncoderSettings)}


def test_the_key_holds_the_revision_resolved_or_not() -> None:
    settings = EncoderSettings()
    assert encoders.key(resolve(settings)) == encoders.key(settings)
    assert encoders.key(settings)["revision"] == revision(settings) != ""


def test_other_weights_than_planned_are_refused() -> None:
    with pytest.raises(StageError, match=r"weights on this machine are .*, the job was planned with 0\.0\.1"):
        open_encoder(EncoderSettings(identity="0.0.1"))


# --- folders ---------------------------------------------------------------------------------------------------------


def a_model(folder: Path) -> Path:
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean"}')
    (folder / "model.safetensors").write_bytes(b"\0\1\2")
    (folder / "README.md").write_text("notes")
    return folder


def test_a_folder_is_known_by_its_content_and_not_by_its_place(tmp_path: Path) -> None:
    one, two = a_model(tmp_path / "one"), a_model(tmp_path / "elsewhere" / "two")
    known = identity_of("encoder.model", str(one), "")
    assert known.startswith("sha256:")
    assert identity_of("encoder.model", str(two), "") == known
    (two / "README.md").write_text("other notes")
    (two / "onnx").mkdir()
    (two / "onnx" / "config.json").write_text("{}")
    assert identity_of("encoder.model", str(two), "") == known, "neither is read"
    (two / "1_Pooling" / "config.json").write_text('{"pooling_mode": "cls"}')
    assert identity_of("encoder.model", str(two), "") != known
    (one / "model.safetensors").write_bytes(b"\0\1\3")
    assert identity_of("encoder.model", str(one), "") != known


def test_a_folder_that_does_not_exist_is_named_with_its_neighbour(tmp_path: Path) -> None:
    a_model(tmp_path / "models" / "minilm")
    for wrong, hint in (("models/minlm", "did you mean 'minilm'?"), ("model/minilm", "did you mean 'models'?")):
        settings = EncoderSettings(kind="sentence-transformers", model=str(tmp_path / wrong))
        with pytest.raises(InputError) as caught:
            settings.validate()
        assert "there is no such folder" in str(caught.value)
        assert hint in str(caught.value)


def test_a_folder_without_a_model_names_the_one_below(tmp_path: Path) -> None:
    a_model(tmp_path / "models" / "minilm")
    with pytest.raises(InputError, match=r"holds no model; did you mean .*models/minilm'\?"):
        EncoderSettings(kind="vllm", model=str(tmp_path / "models")).validate()


# --- a server --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["float", "base64"])
def test_a_server_gives_what_its_encoder_gives(server: EmbeddingServer, form: str) -> None:
    server.format = form
    encoder = open_encoder(server.settings(batch=2, query_prefix="query: "))
    here = open_encoder(EncoderSettings(query_prefix="query: "))
    assert encoder.dim == 256
    np.testing.assert_allclose(encoder.encode_passages(TEXTS), here.encode_passages(TEXTS), atol=1e-6)
    np.testing.assert_allclose(encoder.encode_questions(TEXTS), here.encode_questions(TEXTS), atol=1e-6)
    assert encoder.encode_passages([]).shape == (0, 256)


def test_batches_are_of_like_length_and_bounded_in_number(server: EmbeddingServer) -> None:
    texts = list(dict.fromkeys(made_up(80)["text"].to_pylist()))[:60]
    encoder = open_encoder(server.settings(batch=5, concurrency=3))
    server.batches.clear()
    server.seconds = 0.05
    vectors = encoder.encode_passages(texts)
    np.testing.assert_allclose(vectors, open_encoder(EncoderSettings()).encode_passages(texts), atol=1e-6)
    assert sorted(len(batch) for batch in server.batches) == [5] * 12
    spans = sorted((min(map(len, batch)), max(map(len, batch))) for batch in server.batches)
    assert all(left[1] <= right[0] for left, right in pairwise(spans)), "sorted by length"
    assert 2 <= server.most <= 3


def test_copies_are_sent_once_and_have_one_vector(server: EmbeddingServer) -> None:
    encoder = open_encoder(server.settings(batch=2))
    server.batches.clear()
    vectors = encoder.encode_passages(["a castle", "", "a bridge", "a castle", "a castle", "a bridge"])
    assert sorted(text for batch in server.batches for text in batch) == ["a bridge", "a castle"]
    np.testing.assert_array_equal(vectors[[0, 2]][[0, 1, 0]], vectors[[3, 5, 4]])
    assert not vectors[1].any()
    assert np.abs(vectors[0] - vectors[2]).max() > 0.01


def test_what_passes_is_tried_again(server: EmbeddingServer) -> None:
    encoder = open_encoder(server.settings(retries=3))
    for failures in ([429], [500, 503], [408, 429, 502]):
        server.failures[:] = failures
        before = server.requests
        assert encoder.encode_passages(["a castle"]).any()
        assert server.requests - before == len(failures) + 1


def test_a_server_that_fails_to_the_end(server: EmbeddingServer) -> None:
    encoder = open_encoder(server.settings(retries=1, concurrency=1))
    server.failures[:] = [500] * 50
    with pytest.raises(StageError, match=rf"{server.url}: no answer after 2 tries \(.*500"):
        encoder.encode_passages(["a castle"])


def test_a_server_that_does_not_answer_in_time(server: EmbeddingServer) -> None:
    encoder = open_encoder(server.settings(timeout=0.2, retries=1))
    server.seconds = 1.0
    with pytest.raises(StageError, match=r"no answer after 2 tries .*timed out"):
        encoder.encode_passages(["a castle"])


def test_an_answer_with_too_few_rows(server: EmbeddingServer) -> None:
    encoder = open_encoder(server.settings())
    server.lose = 1
    with pytest.raises(StageError, match="3 texts were sent, 2 vectors came back"):
        encoder.encode_passages(["a", "b c", "castle"])


def test_another_number_of_dimensions(server: EmbeddingServer) -> None:
    with pytest.raises(InputError, match=r"encoder.dim=300: the model's vectors have 256 numbers"):
        open_encoder(server.settings(dim=300))
    with pytest.raises(InputError, match="shorten"):
        open_encoder(server.settings(dim=64))
    encoder = open_encoder(server.settings())
    server.dim = 128
    with pytest.raises(StageError, match=r"vectors of \[128\] numbers, expected 256"):
        encoder.encode_passages(["a castle"])


def test_a_server_s_vectors_can_be_shortened(server: EmbeddingServer) -> None:
    short = open_encoder(server.settings(dim=64, shorten=True)).encode_passages(TEXTS)
    np.testing.assert_allclose(short, open_encoder(EncoderSettings(dim=64)).encode_passages(TEXTS), atol=1e-6)


def test_a_request_that_is_refused_is_not_tried_again(server: EmbeddingServer) -> None:
    encoder = open_encoder(server.settings(retries=3))
    server.failures[:] = [400, 500]
    before = server.requests
    with pytest.raises(InputError, match=r"refuses the request .*400"):
        encoder.encode_passages(["a castle"])
    assert server.requests - before == 1


def test_the_key_comes_from_the_environment_and_leaks_nowhere(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MY_KEY", KEY)
    settings = server.settings(key_variable="MY_KEY", retries=0)
    server.key = KEY
    encoder = open_encoder(settings)
    assert encoder.encode_passages(["a castle"]).any()
    for status in (400, 401, 403, 404, 429, 500):  # the server repeats the key in every refusal
        server.failures[:] = [status]
        with pytest.raises((InputError, StageError)) as caught:
            encoder.encode_passages(["a castle"])
        assert KEY not in "".join(traceback.format_exception(caught.value))
    assert KEY not in repr(encoders.key(settings)) + repr(resolve(settings)) + repr(vars(encoder)["_settings"])
    assert KEY not in caplog.text


def test_keys_that_are_missing_or_wrong(server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.key = KEY
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(InputError, match="key_variable='MY_KEY': no such environment variable"):
        open_encoder(server.settings(key_variable="MY_KEY"))
    monkeypatch.setenv("MY_KEY", "sk-another-key-000")
    with pytest.raises(InputError, match=r"refuses the key in \$MY_KEY \(HTTP 401\)") as caught:
        open_encoder(server.settings(key_variable="MY_KEY"))
    assert "sk-another-key-000" not in "".join(traceback.format_exception(caught.value))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(InputError, match=r"refuses requests without a key"):
        open_encoder(server.settings())  # a key for one server is not sent to another because it lies about


def test_a_server_s_revision_is_the_model_that_it_reports(server: EmbeddingServer) -> None:
    assert revision(server.settings()) == revision(server.settings(model=MODEL)) == f"served:{MODEL}"
    with pytest.raises(InputError, match=f"did you mean '{MODEL}'"):
        revision(server.settings(model="wordlama-256"))
    planned = resolve(server.settings())
    server.models = [{"id": MODEL, "object": "model", "root": "/models/new"}]
    assert revision(server.settings()) == f"served:{MODEL} from /models/new"
    with pytest.raises(StageError, match="planned with"):
        open_encoder(planned)
    server.models = [{"id": "one"}, {"id": "two"}]
    with pytest.raises(InputError, match=r"must be given, .* serves one, two"):
        revision(server.settings())


def test_a_server_that_does_not_list_its_models(server: EmbeddingServer) -> None:
    server.listed = False
    assert revision(server.settings(model="any")) == "served:any"
    assert open_encoder(server.settings(model="any")).encode_passages(["a castle"]).any()
    with pytest.raises(InputError, match="does not list its models"):
        revision(server.settings())


def test_no_server_at_all(server: EmbeddingServer) -> None:
    with embedding_server() as gone:
        settings = gone.settings(retries=0)
    with pytest.raises(InputError, match="no server answers there"):
        revision(settings)


def test_texts_are_cut_where_the_settings_say(server: EmbeddingServer) -> None:
    open_encoder(server.settings(max_tokens=7)).encode_passages(["a castle"])
    assert server.bodies[-1]["truncate_prompt_tokens"] == 7
    open_encoder(server.settings()).encode_passages(["a castle"])
    assert "truncate_prompt_tokens" not in server.bodies[-1]
