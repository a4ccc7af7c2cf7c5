"""Runs compiled models: the C stub's header and the ctypes loader. Imports numpy, ml_dtypes and ctypes only."""
