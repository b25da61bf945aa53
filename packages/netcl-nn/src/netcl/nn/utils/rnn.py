"""Packed and padded sequences under PyTorch's name."""

from __future__ import annotations

from netcl.nn.packed import PackedSequence as PackedSequence
from netcl.nn.packed import invert_permutation as invert_permutation
from netcl.nn.packed import pack_padded_sequence as pack_padded_sequence
from netcl.nn.packed import pack_sequence as pack_sequence
from netcl.nn.packed import pad_packed_sequence as pad_packed_sequence
from netcl.nn.packed import pad_sequence as pad_sequence
from netcl.nn.packed import unpack_sequence as unpack_sequence
from netcl.nn.packed import unpad_sequence as unpad_sequence
