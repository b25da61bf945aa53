"""The parts of a netcl-core that need no device: errors, configuration, the op table, expressions, methods of Tensor.

A distribution that takes netcl-core's place may depend on this one and write the rest: tensors, devices and the
computations of rows. docs/reference/core-contract.md is the contract that both keep.
"""
