"""What is read of text, Markdown, HTML and PDF files."""

from __future__ import annotations

from pathlib import Path

import pytest

from rat_ray.datasets.documents.html import read_html
from rat_ray.datasets.documents.markdown import read_markdown
from rat_ray.datasets.documents.parts import Document, Unreadable
from rat_ray.datasets.documents.pdf import WithoutText, joined_hyphens, read_pdf, without_running
from rat_ray.datasets.documents.text import decode, read_text, unwrapped
from tests.datasets.document_files import write_encrypted_pdf, write_pdf

LINE = "A line of prose that is as long as the page is wide, give or take"


def outline(document: Document) -> list[tuple[str, list[str]]]:
    return [(" > ".join(path), [block.text for block in blocks]) for path, blocks in document.sections]


def markdown(text: str, by_heading: bool = True) -> Document:
    return read_markdown(text.encode(), "utf-8", by_heading)


def html(text: str, by_heading: bool = True) -> Document:
    return read_html(text.encode(), "utf-8", by_heading)


# --- text -------------------------------------------------------------------------------------------------------


def test_text_is_parted_at_blank_lines() -> None:
    document = read_text(b"One\r\n  two\r\n \r\n\r\n    three\x0cfour\n", "utf-8")
    assert outline(document) == [("", ["One\n  two", "    three", "four"])]
    assert document.title == ""


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("Žluťoučký".encode(), "utf-8"),
        (b"\xef\xbb\xbf" + "Žluťoučký".encode(), "cp1252"),
        ("\ufeffŽluťoučký".encode("utf-16-le"), "utf-8"),
        ("\ufeffŽluťoučký".encode("utf-16-be"), "utf-8"),
        ("Žluťoučký".encode("iso-8859-2"), "iso-8859-2"),
    ],
)
def test_a_byte_order_mark_goes_before_the_setting(data: bytes, encoding: str) -> None:
    assert decode(data, encoding) == "Žluťoučký"


@pytest.mark.parametrize(
    ("data", "encoding", "parts"),
    [
        (b"fine\ncaf\xe9\n", "utf-8", ("not valid UTF-8 at byte 9", "line 2", "dataset.encoding")),
        (b"\x81", "cp1252", ("not valid cp1252", "byte 1")),
        (b"PK\x03\x04\x00\x00", "utf-8", ("NUL", "dataset.exclude")),
    ],
)
def test_what_is_no_text_is_refused(data: bytes, encoding: str, parts: tuple[str, ...]) -> None:
    with pytest.raises(Unreadable) as caught:
        decode(data, encoding)
    for part in parts:
        assert part in caught.value.reason


def test_only_breaks_that_wrap_prose_are_taken_for_spaces() -> None:
    prose = "Prose that an editor has wrapped at the fiftieth col\numn goes on. A short end.\nAnother line."
    assert unwrapped(prose) == prose.replace("col\numn", "col umn")
    log = "\n".join(f"2024-01-0{day} something happened here, number {day}" for day in range(1, 9))
    assert unwrapped(log) == log
    assert unwrapped("apples\npears") == "apples\npears"


# --- Markdown -----------------------------------------------------------------------------------------------------


def test_markdown_headings_begin_sections_and_their_path_is_kept() -> None:
    document = markdown(
        "Before.\n\n# The *Book* of `x`\n\n"
        "## One\n\nText\nwrapped.\n\n### Deep\nDeep text.\n\nTwo\n---\n\nMore.\n# End\n"
    )
    assert document.title == "The Book of x"
    assert outline(document) == [
        ("", ["Before."]),
        ("The Book of x > One", ["Text\nwrapped."]),
        ("The Book of x > One > Deep", ["Deep text."]),
        ("The Book of x > Two", ["More."]),
        ("End", ["End"]),  # nothing stands below it, and its word must be in some passage
    ]


def test_a_headings_markup_is_not_in_the_title() -> None:
    text = "# A [link][x], `code` and **bold** &amp; <b>tag</b>\n\nText.\n\n[x]: http://y\n"
    assert markdown(text).title == "A link, code and bold & tag"


