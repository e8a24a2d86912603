"""Sweeps: methods x environments x metrics x doses x seeds from one file, on the store."""
