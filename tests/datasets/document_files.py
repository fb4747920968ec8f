"""Documents for the tests, written when they are needed: PDF by hand, so that no library is needed to make one."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

_FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"


def write_pdf(
    path: Path, pages: Sequence[Sequence[str]], title: str = "", extra: bytes = b"", trailer: bytes = b""
) -> None:
    """A PDF with these lines on its pages; a page without lines has no text.

    extra: the body of one more object, trailer: more entries of the trailer (`/Encrypt 5 0 R`).
    """
    objects: list[bytes] = [b"", b"", _FONT, b"<< /Title (" + _string(title) + b") >>", extra or b"null"]
    kids = []
    for lines in pages:
        shown = b" T* ".join(b"(" + _string(line) + b") Tj" for line in lines)
        content = zlib.compress(b"BT /F1 11 Tf 14 TL 60 760 Td " + shown + b" ET" if lines else b"10 10 80 80 re f")
        objects.append(b"<< /Length %d /Filter /FlateDecode >>\nstream\n%b\nendstream" % (len(content), content))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(objects)
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[0] = b"<< /Type /Catalog /Pages 2 0 R >>"
    objects[1] = b"<< /Type /Pages /Kids [%b] /Count %d >>" % (b" ".join(kids), len(kids))
    data, places = b"%PDF-1.7\n", []
    for number, body in enumerate(objects, start=1):
        places.append(len(data))
        data += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    start = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    data += b"".join(b"%010d 00000 n \n" % place for place in places)
    data += b"trailer\n<< /Size %d /Root 1 0 R /Info 4 0 R %b >>\n" % (len(objects) + 1, trailer)
    path.write_bytes(data + b"startxref\n%d\n%%%%EOF\n" % start)


def write_encrypted_pdf(path: Path) -> None:
    """A PDF whose (40-bit RC4) password is not the empty one: its check values are arbitrary."""
    extra = b"<< /Filter /Standard /V 1 /R 2 /O <%b> /U <%b> /P -4 >>" % (b"11" * 32, b"22" * 32)
    write_pdf(path, [["Secret."]], extra=extra, trailer=b"/Encrypt 5 0 R /ID [<00> <00>]")


def _string(text: str) -> bytes:
    data = text.encode("cp1252")
    for mark in (b"\\", b"(", b")"):
        data = data.replace(mark, b"\\" + mark)
    return data
