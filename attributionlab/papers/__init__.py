"""The papers' tables and figures, repeated."""
