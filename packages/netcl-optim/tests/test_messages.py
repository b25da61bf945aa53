"""Messages of an optimizer about arguments under other names and of other kinds."""

from __future__ import annotations

import traceback

import numpy as np
import pytest

from netcl import nn, optim


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate": 0.1}, r"Adam takes no learning_rate; write lr="),
        ({"beta1": 0.9}, r"Adam takes no beta1; write betas="),
        ({"epsilon": 1e-8}, r"Adam takes no epsilon; write eps="),
        ({"l2": 0.1}, r"Adam takes no l2; write weight_decay="),
        ({"nonsense": 1}, r"unexpected keyword argument 'nonsense'"),
        ({"lr": "0.1"}, r"Adam: expected a number as lr, got the string '0.1'"),
        ({"weight_decay": "a"}, r"Adam: expected a number as weight_decay, got the string 'a'"),
    ],
)
def test_options(parameter, options, message) -> None:
    with pytest.raises(TypeError, match=message):
        optim.Adam([parameter(np.ones(2))], **options)


def test_an_option_of_a_group(parameter) -> None:
    with pytest.raises(TypeError, match="SGD: expected a number as momentum, got the string '0.9'"):
        optim.SGD([{"params": [parameter(np.ones(2))], "momentum": "0.9"}], lr=0.1)
    optimizer = optim.SGD([parameter(np.ones(2))], lr=0.1)
    with pytest.raises(TypeError, match="SGD: expected a number as lr"):
        optimizer.add_param_group({"params": [parameter(np.ones(3))], "lr": "1"})


def test_a_subclass_may_take_any_name(parameter) -> None:
    class Mine(optim.SGD):
        def __init__(self, params, learning_rate: float) -> None:
            super().__init__(params, lr=learning_rate)

    assert Mine([parameter(np.ones(2))], learning_rate=0.5).param_groups[0]["lr"] == 0.5


def test_params_of_another_kind(parameter) -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(TypeError, match=r"params is a Linear; give its parameters\(\)"):
        optim.SGD(model, lr=0.1)
    with pytest.raises(TypeError, match=r"params is a mapping; give its values\(\)"):
        optim.SGD(model.state_dict(), lr=0.1)


def test_errors_are_raised_close_to_the_caller(parameter) -> None:
    with pytest.raises(ValueError, match="expected lr of at least 0, got -1") as caught:
        optim.SGD([parameter(np.ones(2))], lr=-1)
    assert len(traceback.extract_tb(caught.value.__traceback__)) <= 4
