"""A bounded set of kernels for `nox -s oclgrind`: each on the simulator and on NumPy, in sizes that leave tails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from netcl import ops
from netcl.core import Tensor
from netcl.core.device import device

RNG = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def convolution_gradients(x: Any, weight: Any, grad: Any) -> list[Any]:
    return [
        ops.conv2d_grad_input(grad, weight, x.shape, padding=1),
        ops.conv2d_grad_weight(x, grad, weight.shape, padding=1),
    ]


# name: (computation, inputs)
CASES: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "add with a tail": (ops.add, [normal(37), normal(37)]),
    "add with broadcasting": (ops.add, [normal(3, 1, 5), normal(4, 1)]),
    "gelu": (ops.gelu, [normal(19)]),
    "sum over everything": (lambda x: ops.sum(x), [normal(7, 61)]),
    "sum over the middle": (lambda x: ops.sum(x, axis=1), [normal(3, 17, 5)]),
    "max over rows": (lambda x: ops.max(x, axis=-1), [normal(5, 33)]),
    "softmax": (ops.softmax, [normal(5, 33)]),
    "matmul of odd sides": (ops.matmul, [normal(17, 9), normal(9, 13)]),
    "matmul in batches": (ops.matmul, [normal(2, 5, 7), normal(2, 7, 3)]),
    "conv2d": (lambda x, w: ops.conv2d(x, w, padding=1), [normal(2, 3, 7, 6), normal(4, 3, 3, 3)]),
    "conv2d gradients": (convolution_gradients, [normal(2, 3, 7, 6), normal(4, 3, 3, 3), normal(2, 4, 7, 6)]),
    "max_pool2d": (lambda x: ops.max_pool2d(x, 2), [normal(2, 3, 7, 6)]),
    "avg_pool2d": (lambda x: ops.avg_pool2d(x, 3, stride=2, padding=1), [normal(2, 3, 7, 6)]),
    "transpose": (lambda x: ops.permute(x, (2, 0, 1)), [normal(3, 4, 5)]),
    "cat": (lambda a, b: ops.cat([a, b], axis=1), [normal(3, 4), normal(3, 2)]),
}


def run(computation: Callable[..., Any], inputs: list[np.ndarray], selector: str) -> list[np.ndarray]:
    """The outputs of one case on one device, as arrays."""
    with device(selector):
        out = computation(*(Tensor.from_host(array) for array in inputs))
        return [tensor.to_host() for tensor in (out if isinstance(out, list) else [out])]


def main() -> None:
    for name, (computation, inputs) in CASES.items():
        for simulated, exact in zip(run(computation, inputs, "oclgrind"), run(computation, inputs, "cpu"), strict=True):
            np.testing.assert_allclose(simulated, exact, rtol=1e-4, atol=1e-5, err_msg=name)
        print(f"{name}: well", flush=True)


if __name__ == "__main__":
    main()
