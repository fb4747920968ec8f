"""Prompts are Jinja2 files, one folder per set and one file per question shape, rendered in a sandbox.

A template sees `question`, `passages` (each with `number`, `title`, `text`), `abstention_phrase`, and for judges
`answers` and `answer`. What stays the same over questions (instructions, examples) should come first: engines reuse it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.sandbox import SandboxedEnvironment

from rat_ray.errors import InputError, did_you_mean

FALLBACK_SHAPE = "open"
_SUFFIX = ".jinja"


class PromptPassage(NamedTuple):
    """A passage as a template sees it; number counts from 1 in the prompt's order."""

    number: int
    title: str
    text: str


def load_prompts(name: str, folder: Path) -> dict[str, str]:
    """The templates of one set, by shape: every `folder/name/*.jinja`, so that their text can enter the settings.

    A name with a slash is the path of a folder. Raises InputError when there is no such set, or it is empty.
    """
    home = Path(name).expanduser() if "/" in name else folder / name
    if not home.is_dir():
        known = [path.name for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
        where = "" if "/" in name else f" in {folder}"
        raise InputError(f"no prompt set {name!r}{where}{did_you_mean(name, known)}")
    prompts = {path.name.removesuffix(_SUFFIX): path.read_text("utf-8") for path in sorted(home.glob(f"*{_SUFFIX}"))}
    if not prompts:
        raise InputError(f"{home} holds no *{_SUFFIX} file; write one per question shape, at least {FALLBACK_SHAPE}")
    return prompts


class Prompts:
    """Compiled templates of one set. Raises InputError for a template that does not compile."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        environment = SandboxedEnvironment(
            undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True
        )
        self._templates: dict[str, jinja2.Template] = {}
        for name, text in texts.items():
            try:
                self._templates[name] = environment.from_string(text)
            except jinja2.TemplateSyntaxError as error:
                raise InputError(f"prompt {name!r}, line {error.lineno}: {error.message}") from error

    @property
    def names(self) -> list[str]:
        """The templates' names."""
        return list(self._templates)

    def render(self, name: str, fallback: str = FALLBACK_SHAPE, /, **values: Any) -> str:
        """The prompt of this name, or the fallback's; raises InputError for a variable that there is not."""
        template = self._templates.get(name) or self._templates.get(fallback)
        if template is None:
            raise InputError(f"no prompt {name!r}{did_you_mean(name, self._templates)} and no {fallback!r}")
        try:
            return template.render(**values)
        except (jinja2.UndefinedError, SecurityError) as error:
            raise InputError(f"prompt {name!r}: {error}") from error


def one_line(text: str | None) -> str:
    """Line breaks and runs of blanks as single blanks: a line break would end a few-shot example."""
    return " ".join((text or "").split())
