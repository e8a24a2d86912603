"""Sealed laboratories: a drawn world whose truth is committed to and hidden, and marks for answers."""
