"""Figure 6: both metrics on a linear model of Gaussian features, whose ratios are known."""
