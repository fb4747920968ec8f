"""Evaluate retrieval-augmented generation: retrieval (R), abstention (A), task success (T), policy adherence (G)."""

__version__ = "0.1.0"
