"""Measurements. ``python -m bench`` lists them; each prints a table, or JSON with ``--json``."""
