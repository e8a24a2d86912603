"""What follows from numbers of several images: means, bootstrap intervals, verdicts."""
