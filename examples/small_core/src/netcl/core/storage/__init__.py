"""The plain data of tensors: gradients and views."""