def test_what_looks_like_a_heading_in_code_or_a_quotation_is_none() -> None:
    text = "# T\n\n```sh\n# a comment\n\nls\n```\n\n> # quoted\n\n- # in a list\n"
    assert outline(markdown(text)) == [("T", ["```sh\n# a comment\n\nls\n```", "> # quoted", "- # in a list"])]


def test_no_line_of_markdown_is_lost() -> None:
    text = (
        "[a]: http://x\n\nText [a].\n\n[b]: http://y\n\n"
        "| k | v |\n|---|---|\n| 1 | 2 |\n\n<div>\n\nraw\n\n</div>\n\n---\n\n[c]: z\n"
    )
    found = "\n".join(block for _, blocks in outline(markdown(text)) for block in blocks)
    assert found.split() == text.split()


def test_front_matter_gives_the_title_and_nothing_else() -> None:
    document = markdown("---\ntags: [a]\ntitle: 'A manual'\n---\n# Part\n\nText.\n")
    assert document.title == "A manual"
    assert outline(document) == [("Part", ["Text."])]
    assert outline(markdown("---\n\nText.\n")) == [("", ["---", "Text."])]


def test_without_by_heading_headings_are_text() -> None:
    document = markdown("# T\n\nOne.\n\n## S\n\nTwo.\n", by_heading=False)
    assert document.title == "T"
    assert outline(document) == [("", ["# T", "One.", "## S", "Two."])]


# --- HTML ---------------------------------------------------------------------------------------------------------


def test_html_gives_words_and_neither_scripts_nor_navigation() -> None:
    document = html(
        "<!doctype html><title>Caf&eacute; &amp;\n Bar</title><style>p {}</style><nav><a>Home</a></nav>"
        "<h1>Welcome</h1>"
        "<p>One &lt;b&gt; <b>bo</b>ld&nbsp;&#x1F600;\n   word<br>next<p>Two<script>if (a<b) '</p>'</script>"
        "<aside>ad</aside><div role=navigation>menu</div><div hidden>no</div><span aria-hidden=true>x</span>"
        "<template>t</template><noscript>n</noscript><button>Go</button><!-- c --><footer>f</footer>"
    )
    assert document.title == "Café & Bar"
    assert outline(document) == [("Welcome", ["One <b> bold 😀 word\nnext", "Two"])]


def test_lists_tables_and_code_stay_in_one_block() -> None:
    document = html(
        "<h2>S<a class=headerlink>¶</a></h2><ul><li>one<ul><li>sub</li></ul><li><p>two</p></ul>"
        "<table><tr><th>k<th>v<tr><td>1<td>2</table><pre>a  b\n   c</pre><dl><dt>t<dd>d</dl>loose<div>own</div>"
    )
    assert outline(document) == [("S", ["- one\n- sub\n- two", "k | v\n1 | 2", "a  b\n   c", "t\nd", "loose", "own"])]
    assert document.title == "S"


def test_a_single_main_is_the_document() -> None:
    document = html("<h1>Site</h1><p>cookies</p><main><h2>Page</h2><p>Text.</p></main>")
    assert outline(document) == [("Page", ["Text."])]
    two = html("<main><p>a</p></main><main><p>b</p></main>")
    assert outline(two) == [("", ["a", "b"])]


def test_nested_thousands_deep_nothing_is_lost() -> None:
    document = html("<div>" * 5_000 + "deep" + "</div>" * 5_000 + "<p>after</p>")
    assert outline(document) == [("", ["deep", "after"])]


