"""An answer as the statements it makes, each a list of words: wrappers, citations and marks of emphasis are taken off.

Every step is linear in the text: what is looked for has a bounded length, or cannot begin twice at one place.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

from rat_ray.annotate.text import plain, unescaped

# Words that never match a form's word; a quotation inside a statement becomes the one.
QUOTATION = "quotation0"
COMMA, QUESTION = ",", "?"

_MARKUP = re.compile(r"[\"\[\](){}<>*_~#|\\`\n\r]|--|://|(?<!\w)'|'(?!\w)")
_SUPERSCRIPTS = dict.fromkeys(map(ord, "\u00b9\u00b2\u00b3\u2070\u2074\u2075\u2076\u2077\u2078\u2079"))
_FENCE = re.compile(r"\s*```\w{0,20}\n?(.*?)\n?```\s*\Z", re.DOTALL)
_ANSWER_KEYS = ("answer", "final_answer", "response", "output", "result", "verdict", "label", "text", "content",
                "antwort", "réponse", "reponse", "risposta", "respuesta")  # fmt: skip
_LIKE_JSON = re.compile(rf"\{{\s*[\"']?(?:{'|'.join(_ANSWER_KEYS)})[\"']?\s*:(.*)\}}\s*\Z", re.DOTALL | re.IGNORECASE)
_UNSEEN = " \n\r\t\u00a0\u200b\u2060\ufeff"
_LARGEST_JSON = 20_000
_BRACKETS = re.compile(r"\[([^\[\]]{0,80})\]|\(([^()]{1,80})\)|\u3010[^\u3011]{0,80}\u3011")
_REMARK = re.compile(r"\(((?:[^\s()]{1,30} ){3,40}[^\s()]{1,30})\)(?=\s?(?:[.!?]|\Z))")
_CITED_WORDS = (
    "passage passages document documents doc docs source sources text texts context contexts chunk see cf ref "
    "reference passagen passus dokument dokumente quelle quellen textstelle textstellen abschnitt abschnitte siehe "
    "texte textes extrait extraits voir passaggio passaggi documenti documento fonte fonti testo testi vedi "
    "pasaje pasajes documentos fuente fuentes texto textos ver p pp page and to bis und et a e y"
)
_CITED = frozenset(_CITED_WORDS.split())
_TAGS = re.compile(
    r"</?(?:(?:final[_ ]?)?answer|response|output|result|text|p|b|i|u|em|strong|span|div|br|code|pre|h\d)\b[^<>]{0,40}>"
    r"|\\[a-z]{1,20}\{|https?://\S+"
)
_EMPHASIS = re.compile(r"[*_~#>|\\{}^]")
_QUOTED = re.compile(r'"([^"]*)"(\s*(?:[.!?;]|\Z))?')
_OPENS, _CLOSES = re.compile(r"(?<!\w)'(?=\w)"), re.compile(r"(?<=[\w.!?])'(?!\w)")
_TITLES = frozenset(["dr", "mr", "ms", "st", "vs", "jr", "sr", "mrs"])
# A first statement of plain words whose end cannot be mistaken.
_PLAIN_HEAD = re.compile(
    r"(?:[A-Za-z0-9 ,]|(?<=[A-Za-z])'(?=[A-Za-z])){0,400}(?<=[A-Za-z0-9])(?:[.!;](?=\s)|[.!]?\s*\Z)"
)
# A full stop ends a statement unless it stands after a single letter or a title.
_ENDS = re.compile(r"(\?)|(?<!\b\w)(?<!\b(?:dr|mr|ms|st|vs|jr|sr))(?<!\bmrs)\.(?=[\s)\]'\"]|\Z)|[!;\u3002]|:(?!\d)| - ")
_NUMBERED = re.compile(r"\d{1,2}[.)]\s+(?=\S)")
_ENCLITIC = re.compile(r"'(?=(?:s|t|m|d|re|ve|ll)\b)")
_TOKENS = re.compile(r"[^\W_]+|,")


def word_tokens(text: str) -> list[str]:
    """The words of a text without accents, in lower case: `L'été` is [`l`, `ete`], `don’t` is [`dont`]."""
    return [token for token in _tokens(_folded(plain(text))) if token != COMMA]


def says_nothing(text: str) -> bool:
    """Whether the text holds nothing but blanks, punctuation and invisible characters. `€` says something."""
    return all(unicodedata.category(char)[0] in "PZC" for char in text)


def statements(text: str, comma_words: frozenset[str]) -> list[list[str]]:
    """The statements of an `unwrapped` answer as lists of `word_tokens`, in order; the empty ones are left out.

    A list ends with `?` where the statement is a question. A comma is a token only before one of `comma_words`.
    """
    text = text if text.isascii() else text.replace("\u2014", " - ").translate(_SUPERSCRIPTS)
    if _MARKUP.search(text) or text.lstrip(_UNSEEN).startswith(("1. ", "1) ")) or "\u2028" in text or "\u3010" in text:
        text = _bare(_folded(plain(_one_line(text.replace("```", " ").replace("`", '"').replace("--", " - ")))))
    else:
        text = _bare_quotes(_folded(plain(text)))
    found: list[list[str]] = []
    start = 0
    for end in _ENDS.finditer(text):
        _add(found, text[start : end.start()], end.group(1), comma_words)
        start = end.end()
    _add(found, text[start:], None, comma_words)
    return found


def plain_head(text: str, comma_words: frozenset[str]) -> tuple[list[str], bool] | None:
    """The first of the `statements` where a glance suffices to tell it, and whether it is the only one; else None."""
    match = _PLAIN_HEAD.match(text)
    if match is None:
        return None
    tokens = _with_commas(_tokens(match.group().lower()), comma_words)
    if not tokens or len(tokens[-1]) == 1 or tokens[-1] in _TITLES:
        return None
    return tokens, match.end() == len(text)


def _add(found: list[list[str]], statement: str, question: str | None, comma_words: frozenset[str]) -> None:
    tokens = _with_commas(_tokens(statement), comma_words)
    if tokens:
        found.append([*tokens, QUESTION] if question else tokens)


def _with_commas(tokens: list[str], comma_words: frozenset[str]) -> list[str]:
    """Without the commas that say nothing."""
    if COMMA not in tokens:
        return tokens
    pairs = zip(tokens, [*tokens[1:], ""], strict=True)
    return [token for token, following in pairs if token != COMMA or following in comma_words]


def _tokens(text: str) -> list[str]:
    """English `'s` and the like belong to the word before, other apostrophes end a word (`l'information`)."""
    if "'" in text:
        text = _ENCLITIC.sub("", text).replace("'", " ")
    return _TOKENS.findall(text)


class _Unaccented(dict[int, str | None]):
    """For `str.translate`: each letter without its accents, found when it is first met."""

    def __missing__(self, code: int) -> str | None:
        letters = unicodedata.normalize("NFD", chr(code))
        self[code] = "".join(char for char in letters if not unicodedata.combining(char)) or None
        return self[code]


_UNACCENTED = _Unaccented()


def _folded(text: str) -> str:
    """Without accents, as many type French, Italian and Spanish."""
    return text if text.isascii() else text.translate(_UNACCENTED)


def _one_line(text: str) -> str:
    """A new line begins a new statement, unless it goes on with a small letter. Numbers of a list are no statements."""
    lines = [line for line in (line.strip(_UNSEEN) for line in text.splitlines()) if line]
    if lines and lines[0].startswith(("1. ", "1) ")):
        lines = [_NUMBERED.sub("", line) for line in lines]
    parts = lines[:1]
    for line in lines[1:]:
        parts.append(" " if line[0].islower() else " ; ")
        parts.append(line)
    return "".join(parts)


def _bare(text: str) -> str:
    """Without citations, tags and emphasis, and with quotations resolved. The text is `plain`."""
    text = _TAGS.sub(" ", text) if ("<" in text or "\\" in text or "://" in text) else text
    if "[" in text or "(" in text or "\u3010" in text:
        text = _REMARK.sub(r" ; \1", _BRACKETS.sub(_without_citation, text))
    return " ".join(_bare_quotes(_EMPHASIS.sub(" ", text)).split())


def _without_citation(match: re.Match[str]) -> str:
    inside = match.group(1) if match.group(1) is not None else match.group(2)
    tokens = _TOKENS.findall(inside or "")
    numbers = [token for token in tokens if token.isdigit() and len(token) < 4]
    rest = [token for token in tokens if token not in _CITED and token != COMMA and token not in numbers]
    return match.group() if rest or (tokens and not numbers) else " "


def _bare_quotes(text: str) -> str:
    """A quotation that ends its statement is unwrapped, since the words before it must match too. Another is a word."""
    if "'" in text and len(_OPENS.findall(text)) == len(_CLOSES.findall(text)):
        text = _CLOSES.sub('"', _OPENS.sub('"', text))
    return _QUOTED.sub(_resolved, text) if '"' in text else text


def _resolved(match: re.Match[str]) -> str:
    inside, end = match.groups()
    if end is not None or inside.rstrip()[-1:] in {".", "!", "?"}:
        return f" {inside} {end or ''}"
    return f" {QUOTATION} "


def unwrapped(text: str) -> str:
    """The answer in a code fence or in JSON such as `{"answer": "Paris"}`; other texts as they are."""
    text = unescaped(text)
    head = text.lstrip(_UNSEEN)[:1]
    if head == "`" and (fenced := _FENCE.match(text.strip(_UNSEEN))):
        text = fenced.group(1)
        head = text.lstrip(_UNSEEN)[:1]
    if head not in {"{", "["} or len(text) > _LARGEST_JSON:
        return text
    try:
        value = _answer_in(json.loads(text.strip(_UNSEEN)))
    except (ValueError, RecursionError):
        value = None
    if value is not None:
        return value
    alike = _LIKE_JSON.match(text.strip(_UNSEEN))
    return alike.group(1) if alike else text


def _answer_in(value: Any) -> str | None:
    """What a JSON value gives as the answer, "" for null; None where it is not clear."""
    if isinstance(value, dict):
        lowered = {str(key).casefold().replace(" ", "_"): item for key, item in value.items()}
        named = [key for key in _ANSWER_KEYS if key in lowered]
        if not named and len(lowered) != 1:
            return None
        value = lowered[named[0]] if named else next(iter(lowered.values()))
    if isinstance(value, list):
        return "\n".join(map(str, value))
    if isinstance(value, dict):
        return None
    return "" if value is None else str(value)
