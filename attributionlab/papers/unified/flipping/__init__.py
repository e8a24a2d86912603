"""Pixel Flipping of maps, of random pixels, and of random pixels within a reference."""
