"""The plain data of tensors, which engines and the op table read: shape, dtype, memory, views and gradients."""
