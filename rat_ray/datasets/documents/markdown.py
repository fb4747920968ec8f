"""Markdown (CommonMark and tables) by markdown-it-py: headings, and top-level blocks as they stand in the file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from rat_ray.datasets.documents.parts import Block, Document, Outline
from rat_ray.datasets.documents.text import decode
from rat_ray.errors import MissingExtraError

if TYPE_CHECKING:
    from markdown_it.token import Token

_FRONT: Final = re.compile(r"\A---[ \t]*\n(.*?\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TITLE: Final = re.compile(r"^title:[ \t]*(?P<quote>[\"']?)(?P<title>.+?)(?P=quote)[ \t]*$", re.MULTILINE)


def read_markdown(data: bytes, encoding: str, by_heading: bool) -> Document:
    """The text of a passage is Markdown; YAML front matter is left out but for its `title`."""
    try:
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise MissingExtraError("markdown-it-py", "documents") from error
    title, text = _without_front(decode(data, encoding))
    lines = text.split("\n")
    # Only headings are looked into: that saves a third of the time.
    parser = MarkdownIt("commonmark").enable("table")
    links: dict[str, Any] = {}
    tokens = MarkdownIt("commonmark").enable("table").disable("inline").parse(text, links)
    # Only what opens at the top level; its map says on which lines it stands.
    tops = [
        (index, token) for index, token in enumerate(tokens) if token.level == 0 and token.map and token.nesting >= 0
    ]
    outline = Outline(by_heading)
    last = 0
    for number, (index, token) in enumerate(tops):
        start, end = token.map or (0, 0)
        outline.add(Block("\n".join(lines[last:start]).strip("\n")))  # link definitions have no token
        last = end if token.type == "heading_open" else _next_start(tops, number, len(lines))
        source = "\n".join(lines[start:last]).strip("\n").rstrip()
        if token.type == "heading_open":
            outline.heading(int(token.tag[1]), _words(parser.parseInline(tokens[index + 1].content, links)), source)
        else:
            outline.add(Block(source, markdown=token.type != "paragraph_open"))
    outline.add(Block("\n".join(lines[last:]).strip("\n")))
    sections = outline.sections()
    return Document(title or outline.first_heading, sections)


def _without_front(text: str) -> tuple[str, str]:
    """(title, text): the title that the front matter gives, if any, and what follows it."""
    front = _FRONT.match(text)
    if front is None:
        return "", text
    named = _TITLE.search(front[1])
    return named["title"] if named else "", text[front.end() :]


def _next_start(tops: list[tuple[int, Token]], number: int, end: int) -> int:
    following = tops[number + 1][1].map if number + 1 < len(tops) else None
    return following[0] if following else end


def _words(heading: list[Token]) -> str:
    """A heading's words without its markup."""
    children = [child for inline in heading for child in inline.children or [] if child.type != "html_inline"]
    return "".join(" " if child.type in ("softbreak", "hardbreak") else child.content for child in children)
