"""Retrievers: one file each, all of them named in `kinds.py`."""
