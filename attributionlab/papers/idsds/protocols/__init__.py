"""Figure 2 and Tables 1 and 4 to 7 of Hesse et al. (2024): protocols that delete, side by side."""
