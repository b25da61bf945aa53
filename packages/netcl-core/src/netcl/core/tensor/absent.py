"""Names of PyTorch that are absent, each with the reason or the form to write in its place: members of Tensor, and
functions.

The message of AttributeError quotes it. The parity session compares the tables with PyTorch: a member of torch.Tensor
is one of Tensor or is listed here, and so is a function of torch, torch.linalg and torch.special; nothing is listed
that one of both does not lack.
"""

from __future__ import annotations

from typing import NoReturn

_SPARSE = "of a sparse tensor; write x.to_sparse() or x.to_sparse_csr()"
_OTHER_SPARSE = "sparse tensors have the layouts nc.sparse_coo and nc.sparse_csr, and no writes in place"
_SPARSE_FORM = "write netcl.sparse.addmm, netcl.spmm or the operator @"
_COMPLEX = "there are no complex dtypes"
_QUANTIZED = "there are no quantized dtypes"
_REMOVED = "PyTorch itself only raises an error here"

# Modules of torch.
ABSENT_MODULES: dict[str, str] = {"fft": _COMPLEX, "quantization": _QUANTIZED, "ao": _QUANTIZED}

ABSENT: dict[str, str] = {
    **dict.fromkeys(
        (*("coalesce", "col_indices", "crow_indices", "indices", "is_coalesced", "values"),),
        _SPARSE,
    ),
    **dict.fromkeys(
        (
            *("ccol_indices", "resize_as_sparse_", "row_indices", "sparse_resize_", "sparse_resize_and_clear_"),
            *("to_sparse_bsc", "to_sparse_bsr", "to_sparse_csc"),
        ),
        _OTHER_SPARSE,
    ),
    **dict.fromkeys(("smm", "sspaddmm"), _SPARSE_FORM),
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
        ("resize", "resize_as"),
        "PyTorch has deprecated it; write x.resize_(...), x.reshape(...), or x.new_empty(...) for another number",
    ),
    "set_": "write x.data = source",
    "index": "write x[...]",
    "map2_": "write x.copy_(function(x, y, z)) with ops on whole tensors",
    **dict.fromkeys(("eig", "symeig"), f"{_REMOVED}; write netcl.linalg.eigh(x)"),
    "lstsq": f"{_REMOVED}; write netcl.linalg.lstsq(a, b)",
    "solve": f"{_REMOVED}; write netcl.linalg.solve(a, b)",
    "reinforce": _REMOVED,
    "volatile": f"{_REMOVED}; write with netcl.no_grad()",
    "module_load": "write x.copy_(other) under netcl.no_grad(); modules load by load_state_dict",
    "grad_dtype": "the gradient of a leaf has the dtype of the leaf",
    "hash_tensor": "write hash(x.numpy().tobytes())",
    "output_nr": "write x.grad_fn, which names the op",
    "slice_inverse": "write base.slice_scatter(x, ...)",
}

_SYMBOLIC = "sizes are Python numbers; there are no symbolic ones"
_INTERNAL = "an internal function of PyTorch"
_LEGACY_CUDA = "an internal function of PyTorch for one library of kernels"
_AUTOCAST = "write with netcl.autocast(enabled, dtype)"


def _written(names: str, text: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), text)


