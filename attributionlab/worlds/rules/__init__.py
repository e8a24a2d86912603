"""Worlds from rules: an expression over counts becomes a network with its images and its truth."""
