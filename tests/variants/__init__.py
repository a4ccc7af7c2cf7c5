"""Variants by shape and instruction set, from the command line to the pick at run time."""
