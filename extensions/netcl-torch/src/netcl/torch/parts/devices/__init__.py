"""PyTorch's modules of devices over netcl's OpenCL devices: cuda, mps, xpu, cpu, accelerator and backends."""
