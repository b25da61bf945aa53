"""Training loops: random programs by capture, jit and PyTorch against the same programs op by op; cold starts."""
