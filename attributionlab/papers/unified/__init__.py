"""Flaws of evaluation metrics (Wang and Wang, 2022): exactly, or on small networks."""
