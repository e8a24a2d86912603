"""Figures 8, 9, 14 and 15: methods and ensembles by four metrics, beside the true ratios."""
