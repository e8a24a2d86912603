"""Algorithms 1 and 2 and Assumption 4.10 held against Definitions 4.8 and 4.9."""
