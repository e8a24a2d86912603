"""Soundness and completeness (Li et al., 2024): its tables and figures, beside what is truly so."""
