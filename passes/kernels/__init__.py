"""Kernels: how one outlined group of operators becomes tiled, vectorised loops; one file a kernel kind."""
