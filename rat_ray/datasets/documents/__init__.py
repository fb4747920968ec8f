"""`dataset=documents`: a folder of text, Markdown, HTML and PDF files, cut into passages, and a file of questions."""

from __future__ import annotations

from rat_ray.datasets.documents.load import load, source_files
from rat_ray.datasets.documents.settings import DocumentsSettings

__all__ = ["DocumentsSettings", "load", "source_files"]
