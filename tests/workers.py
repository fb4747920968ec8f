"""Workers that tests of the mechanism run for real, in this process or on Ray."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from rat_ray import tables


@dataclass(frozen=True)
class EchoSettings:
    """value: written to every row. wait: seconds per call. fail_at: the question id at which to raise."""

    value: str = "x"
    fail_at: str = ""
    lose: bool = False
    reverse: bool = False
    log: str = dataclasses.field(default="", metadata={"key": False})
    wait: float = dataclasses.field(default=0.0, metadata={"key": False})


class Echo:
    """Questions in, verdicts out; can be told to fail, to lose a row or to change the order."""

    def __init__(self, settings: EchoSettings, inputs: Mapping[str, Any]) -> None:
        self.settings = settings

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        ids = rows["questions"].column("question_id").to_pylist()
        if self.settings.log:
            with Path(self.settings.log).open("a") as stream:
                stream.write(f"{ids[0] if ids else '-'} {os.getpid()}\n")
        time.sleep(self.settings.wait)
        if self.settings.fail_at in ids:
            raise ValueError(f"cannot handle {self.settings.fail_at}")
        if self.settings.lose:
            ids = ids[1:]
        if self.settings.reverse:
            ids = ids[::-1]
        made = [{"question_id": name, "raw": self.settings.value, "status": "ok"} for name in ids]
        return pa.Table.from_pylist(made, schema=tables.VERDICTS)


class WriteIds:
    """A file stage: one text file of passage ids per range."""

    def __init__(self, settings: EchoSettings, inputs: Mapping[str, Any]) -> None:
        self.settings = settings

    def __call__(self, rows: Mapping[str, pa.Table], folder: Path) -> int:
        ids = rows["passages"].column("passage_id").to_pylist()[int(self.settings.lose) :]
        (folder / "ids.txt").write_text("\n".join(ids))
        return len(ids)
