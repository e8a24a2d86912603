"""Table 1, Figures 7 and 13: how far apart metrics see modified maps."""
