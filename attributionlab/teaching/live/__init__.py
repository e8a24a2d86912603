"""A network in a page: one file in which an environment's network runs, forward and backward."""
