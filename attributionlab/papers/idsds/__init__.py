"""In-domain single-deletion score (Hesse et al., 2024): its items, beside what is truly so."""
