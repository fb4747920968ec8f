"""The items to label as files for people: CSV for spreadsheets, JSON lines, Label Studio's tasks and configuration."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from rat_ray.annotate.people_cells import protect, shorten
from rat_ray.labelling.run import Texts
from rat_ray.labelling.select import Chosen

ASK: Final = {
    "r": "Do the passages below contain everything that is needed to answer the question?",
    "a": "Does the reply decline to answer?",
    "t": "Is the answer correct?",
}
COLUMNS: Final = (
    "item",
    "variable",
    "question_id",
    "ask",
    "question",
    "passages",
    "accepted_answers",
    "answer",
    "label",
    "annotator",
    "comment",
    "serves",
    "assigned_to",
)
SEPARATORS: Final = (",", ";")
_BOM = "\ufeff"  # without it Excel takes UTF-8 for an old code page

# One configuration for all variables: what is asked and what it is judged by stand in the task.
LABEL_STUDIO: Final = """\
<View>
  <Style>.htx-text { white-space: pre-wrap; }</Style>
  <Header value="$ask"/>
  <Text name="text" value="$text" valueType="text" selectionEnabled="false"/>
  <Choices name="label" toName="text" choice="single" showInline="true" required="true">
    <Choice value="yes" hotkey="1"/>
    <Choice value="no" hotkey="2"/>
    <Choice value="unsure" hotkey="3"/>
  </Choices>
  <TextArea name="comment" toName="text" rows="2" maxSubmissions="1" placeholder="comment"/>
</View>
"""


class Shown(NamedTuple):
    """An item as its annotators see it. Nothing of configurations, rules, judges or strata: these would sway them."""

    chosen: Chosen
    texts: Texts
    assigned_to: tuple[int, ...]

    def record(self) -> dict[str, Any]:
        """The columns, by name; lists stay lists."""
        variable = self.chosen.variable
        passages = [{"n": n, "title": title, "text": text} for n, (title, text) in enumerate(self.texts.passages, 1)]
        values = {
            "item": self.chosen.item,
            "variable": variable,
            "question_id": self.chosen.place.question_id,
            "ask": ASK[variable],
            "question": self.texts.question,
            "passages": passages if variable == "r" else None,
            "accepted_answers": self.texts.accepted if variable == "t" else None,
            "answer": self.texts.answer if variable != "r" else None,
            "serves": self.chosen.serves,
            "assigned_to": [f"annotator-{person}" for person in self.assigned_to],
        }
        cleaned: dict[str, Any] = _clean({name: values.get(name) for name in COLUMNS})
        return cleaned


def csv_text(shown: Sequence[Shown], separator: str = ",") -> str:
    """For a spreadsheet: cells that it would run or rewrite begin with an apostrophe, long ones are cut and marked."""
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=separator, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for one in shown:
        record = one.record()
        writer.writerow(shorten(protect(_cell(name, record[name])), "items.jsonl") for name in COLUMNS)
    return _BOM + stream.getvalue()


def jsonl_text(shown: Sequence[Shown]) -> str:
    """One object a line, texts whole and unchanged; `label` is null."""
    return "".join(json.dumps(one.record(), ensure_ascii=False) + "\n" for one in shown)


def label_studio_text(shown: Sequence[Shown]) -> str:
    """Tasks for a project with the configuration LABEL_STUDIO."""
    return json.dumps([{"data": _task(one.record())} for one in shown], ensure_ascii=False, indent=1) + "\n"


def _task(record: dict[str, Any]) -> dict[str, str]:
    headings = {
        "question": "QUESTION",
        "passages": "PASSAGES",
        "accepted_answers": "ACCEPTED ANSWERS",
        "answer": "ANSWER",
    }
    shown = {name: _cell(name, record[name]) for name in headings if record[name] is not None}
    text = "\n\n".join(f"{headings[name]}\n{value}" for name, value in shown.items())
    kept = {name: str(record[name]) for name in ("item", "variable", "question_id", "ask", "question")}
    return {**kept, "text": text}


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name == "passages":
        return "\n\n".join(_passage(one) for one in value) or "(no passages were given)"
    if name == "accepted_answers":
        return "\n".join(f"• {one}" for one in value) or "(no answer counts as right)"
    if name == "answer":
        return str(value) or "(the answer is empty)"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _passage(one: dict[str, Any]) -> str:
    return "\n".join([f"[{one['n']}] {one['title'] or ''}".rstrip(), one["text"]])


def _clean(value: Any) -> Any:
    """Without NUL characters, which neither spreadsheets nor Label Studio's database take."""
    if isinstance(value, str):
        return value.replace("\0", "␀")
    if isinstance(value, dict):
        return {name: _clean(inner) for name, inner in value.items()}
    return [_clean(inner) for inner in value] if isinstance(value, list) else value
