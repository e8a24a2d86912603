"""Does the code of an evaluation metric do what the metric says? Checks with known answers."""
