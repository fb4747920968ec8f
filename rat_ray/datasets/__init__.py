"""Datasets: settings in, a checked `Source` of passages and questions out.

A new source is one file and one entry in DATASETS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from rat_ray.datasets import files, packaged
from rat_ray.datasets.files import FilesSettings
from rat_ray.datasets.packaged import DemoSettings
from rat_ray.datasets.source import Source
from rat_ray.errors import InputError, did_you_mean

__all__ = ["DATASETS", "DatasetKind", "DemoSettings", "FilesSettings", "Source", "load"]

DatasetSettings = FilesSettings | DemoSettings


class DatasetKind(NamedTuple):
    """settings: the dataclass behind conf/dataset/*.yaml with this `kind`. load: reads and checks such a dataset."""

    settings: type[Any]
    load: Callable[[Any], Source]


DATASETS: Final[Mapping[str, DatasetKind]] = {
    "demo": DatasetKind(DemoSettings, packaged.load),
    "files": DatasetKind(FilesSettings, files.load),
}


def load(settings: DatasetSettings) -> Source:
    """The dataset that the settings describe, read and checked. Raises InputError for whatever is wrong with it."""
    kind = DATASETS.get(settings.kind)
    if kind is None:
        raise InputError(f"dataset.kind={settings.kind!r}: unknown{did_you_mean(settings.kind, DATASETS)}")
    return kind.load(settings)
