"""Worlds of tokens: transformers with weights set by hand, their sequences and their truth."""
