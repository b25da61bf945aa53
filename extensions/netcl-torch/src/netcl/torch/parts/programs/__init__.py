"""PyTorch's modules around training: compilers, export, profilers, tests, processes."""
