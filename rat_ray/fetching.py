"""Label files that lie on S3, as local files for as long as they are read."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rat_ray.errors import InputError
from rat_ray.output import OutFiles, below, check_length, parent_of
from rat_ray.store import StorageSettings


@contextlib.contextmanager
def local_copy(data: str, storage: StorageSettings) -> Iterator[str]:
    """`data` itself where it is a path, else a copy of the object, or of the Parquet files below the prefix.

    Raises: InputError where there is nothing; errors about the copy name the address.
    """
    if "://" not in data:
        check_length(data)
        yield data
        return
    address = data.rstrip("/")
    if not address.startswith("s3://") or "/" not in address.removeprefix("s3://"):
        raise InputError("data: give a file, a folder, or s3://bucket/NAME of a file or of a prefix with Parquet files")
    name = address.rpartition("/")[2]
    with tempfile.TemporaryDirectory(prefix="rat-ray-") as folder:
        _fetch(OutFiles(parent_of(address), storage), name, Path(folder))
        try:
            yield below(folder, name)
        except InputError as error:
            raise InputError(str(error).replace(below(folder, name), address)) from error


def _fetch(place: OutFiles, name: str, folder: Path) -> None:
    place.look()
    inside = [file for file in place.files(name) if file.endswith(".parquet")]
    for file in inside or ([name] if name in place else []):
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(place.objects.get(file))
    if not any(folder.iterdir()):
        raise InputError(f"{place.at(name)}: there is no such file; data= names the file with the labels")
