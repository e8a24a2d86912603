"""One store behind every long command: cells of work, kept as they are done, and computed once."""
