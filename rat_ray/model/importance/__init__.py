"""Importance sampling of one fit: see `docs/model.md`, "Engines"."""