def test_broken_html_is_read_as_browsers_do() -> None:
    assert outline(html("<p>a <b>b</i> c<h2>H</p>d</h2>e")) == [("", ["a b c"]), ("H d", ["e"])]
    assert outline(html("plain words")) == [("", ["plain words"])]
    assert html("<!-- nothing -->").sections == []


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ('<meta charset="windows-1252">', "cp1252"),
        ("<meta http-equiv=Content-Type content='text/html; charset=iso-8859-1'>", "cp1252"),
        ("<meta charset=shift_jis>", "shift_jis"),
        ("<meta charset=unheard-of>", "utf-8"),
        ("<meta charset=undefined>", "utf-8"),  # what a template in JavaScript leaves, and a codec of Python's
        ("<meta charset=hex>", "utf-8"),
        ("<meta charset=rot13>", "utf-8"),
        ("<meta charset=utf-7>", "utf-8"),
        ("<meta charset=unicode_escape>", "utf-8"),
        ("<meta charset=utf-16le>", "utf-8"),
        ("<meta charset=gb2312>", "gbk"),  # with letters that GB 2312 itself lacks
        ("<meta charset=euc-kr>", "cp949"),
        ('<?xml version="1.0" encoding="iso-8859-2"?>', "iso-8859-2"),
    ],
)
def test_the_encoding_that_html_declares_is_used(head: str, encoding: str) -> None:
    word = {"cp1252": "Œuvre", "shift_jis": "日本", "iso-8859-2": "Žluť", "gbk": "朱镕基", "cp949": "똠방"}.get(
        encoding, "Œuvre"
    )
    assert outline(read_html(f"{head}<p>{word}".encode(encoding), "utf-8", True)) == [("", [word])]


def test_a_table_for_layout_keeps_its_headings_words() -> None:
    assert outline(html("<table><tr><td><h1>A</h1><p>b</p></td></tr></table>")) == [("", ["A\nb"])]


# --- PDF ----------------------------------------------------------------------------------------------------------


def test_pdf_lines_are_joined_to_paragraphs(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    write_pdf(
        path,
        [
            [f"{LINE} infor-", f"mation (sic) is café. {LINE[:45]}", "and a short end.", "Heading", LINE, f"{LINE} on"],
            ["the next page goes on."],
        ],
        title="My (title)",
    )
    document = read_pdf(path)
    assert document.title == "My (title)"
    assert outline(document) == [
        (
            "",
            [
                f"{LINE} information (sic) is café. {LINE[:45]} and a short end.",
                "Heading",
                f"{LINE} {LINE} on the next page goes on.",
            ],
        )
    ]


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("infor\ufffemation", "information"),
        ("infor-\nmation", "information"),
        ("well-\nknown", "well-known"),
        ("Saxe-\nCoburg", "Saxe-Coburg"),
        ("covid-\n19", "covid-19"),
        ("DNA-\nbased", "DNA-based"),
        ("a-\nb", "a-b"),
        ("10 -\n12", "10 -\n12"),
    ],
)
def test_hyphens_at_line_ends_go_only_where_that_is_safe(text: str, joined: str) -> None:
    assert joined_hyphens(text) == joined


def test_headers_and_footers_of_three_pages_are_left_out() -> None:
    pages = [["The Book", f"text {page} a", f"text {page} b", f"Page {page} of 9"] for page in "123"]
    # "text # a" is on three pages as well, but is no page's first or last line.
    assert without_running(pages) == [[f"text {page} a", f"text {page} b"] for page in "123"]
    assert without_running(pages[:2]) == pages[:2]


def test_pages_without_text_are_told(tmp_path: Path) -> None:
    write_pdf(tmp_path / "a.pdf", [["Text."], [], []])
    assert read_pdf(tmp_path / "a.pdf").blank_pages == (2, 3)
    write_pdf(tmp_path / "b.pdf", [[], []])
    with pytest.raises(WithoutText, match="none of its 2 pages has text"):
        read_pdf(tmp_path / "b.pdf")


def test_a_pdf_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    write_encrypted_pdf(path)
    with pytest.raises(Unreadable, match="encrypted"):
        read_pdf(path)
    path.write_bytes(b"%PDF-1.7\nnot one")
    with pytest.raises(Unreadable, match="not a PDF that can be read"):
        read_pdf(path)


def test_a_pdf_of_nothing_but_lines_like_headers_keeps_them(tmp_path: Path) -> None:
    write_pdf(tmp_path / "slides.pdf", [["Chapter 1"], ["Chapter 2"], ["Chapter 3"]])
    document = read_pdf(tmp_path / "slides.pdf")
    assert [block.text for block in document.sections[0].blocks] == ["Chapter 1", "Chapter 2", "Chapter 3"]
    assert document.running == 0
