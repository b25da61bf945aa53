"""The number of layers of a module is bounded."""

from __future__ import annotations

import pytest

from netcl import nn


@pytest.mark.parametrize("count", [2**31, 10**30, 0, -1])
def test_the_number_of_layers_is_bounded(count):
    for make in (nn.RNN, nn.GRU, nn.LSTM):
        with pytest.raises(ValueError, match=f"num_layers must be from 1 to 4096, got {count}"):
            make(2, 2, count)
    with pytest.raises(ValueError, match="num_layers must be from 1 to 4096"):
        nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2), count)
