"""What the words in the report of a metric mean: titles, columns, notes."""

NOTES = (
    "agreement, correlation: Spearman's, of the metric's ranking of the attributions with the truth's "
    "(the lowest F1 of all masks), within each image; the mean over images with its interval.",
    "swap contrast: agreement with the truth of the network that was shown, minus agreement with that "
    "of its counterpart, a network with other roles for the same image; from -2 to 2. 0 for a metric "
    "that never queries the network; agreement alone does not show this.",
    "lead over control: agreement on both networks, minus that of the best control, with an interval "
    "over questions. Controls see no network, or query it about one pixel: what they reach is no "
    "achievement.",
    "likeness: correlation of the metric's scores with the control's. beats exact: in how many "
    "questions a wrong attribution scores at least as well as the exact mask.",
)
DOSE_NOTES = (
    "At dose 0 of every axis, the replacement shows the network nothing unseen. Colors that a metric "
    "imputes itself (ROAD) are unseen if the network has redundant channels.",
    "drop: by how much a dose of unseen data lowers the agreement. break: the smallest dose from which "
    "the interval lies below the threshold.",
    "undefined: in every image, a score is NaN or all scores are equal.",
    "exact mask beaten: another map scores better than the exact signed mask, by more than 1 % of the "
    "range of all scores. At these doses the metric measures another truth.",
)
"""What the columns of the tables mean, and those about unseen data."""
BOTH = (
    "both networks: each question has two networks, its own and a counterpart with other roles for the "
    "same image. Some attributions are made for the one, some for the other, and lures for neither. "
    "The metric ranks all of them on each network; the value is the mean of the two rank correlations "
    "with the truth. A valid metric is above all controls here. own network: the rank correlation for "
    "the attributions made for the question's own network alone. A control gains there by what these "
    "share."
)
"""What the columns of the deciding table mean that only it has; the others are in `BESIDE`."""
BESIDE = (
    "swap contrast: agreement with the truth of the network shown, minus agreement with that of its "
    "counterpart; 0 if the metric never queries the network. likeness: correlation of the metric's "
    "scores with the control's."
)
QUICK = "Quick: unseen data at few doses, only the checks that can find an error."
FIRST_LOOK = {
    "valid": " This is a first look.",
    "undecided": " This is a first look: many metrics are undecided.",
}
"""What follows `QUICK` after those verdicts that a longer test may change."""
CARD = "Does this metric ..."
"""Title of the card that a verdict stands on."""
LOOKS = "looks at the network"
MADE_FOR = (
    "For which network an attribution was made: the own one, its counterpart (twin), or none. All "
    "scores are on the own one."
)
"""What the colors of the figure of attributions say."""
DECIDES = "Agreement with the truth, beside controls that see almost nothing of a network"
"""Title of the table that decides whether a metric is valid."""
NUMBERS = "What the verdict depends on, with intervals"
SHORT_TABLES = CARD, DECIDES
"""Titles of the tables that a terminal shows unless it is asked for all."""
LINES = {
    "both": "agreement on both networks (decides)",
    "agreement": "agreement on own network",
    "swap contrast": "swap contrast",
}
"""Names in the figure, by those of `headline`, and of what has no interval."""
