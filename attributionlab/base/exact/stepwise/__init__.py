"""Outputs after every single-pixel replacement: followed through the network, or by forward passes.

Import nothing here: only `incremental` and `kernels` need numba, which takes a second to import.
"""
