"""Figures 2, 3, 11 and 12: semi-natural data sets and maps crafted for them."""
