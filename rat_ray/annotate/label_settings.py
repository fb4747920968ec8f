"""Which sources label, and which of them are trusted: the settings behind `conf/labels/`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rat_ray.annotate.abstention import LANGUAGES, load_refusals, refusals_digest
from rat_ray.annotate.evidence import R_RULES
from rat_ray.annotate.match import T_RULES
from rat_ray.annotate.people import RESOLVE
from rat_ray.annotate.rules import RuleKind
from rat_ray.errors import InputError, did_you_mean
from rat_ray.naming import safe_name
from rat_ray.settings import build

VARIABLES = ("r", "a", "t")
PEOPLE = "people"
A_PHRASE = "a@phrase"
DEFAULT_RULES = ("r@evidence", A_PHRASE, "t@match")
KIND = "kind"  # in the options of a rule: which rule it is, where its name does not say


_KINDS: Mapping[str, Mapping[str, RuleKind | None]] = {"r": R_RULES, "a": {"phrase": None}, "t": T_RULES}


class Rule(NamedTuple):
    """A rule under the name of its column: its kind, None for A's, and its options."""

    source: str
    kind: str
    rule: RuleKind | None
    options: Any


@dataclass(frozen=True)
class LabelSettings:
    """Which sources label, and which of them are trusted.

    rules: columns that rules fill, such as `r@evidence`. options: of rules, by column; `kind` there names the rule
    where the column's name does not, so that one rule stands twice: {"t@strict": {"kind": "f1", "at_least": 0.8}}.
    trusted: per variable the sources' names in order, e.g. {"r": ["people", "evidence"]}; the first that has a label
    fills it. people: files of people's labels (`rat-ray annotate import`); resolve: what their label is where they
    differ; `people` among the trusted is no error where there are none.
    languages, refusals: the languages of the forms of refusing to answer, and files with more of them.
    budget: so many rows keep their trusted r and t, drawn at random by seed; the others' are hidden from the fit, never
    a. -1: all rows keep them.
    judges, annotators, config, dataset, retriever, generator, abstention_phrase: filled by who runs it. refusal_text
    and refusals_digest: the forms, by `resolved`.
    """

    rules: list[str] = field(default_factory=lambda: list(DEFAULT_RULES))
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    trusted: dict[str, list[str]] = field(default_factory=dict)
    people: list[str] = field(default_factory=list, metadata={"key": False})
    resolve: str = RESOLVE[0]
    languages: list[str] = field(default_factory=lambda: list(LANGUAGES), metadata={"key": False})
    refusals: list[str] = field(default_factory=list, metadata={"key": False})
    budget: int = -1
    seed: int = 0
    judges: list[str] = field(default_factory=list, metadata={"user": False})
    annotators: list[str] = field(default_factory=list, metadata={"user": False})
    labelled: list[str] = field(default_factory=list, metadata={"user": False})
    config: str = field(default="", metadata={"user": False})
    dataset: str = field(default="", metadata={"user": False})
    retriever: str = field(default="", metadata={"user": False})
    generator: str = field(default="", metadata={"user": False})
    abstention_phrase: str = field(default="", metadata={"user": False})
    refusal_text: str = field(default="", metadata={"user": False, "key": False})
    refusals_digest: str = field(default="", metadata={"user": False})

    def validate(self) -> None:
        """Raise InputError for unknown rules and variables, and for options that a rule does not have."""
        if self.budget < 1 and self.budget != -1:
            raise InputError(f"labels.budget={self.budget}: give how many items keep their labels, or -1 for all")
        if self.resolve not in RESOLVE:
            raise InputError(f"labels.resolve={self.resolve!r}: unknown{did_you_mean(self.resolve, RESOLVE)}")
        unused = [source for source in self.options if source not in self.rules]
        if unused:
            raise InputError(
                f"labels.options: {unused[0]!r} is none of labels.rules{did_you_mean(unused[0], self.rules)}"
            )
        for variable in self.trusted:
            if variable not in VARIABLES:
                raise InputError(f"labels.trusted: {variable!r} is no variable; use r, a or t")
        if len(set(self.rules)) < len(self.rules):
            raise InputError(f"labels.rules: {', '.join(self.rules)}: one is there twice")
        _ = self.rule_list

    @property
    def rule_list(self) -> list[Rule]:
        """The rules with their options. Raises InputError for one that there is not."""
        return [_rule(source, self.options.get(source, {})) for source in self.rules]

    def resolved(self) -> LabelSettings:
        """With the text of the forms of refusing, which travels to the workers. Raises InputError for a bad file."""
        text = self.refusal_text or load_refusals(self.languages, self.refusals)
        return dataclasses.replace(self, refusal_text=text, refusals_digest=refusals_digest(text))

    def with_people(self, labelled: Iterable[str], annotators: Sequence[str]) -> LabelSettings:
        """labelled: the variables that people labelled. `people` goes from the trusted where they labelled none."""
        known = [variable for variable in VARIABLES if variable in set(labelled)]
        trusted = {
            variable: [name for name in names if name != PEOPLE or variable in known]
            for variable, names in self.trusted.items()
        }
        several = list(annotators) if len(annotators) > 1 else []
        return dataclasses.replace(self, trusted=trusted, labelled=known, annotators=several)

    def check_trusted(self) -> None:
        """Raise InputError for a trusted source that labels nothing here, and for a rule or judge that is called as
        people's labels are; `judges` and people must be filled in.
        """
        for source in (*self.rules, *self.judges):
            if _of_people(source):
                what = "judge.name" if source in self.judges else "labels.rules"
                raise InputError(f"{what}: {source!r} would be taken for labels of people; give it another name")
        for variable, names in self.trusted.items():
            known = [source.partition("@")[2] for source in self.sources if source.startswith(f"{variable}@")]
            for name in names:
                if name not in known:
                    more = "; give labels.people=[…], files of people's labels" if name == PEOPLE else ""
                    raise InputError(
                        f"labels.trusted.{variable}: no source {variable}@{name}{did_you_mean(name, known)}{more}"
                    )

    @property
    def people_columns(self) -> dict[str, tuple[str, str]]:
        """Columns of people's labels: their variable and whose they are, "" for all annotators together."""
        found = {}
        for variable in self.labelled:
            found[f"{variable}@{PEOPLE}"] = (variable, "")
            for name in self.annotators:
                found[f"{variable}@{PEOPLE}.{safe_name(name)}"] = (variable, name)
        return found

    @property
    def sources(self) -> list[str]:
        """The source columns of the annotations table, in order."""
        return list(dict.fromkeys([*self.rules, *self.judges, *self.people_columns]))

    @property
    def scored(self) -> list[str]:
        """The rules that give a score."""
        return [source for source in self.rules if source.startswith("t@")]


