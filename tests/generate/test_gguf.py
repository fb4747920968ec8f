"""Whether a GGUF file brings a chat template, read from its head; a file that is none, or cut off, is refused."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from rat_ray.errors import InputError
from rat_ray.generate.gguf import has_chat_template


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _entry(name: str, kind: int, value: bytes) -> bytes:
    return _string(name) + struct.pack("<I", kind) + value


BEFORE = [
    _entry("general.architecture", 8, _string("gemma3")),
    _entry("a.flag", 7, b"\x01"),
    _entry("a.number", 10, struct.pack("<Q", 7)),
    _entry("tokenizer.ggml.scores", 9, struct.pack("<IQ3f", 6, 3, 1.0, 2.0, 3.0)),
    _entry("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 2) + _string("tokenizer.chat_template") + _string("b")),
]
TEMPLATE = _entry("tokenizer.chat_template", 8, _string("{{ messages }}"))


def _file(path: Path, entries: list[bytes]) -> Path:
    path.write_bytes(struct.pack("<4sIQQ", b"GGUF", 3, 0, len(entries)) + b"".join(entries))
    return path


def test_with_and_without_a_template(tmp_path: Path) -> None:
    assert has_chat_template(_file(tmp_path / "chat.gguf", [*BEFORE, TEMPLATE]))
    # A token that reads like the key is no key.
    assert not has_chat_template(_file(tmp_path / "base.gguf", BEFORE))


@pytest.mark.parametrize("content", [b"", b"GGUF", b"PK\x03\x04" + b"\0" * 40])
def test_what_is_no_gguf_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(InputError, match="no GGUF file"):
        has_chat_template(path)


def test_a_file_that_is_cut_off(tmp_path: Path) -> None:
    whole = _file(tmp_path / "whole.gguf", BEFORE).read_bytes()
    for length in range(24, len(whole), 7):
        (tmp_path / "cut.gguf").write_bytes(whole[:length])
        with pytest.raises(InputError, match="no GGUF file"):
            has_chat_template(tmp_path / "cut.gguf")