# Functions, dtypes and objects of torch by name; those of torch.linalg and torch.special with the name of the module.
ABSENT_FUNCTIONS: dict[str, str] = {
    **_written(
        """
        ccol_indices_copy col_indices_copy crow_indices_copy indices_copy resize_as_sparse_ row_indices_copy sparse_bsc
        sparse_bsc_tensor sparse_bsr sparse_bsr_tensor sparse_compressed_tensor sparse_csc sparse_csc_tensor values_copy
        """,
        _OTHER_SPARSE,
    ),
    **_written(
        "dsmm hsmm hspmm saddmm smm sspaddmm",
        _SPARSE_FORM,
    ),
    **_written(
        """
        cdouble cfloat chalf complex complex128 complex32 complex64 imag istft polar stft view_as_complex
        view_as_complex_copy view_as_real view_as_real_copy
        """,
        _COMPLEX,
    ),
    **_written(
        """
        choose_qparams_optimized dequantize empty_quantized fake_quantize_per_channel_affine
        fake_quantize_per_tensor_affine fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation
        fbgemm_linear_int8_weight fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight
        fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix fused_moving_avg_obs_fake_quant int_repr
        per_channel_affine per_channel_affine_float_qparams per_channel_symmetric per_tensor_affine
        per_tensor_symmetric q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point
        qint32 qint8 qscheme quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic quantized_batch_norm
        quantized_gru quantized_gru_cell quantized_lstm quantized_lstm_cell quantized_max_pool1d quantized_max_pool2d
        quantized_max_pool3d quantized_rnn_relu_cell quantized_rnn_tanh_cell quint2x4 quint4x2 quint8
        """,
        _QUANTIZED,
    ),
    **_written(
        """
        SymBool SymFloat SymInt sym_constrain_range sym_constrain_range_for_size sym_float sym_fresh_size sym_int
        sym_ite sym_max sym_min sym_not sym_sqrt sym_sum
        """,
        _SYMBOLIC,
    ),
    **_written(
        """
        cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution cudnn_convolution_add_relu
        cudnn_convolution_relu cudnn_convolution_transpose cudnn_grid_sampler cudnn_is_acceptable miopen_batch_norm
        miopen_convolution miopen_convolution_add_relu miopen_convolution_relu miopen_convolution_transpose
        miopen_ctc_loss miopen_depthwise_convolution miopen_rnn mkldnn_adaptive_avg_pool2d mkldnn_convolution
        mkldnn_linear_backward_weights mkldnn_max_pool2d mkldnn_max_pool3d mkldnn_rnn_layer
        """,
        _LEGACY_CUDA,
    ),
    **_written(
        """
        batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats
        batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats
        """,
        f"{_INTERNAL}; write netcl.nn.functional.batch_norm, or netcl.distributed.SyncBatchNorm over several devices",
    ),
    **_written("native_norm", f"{_INTERNAL}; write netcl.norm(...)"),
    **_written("convolution", f"{_INTERNAL}; write netcl.nn.functional.conv2d(...) or another of its kind"),
    **_written("embedding_bag", f"{_INTERNAL}; write netcl.nn.functional.embedding_bag(...)"),
    **_written("embedding_renorm_", "write netcl.renorm(weight, 2, 0, max_norm), and copy_ it into the weight"),
    **_written("gru", f"{_INTERNAL}; write netcl.nn.GRU"),
    **_written("lstm", f"{_INTERNAL}; write netcl.nn.LSTM"),
    **_written("rnn_relu rnn_tanh", f"{_INTERNAL}; write netcl.nn.RNN"),
    **_written("unify_type_list classproperty get_file_path init_num_threads", _INTERNAL),
    **_written("slice_inverse", ABSENT["slice_inverse"]),
    **_written("hash_tensor", ABSENT["hash_tensor"]),
    **_written("eig symeig", ABSENT["eig"]),
    **_written("lstsq", ABSENT["lstsq"]),
    **_written("solve", ABSENT["solve"]),
    **_written("matrix_rank", f"{_REMOVED}; write netcl.linalg.matrix_rank(x)"),
    **_written("linalg.eig linalg.eigvals", f"{_COMPLEX}; of a symmetric matrix write netcl.linalg.eigh(x)"),
    **_written("segment_reduce", "write netcl.index_reduce or netcl.scatter_reduce with the number of each segment"),
    **_written(
        """
        float4_e2m1fn_x2 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu bit bits16 bits1x8
        bits2x4 bits4x2 bits8 int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7
        """,
        "there are no dtypes of eight bits and less but int8, uint8 and bool; write bfloat16 for less memory",
    ),
    **_written("jagged", "there are no nested tensors; pad the parts with netcl.ops.pad and stack them"),
    **_written(
        """
        autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache set_autocast_cache_enabled
        set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype
        set_autocast_ipu_dtype set_autocast_ipu_enabled set_autocast_xla_dtype set_autocast_xla_enabled
        """,
        _AUTOCAST,
    ),
    **_written(
        "get_autocast_cpu_dtype get_autocast_gpu_dtype get_autocast_ipu_dtype get_autocast_xla_dtype",
        "write netcl.get_autocast_dtype()",
    ),
    **_written(
        "is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_ipu_enabled is_autocast_xla_enabled",
        "write netcl.is_autocast_enabled()",
    ),
    **_written("is_anomaly_check_nan_enabled", "write netcl.is_anomaly_enabled()"),
    **_written("set_warn_always is_warn_always_enabled", 'write warnings.simplefilter("always")'),
    **_written("is_vulkan_available compiled_with_cxx11_abi", "kernels are OpenCL C; there is no such build"),
    **_written("thread_safe_generator", "a worker of a data loader has its own order; write netcl.Generator()"),
    **_written(
        """
        Storage StorageBase BFloat16Storage BoolStorage ByteStorage CharStorage DoubleStorage FloatStorage
        HalfStorage IntStorage LongStorage ShortStorage
        """,
        "write netcl.FloatTensor or another type, or x.untyped_storage()",
    ),
    **_written("ComplexDoubleStorage ComplexFloatStorage", _COMPLEX),
    **_written("QInt32Storage QInt8Storage QUInt2x4Storage QUInt4x2Storage QUInt8Storage", _QUANTIZED),
    **_written("cond while_loop", "write Python's if and while; a captured step repeats what it recorded"),
    **_written("fork wait", "write threading.Thread"),
}


class AbsentMember:
    """A member of Tensor that raises AttributeError with the reason of ``ABSENT``.

    A descriptor per name, as ``__getattr__`` of a class slows down every access to its attributes.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, tensor: object, kind: type | None = None) -> NoReturn:
        raise AttributeError(f"Tensor has no {self._name!r}: {ABSENT[self._name]}")