def _rule(source: str, options: Mapping[str, Any]) -> Rule:
    variable, at, name = source.partition("@")
    kinds = _KINDS.get(variable, {})
    kind = str(options.get(KIND, name))
    if KIND in options and kind not in kinds:
        raise InputError(f"labels.options.{source}.kind={kind!r}: unknown{did_you_mean(kind, kinds)}")
    if not at or kind not in kinds:
        known = [f"{one}@{rule}" for one, rules in _KINDS.items() for rule in rules]
        raise InputError(f"labels.rules: {source!r} is unknown{did_you_mean(source, known)}")
    if safe_name(name) != name:
        raise InputError(f"labels.rules: {source!r}: give a name of letters, digits, '_', '-' and '.' after the '@'")
    rule = kinds[kind]
    given = {option: value for option, value in options.items() if option != KIND}
    where = f"labels.options.{source}"
    if rule is None:
        if given:
            raise InputError(f"{where}: {', '.join(given)}: {source} has no options")
        return Rule(source, kind, None, None)
    return Rule(source, kind, rule, build(rule.settings, given, where))


def trusted_sources(trusted: Mapping[str, Iterable[str]], variable: str) -> list[str]:
    """The trusted source columns of one variable in order, e.g. ["r@people", "r@evidence"]."""
    return [f"{variable}@{name}" for name in trusted.get(variable, [])]


def judge_columns(trusted: Mapping[str, Iterable[str]], columns: Iterable[str]) -> list[str]:
    """The source columns that serve as judges in a fit: all but the trusted ones, which would leak what is hidden.

    One annotator's column never does, nor people's together where any of theirs is trusted: they are the same labels.
    """
    filled = {source for variable in VARIABLES for source in trusted_sources(trusted, variable)}
    people = {source[0] for source in filled if _of_people(source)}
    return [
        name
        for name in columns
        if name[:2] in {"r@", "a@", "t@"}
        and name not in filled
        and not name[2:].startswith(f"{PEOPLE}.")
        and not (_of_people(name) and name[0] in people)
    ]


def _of_people(source: str) -> bool:
    name = source[2:]
    return name == PEOPLE or name.startswith(f"{PEOPLE}.")
