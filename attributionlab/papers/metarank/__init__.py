"""Consistency of rankings and Meta-Rank (Duan et al., 2024), on cases whose truth is known."""
