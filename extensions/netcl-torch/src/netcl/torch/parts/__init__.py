"""The parts of netcl.torch that are not in the layers: names with PyTorch's defaults over theirs.

``TORCH_NAMES`` of a module lists names that programs import although PyTorch does not list them as public.
"""
