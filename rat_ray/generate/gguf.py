"""What a GGUF file says about itself, without loading the model."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Final

from rat_ray.errors import InputError

_TEMPLATE: Final = b"tokenizer.chat_template"
_STRING, _ARRAY = 8, 9
# Bytes of a value by its type's number: u8 i8 u16 i16 u32 i32 f32 bool, and u64 i64 f64.
_SIZES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def has_chat_template(path: Path) -> bool:
    """Whether the model brings a chat template. llama.cpp takes a common one, silently, where a model has none.

    Raises InputError for a file that is not GGUF, or is cut off.
    """
    with path.open("rb") as file:
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _has_key(data, _TEMPLATE)
        except (struct.error, ValueError, KeyError) as error:
            raise InputError(f"{path} is no GGUF file, or only a part of one ({error})") from None


def _has_key(data: mmap.mmap, wanted: bytes) -> bool:
    magic, _, _, entries = struct.unpack_from("<4sIQQ", data)
    if magic != b"GGUF":
        raise ValueError(f"it begins with {magic!r}")
    at = struct.calcsize("<4sIQQ")
    for _ in range(entries):
        start, at = at + 8, _after_string(data, at)
        if data[start:at] == wanted:
            return True
        (kind,) = struct.unpack_from("<I", data, at)
        at = _after_value(data, at + 4, kind)
    return False


def _after_value(data: mmap.mmap, at: int, kind: int) -> int:
    if kind == _STRING:
        return _after_string(data, at)
    if kind != _ARRAY:
        return at + _SIZES[kind]
    inner, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if inner in _SIZES:
        return int(at + count * _SIZES[inner])
    for _ in range(count):
        at = _after_value(data, at, inner)
    return at


def _after_string(data: mmap.mmap, at: int) -> int:
    (length,) = struct.unpack_from("<Q", data, at)
    return int(at + 8 + length)
