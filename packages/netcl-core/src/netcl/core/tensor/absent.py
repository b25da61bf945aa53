"""Members of PyTorch's Tensor that tensors do not have, each with the reason or the form to write in its place.

The message of AttributeError quotes it. The parity session compares the table with PyTorch: a member of torch.Tensor is
one of Tensor or is listed here, and nothing is listed that one of both does not lack.
"""

from __future__ import annotations

_SPARSE = "tensors are dense; there are no sparse layouts"
_COMPLEX = "there are no complex dtypes"
_QUANTIZED = "there are no quantized dtypes"
_REMOVED = "PyTorch itself only raises an error here"

ABSENT: dict[str, str] = {
    **dict.fromkeys(
        (
            *("ccol_indices", "coalesce", "col_indices", "crow_indices", "dense_dim", "indices", "is_coalesced"),
            *("resize_as_sparse_", "row_indices", "smm", "sparse_dim", "sparse_mask", "sparse_resize_"),
            *("sparse_resize_and_clear_", "sspaddmm", "to_dense", "to_sparse", "to_sparse_bsc", "to_sparse_bsr"),
            *("to_sparse_coo", "to_sparse_csc", "to_sparse_csr", "values"),
        ),
        _SPARSE,
    ),
    **dict.fromkeys(("cdouble", "cfloat", "chalf", "imag", "istft", "stft"), _COMPLEX),
    **dict.fromkeys(
        (
            *("dequantize", "int_repr", "q_per_channel_axis", "q_per_channel_scales", "q_per_channel_zero_points"),
            *("q_scale", "q_zero_point", "qscheme"),
        ),
        _QUANTIZED,
    ),
    "name": "there are no named axes",
    "to_padded_tensor": "there are no nested tensors; pad the parts with netcl.ops.pad and stack them",
    **dict.fromkeys(("ipu", "mtia", "xpu"), 'write x.to("gpu"), or another device of netcl.manager.devices()'),
    "to_mkldnn": "there is one memory layout; write x.contiguous()",
    "record_stream": "memory goes back to its pool in the order of the queue; nothing is to be recorded",
    "share_memory_": "workers of netcl.data.DataLoader send arrays through shared memory; write x.numpy()",
    "storage_type": "write x.untyped_storage() and x.dtype",
    **dict.fromkeys(
        ("as_strided", "as_strided_", "as_strided_scatter"),
        "write x.unfold(dim, size, step), x.diagonal(), x.expand(...) or slices, which are views too",
    ),
    **dict.fromkeys(
        ("resize", "resize_", "resize_as", "resize_as_"),
        "a tensor keeps its number of elements; write x.reshape(...), or x.new_empty(...) for another number",
    ),
    "set_": "write x.data = source",
    "new": "write x.new_empty(sizes) or x.new_tensor(data)",
    "new_empty_strided": "new tensors are contiguous; write x.new_empty(sizes)",
    "index": "write x[...]",
    "map2_": "write x.copy_(function(x, y, z)) with ops on whole tensors",
    **dict.fromkeys(
        ("igamma", "igamma_", "igammac", "igammac_"),
        "write x.copy_(...) of scipy.special.gammainc or gammaincc of the arrays x.numpy()",
    ),
    **dict.fromkeys(("geqrf", "ormqr"), "write netcl.linalg.qr(x)"),
    "orgqr": "write netcl.linalg.householder_product(x, tau)",
    "lu": "write netcl.linalg.lu_factor(x), or netcl.linalg.lu(x)",
    "lu_solve": "write netcl.linalg.lu_solve(LU, pivots, x)",
    **dict.fromkeys(("eig", "symeig"), f"{_REMOVED}; write netcl.linalg.eigh(x)"),
    "lstsq": f"{_REMOVED}; write netcl.linalg.lstsq(a, b)",
    "solve": f"{_REMOVED}; write netcl.linalg.solve(a, b)",
    "reinforce": _REMOVED,
    "volatile": f"{_REMOVED}; write with netcl.no_grad()",
    "as_subclass": "write the class as a function of tensors, or hold the tensor in a field",
    "module_load": "write x.copy_(other) under netcl.no_grad(); modules load by load_state_dict",
    "grad_dtype": "the gradient of a leaf has the dtype of the leaf",
    "hash_tensor": "write hash(x.numpy().tobytes())",
    "output_nr": "write x.grad_fn, which names the op",
    "slice_inverse": "write base.slice_scatter(x, ...)",
}
__all__ = ["ABSENT"]
