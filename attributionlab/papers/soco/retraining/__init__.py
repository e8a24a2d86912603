"""Figures 1 and 10: what retraining learns from the perturbation itself."""
