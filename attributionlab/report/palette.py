"""Colors that can be told apart with every color vision."""

LINE_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#56b4e9", "#e69f00")
"""Okabe and Ito's palette without its yellow, which is pale on white."""
