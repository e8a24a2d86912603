"""Colors that can be told apart with every color vision."""

LINE_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#56b4e9", "#e69f00")
"""Okabe and Ito's palette without its yellow, which is pale on white."""

SIGNLESS_COLORS = {"mixed": "#8a63b0", "not asked": "#9aa0a6"}
"""Of pixels whose sign no score asks for: they raise and lower the output, or are not asked at all."""
