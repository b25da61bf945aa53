"""Coroutines and the threads of an event loop: calls, gradients and captured steps have the results of plain calls."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor
from netcl.core.device import device
from netcl.runtime.capture import capture

pytestmark = pytest.mark.usefixtures("handle")


def inputs(count: int) -> list[Any]:
    return [np.random.default_rng(n).standard_normal((8, 8)).astype(np.float32) for n in range(count)]


def expected(x: Any) -> Any:
    return np.maximum(x @ x, 0) + x


def calls(x: Any) -> Any:
    t = Tensor.from_host(x)
    return ops.relu(ops.matmul(t, t)) + t


def test_coroutines_that_take_turns() -> None:
    async def one(x: Any) -> Any:
        t = Tensor.from_host(x)
        await asyncio.sleep(0)
        product = ops.matmul(t, t)
        await asyncio.sleep(0)
        result = ops.relu(product) + t
        await asyncio.sleep(0)
        return result.to_host()

    async def main() -> list[Any]:
        return await asyncio.gather(*map(one, inputs(20)))

    for x, found in zip(inputs(20), asyncio.run(main())):
        np.testing.assert_allclose(found, expected(x), rtol=1e-5, atol=1e-5)


def test_calls_in_an_executor(handle: Any) -> None:
    """Its threads have the default device, so they name theirs."""

    def one(x: Any) -> Any:
        with device(handle):
            return calls(x).to_host()

    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(3) as pool:
            return await asyncio.gather(*(loop.run_in_executor(pool, one, x) for x in inputs(20)))

    for x, found in zip(inputs(20), asyncio.run(main())):
        np.testing.assert_allclose(found, expected(x), rtol=1e-5, atol=1e-5)


def test_a_step_captured_in_a_coroutine_is_replayed_in_others_and_in_an_executor(handle: Any) -> None:
    def step(t: Any) -> Any:
        return ops.relu(ops.matmul(t, t)) + t

    async def main() -> list[Any]:
        captured = capture(step, Tensor.from_host(inputs(1)[0]))

        async def replayed(x: Any) -> Any:
            await asyncio.sleep(0)
            result = captured.replay(Tensor.from_host(x))
            await asyncio.sleep(0)  # the replays of others must not change it
            return result.to_host()

        def in_thread(x: Any) -> Any:
            with device(handle):
                return captured.replay(Tensor.from_host(x)).to_host()

        here = await asyncio.gather(*map(replayed, inputs(10)))
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(3) as pool:
            there = await asyncio.gather(*(loop.run_in_executor(pool, in_thread, x) for x in inputs(10)))
        return [*here, *there]

    for x, found in zip(inputs(10) * 2, asyncio.run(main())):
        assert found.tobytes() == calls(x).to_host().tobytes()
