"""One JSON array of objects, read item by item, or the same objects one a line; plain, gzipped or bzip2ed."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from rat_ray.datasets.reading import Broken, Place, Reader, RowError, open_bytes, shown, stop
from rat_ray.errors import InputError

_BOM: Final = b"\xef\xbb\xbf"
_AHEAD: Final = 4096
# An object with the member "data" among its first ones, before anything nested.
_DATA: Final = re.compile(rb'\{[^\[\]{}]*"data"\s*:\s*\[')


class Item(Place):
    """Where an item of an array stands: its file, and its number from 1 as `line`."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{shown(self.path)}: item {self.line}"


class ArrayReader:
    """The objects of a JSON array, all of a file or its member "data", or of a JSONL file, which its beginning tells.

    An array is parsed as it is read and never held whole. What is wrong within an item is a row that `on_error=skip`
    may leave out; after broken JSON nothing further can be found in an array, so that stops in any case. (Of what is no
    text, a lone low surrogate is broken JSON, and a lone high one is read as "?": so the parser has it.)
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._prefix = array_in(path)

    def records(self, broken: Broken = stop) -> Iterator[tuple[Place, dict[str, object]]]:
        """Each object with its place; `broken` is called for an item that is no object.

        Raises InputError for a file that is empty, cut short, damaged or not UTF-8.
        """
        if self._prefix is None:
            yield from Reader(self.path).records(broken)
            return
        number = 0
        for number, value in enumerate(self._items(), start=1):
            place = Item(self.path, number)
            try:
                yield place, _object(value, place)
            except RowError as error:
                broken(error)
        if not number:
            raise InputError(f"{self.path}: the array is empty; it needs at least one item")

    def _items(self) -> Iterator[object]:
        import ijson

        number = 0
        try:
            with open_bytes(self.path) as file:
                for value in ijson.items(_Unmarked(file), self._prefix, use_float=True):
                    number += 1
                    yield value
        except (ijson.JSONError, UnicodeDecodeError) as error:
            said = " ".join(str(error).split())[:160]
            raise InputError(
                f"{Item(self.path, number + 1)}: broken JSON, or the file was cut short ({said}); nothing after it can "
                "be read, whatever dataset.on_error says: fetch the file again"
            ) from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(
                f"{Item(self.path, number + 1)}: the compressed data break off or are damaged ({error}); fetch it again"
            ) from error
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror or error})") from error


def array_in(path: Path) -> str | None:
    """Where the array of a file is, as ijson names it: "item", "data.item", or None for a file of another kind.

    A file that cannot be read is of another kind: whoever reads it says what is wrong.
    """
    try:
        with open_bytes(path) as file:
            first = file.read(_AHEAD).removeprefix(_BOM).lstrip()
    except (EOFError, zlib.error, OSError):
        return None
    if first[:1] == b"[":
        return "item"
    return "data.item" if _DATA.match(first) else None


class _Unmarked:
    """A file without the byte order mark that some editors put first."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._begun = False

    def read(self, size: int = -1) -> bytes:
        if self._begun or size == 0:
            return self._file.read(size)
        self._begun = True
        return self._file.read(max(size, _AHEAD)).removeprefix(_BOM)


def _object(value: object, place: Place) -> dict[str, object]:
    if not isinstance(value, dict):
        raise RowError(place, f"expected a JSON object with fields, found {value!r:.80}")
    return value
