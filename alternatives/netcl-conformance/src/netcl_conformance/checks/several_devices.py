"""Level several-devices: handles, copies between devices, and ops that refuse two of them."""

from __future__ import annotations

import netcl.ops as ops
from netcl.core import Tensor, manager
from netcl.core.device import device
from netcl.core.errors import BackendMismatchError
from netcl_conformance.checks.tensor import raises
from netcl_conformance.registry import LeftOut, check


@check("several-devices")
def tensors_are_copied_between_devices() -> None:
    handles = list(manager.select())
    cpu = manager.default("cpu")
    others = [one for one in handles if one.queue is not cpu.queue]
    if not others:
        raise LeftOut("this machine has one device")
    other = others[0]
    with device(cpu):
        a = Tensor.from_host([1.0, 2.0])
    b = a.to(other)
    assert b.queue is other.queue
    assert b.engine is not a.engine
    assert b.tolist() == [1, 2]
    assert b.to(cpu).queue is cpu.queue
    assert b.cpu().tolist() == [1, 2]
    raises(BackendMismatchError, ops.add, a, b)
    with device(other):
        assert Tensor.zeros((1,)).queue is other.queue
        with device(cpu):
            assert Tensor.zeros((1,)).queue is cpu.queue
        assert Tensor.zeros((1,)).queue is other.queue
