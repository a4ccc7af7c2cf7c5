"""Code of `main`: calls, views, control flow and shape arithmetic over planned memory; kernels are only declared."""
