"""Prompts are Jinja2 files, one folder per set and one file per question shape, rendered in a sandbox.

A template sees `question`, `passages` (each with `number`, `title`, `text`), `abstention_phrase`, and for judges
`answers` and `answer`. What stays the same over questions (instructions, examples) should come first: engines reuse it.
`system.jinja`, where a set has one, sees the same and becomes the system message. `{{ answer | quoted }}` quotes a
text.

What is filled in stays data. Jinja2 never reads it as a template; and since most engines turn the written form of a
special token (`<|im_end|>`, `<start_of_turn>`, `[INST]`) into that token wherever it stands, `inert` breaks these forms
in every value, in `Prompts.prompt` and nowhere else. Templates themselves may use them; stored texts are not changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from rat_ray.errors import InputError, did_you_mean
from rat_ray.generate.engine import Prompt

FALLBACK_SHAPE = "open"
SYSTEM = "system"
_SUFFIX = ".jinja"
# By form, since a list of names would always lack some: `<|…` (also with DeepSeek's wide bar), `<[…`, a tag of one
# word without attributes (`</s>`, `<unused7>`, `<end_of_turn>`, `<turn|>`), capitals in brackets (`[/INST]`), `◁…`.
_SPECIAL = re.compile(r"<(?=[|｜\[])|<(?=/?\w[\w.:|-]{0,63}>)|\[(?=/?[a-z]?[A-Z][A-Z0-9_]{2,31}\])|◁(?=\S)")
# From the settings, as templates are, and to be shown as the label rule knows it: `[UNANSWERABLE]` must stay that.
_TRUSTED = frozenset({"abstention_phrase"})
# What a template's own code can raise, besides what Jinja2 makes of it (a division by zero, a range too large, …).
_TEMPLATE_ERRORS = (
    jinja2.TemplateError,
    ArithmeticError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    RecursionError,
    MemoryError,
)


class PromptPassage(NamedTuple):
    """A passage as a template sees it; number counts from 1 in the prompt's order."""

    number: int
    title: str
    text: str


def load_prompts(name: str, folder: Path) -> dict[str, str]:
    """The templates of one set, by shape: every `folder/name/*.jinja`, so that their text can enter the settings.

    A name with a slash is the path of a folder. Raises InputError when there is no such set, or nothing to use in it.
    """
    home = Path(name).expanduser() if "/" in name else folder / name
    if not home.is_dir():
        known = [path.name for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
        where = "" if "/" in name else f" in {folder}"
        raise InputError(f"no prompt set {name!r}{where}{did_you_mean(name, known)}")
    files = [path for path in sorted(home.glob(f"*{_SUFFIX}")) if path.is_file()]
    prompts = {path.name.removesuffix(_SUFFIX): _read(path) for path in files}
    if not set(prompts) - {SYSTEM}:
        besides = f" besides {SYSTEM}{_SUFFIX}" if prompts else ""
        least = f"{FALLBACK_SHAPE}{_SUFFIX}"
        raise InputError(f"{home} holds no *{_SUFFIX} file{besides}; write one per question shape, at least {least}")
    return prompts


class Prompts:
    """Compiled templates of one set; may be used by several threads at once.

    Raises InputError for a template that does not compile. of: the set's name, for messages.
    """

    def __init__(self, texts: Mapping[str, str], of: str = "") -> None:
        environment = ImmutableSandboxedEnvironment(
            undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True
        )
        environment.filters["quoted"] = quoted
        self._of = f"{of}/" if of else ""
        self._templates: dict[str, jinja2.Template] = {}
        for name, text in texts.items():
            try:
                self._templates[name] = environment.from_string(text)
            except jinja2.TemplateSyntaxError as error:
                raise InputError(f"prompt {self._of}{name}, line {error.lineno}: {error.message}") from error
        self._system = self._templates.pop(SYSTEM, None)

    @property
    def names(self) -> list[str]:
        """The templates' names, the system message's not among them."""
        return list(self._templates)

    def chosen(self, name: str, fallback: str = FALLBACK_SHAPE) -> str:
        """The name of the template that is used: this one, or the fallback. Raises InputError if there is neither."""
        for known in (name, fallback):
            if known in self._templates:
                return known
        known = did_you_mean(name, self._templates)
        raise InputError(f"no prompt {self._of}{name}{known} and no {self._of}{fallback}; write one of them")

    def prompt(self, name: str, fallback: str = FALLBACK_SHAPE, /, **values: Any) -> Prompt:
        """The prompt of this name, or the fallback's, with the system message of the set, if any.

        values: texts, numbers, `PromptPassage`s and lists of them; special tokens in them, the abstention phrase apart,
        are made `inert`.
        Raises InputError for a variable that there is not, and whatever else the template does wrong.
        """
        used = self.chosen(name, fallback)
        harmless = {key: value if key in _TRUSTED else _harmless(value) for key, value in values.items()}
        text = self._render(used, self._templates[used], harmless)
        system = "" if self._system is None else self._render(SYSTEM, self._system, harmless).strip()
        return Prompt(text, system)

    def _render(self, name: str, template: jinja2.Template, values: Mapping[str, Any]) -> str:
        try:
            return template.render(values)
        except _TEMPLATE_ERRORS as error:
            raise InputError(f"prompt {self._of}{name}: {str(error) or type(error).__name__}") from error


def inert(text: str) -> str:
    """The text with a blank in everything written like a special token of a language model, so that it is none.

    `<|im_end|>` becomes `< |im_end|>`, `</s>` `< /s>`, `[INST]` `[ INST]`; so does a plain tag such as `<b>`.
    """
    return _SPECIAL.sub(lambda found: f"{found.group()} ", text)


def one_line(text: str | None) -> str:
    """Line breaks and runs of blanks as single blanks: a line break would end a few-shot example."""
    return " ".join((text or "").split())


def quoted(text: str) -> str:
    """The text between double quotes, those within escaped, so that it cannot end its quotation; for templates."""
    return json.dumps(text, ensure_ascii=False)


def _harmless(value: Any) -> Any:
    if isinstance(value, str):
        return inert(value)
    if isinstance(value, PromptPassage):
        return PromptPassage(value.number, inert(value.title), inert(value.text))
    if isinstance(value, Mapping):
        return {key: _harmless(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_harmless(item) for item in value]
    return value


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error}") from error
