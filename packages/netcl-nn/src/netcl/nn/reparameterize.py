"""Reparameterization of a layer's parameter: weight normalization and spectral normalization."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import from_here
from netcl.nn.module import Module
from netcl.nn.placement import new_buffer
from netcl.nn.pruning import identity, pruned_names

M = TypeVar("M", bound=Module)


class _Reparameterized:
    """A forward pre-hook that computes the attribute ``name`` from the tensors ``<name>_<part>``."""

    parts: ClassVar[tuple[str, ...]]

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, module: Module, args: Any) -> None:
        object.__setattr__(module, self.name, self.weight(module))

    def weight(self, module: Module) -> Tensor:
        """Returns the weight for the current parameters."""
        raise TypeError(f"{type(self).__name__} does not say its weight")

    def config(self) -> dict[str, Any]:
        """Returns the reparameterization's name, as ``by``, and its arguments, for the file of a model."""
        raise TypeError(f"{type(self).__name__} does not say its config")


def _taken(module: Module, name: str, what: str) -> ag.Parameter:
    """Removes the parameter ``name`` from the module and returns it; raises ValueError if there is none."""
    weight = module._parameters.get(name)
    if weight is None or not weight.ndim:
        raise ValueError(f"{what}: {type(module).__name__} has no parameter {name!r} with axes")
    del module._parameters[name]
    return weight


def _install(module: Module, hook: _Reparameterized, first: Tensor) -> None:
    """Adds the hook; until the first forward pass the attribute is ``first``."""
    module.register_forward_pre_hook(hook)
    object.__setattr__(module, hook.name, first.detach())


def _removed(module: M, name: str, kind: type[_Reparameterized], what: str) -> M:
    """Removes the hook for ``name`` and makes the current weight its parameter; raises ValueError if there is none."""
    hooks = module._forward_pre_hooks
    keys = [key for key, hook in hooks.items() if isinstance(hook, kind) and hook.name == name]
    if not keys:
        raise ValueError(f"{what}: the parameter {name!r} of {type(module).__name__} is not normalised")
    hook: Any = hooks.pop(keys[0])
    module.__dict__.pop(name, None)
    training, module.training = module.training, False
    with ag.no_grad():
        weight = hook.weight(module)
    module.training = training
    for part in kind.parts:
        delattr(module, f"{name}_{part}")
    value = Tensor.empty(weight.shape, weight.dtype, queue=weight.queue, persistent=True).write(weight.detach())
    module.register_parameter(name, ag.Parameter(value))
    return module


def norm_except(v: Tensor, dim: int | None) -> Tensor:
    """Returns the norms over all axes but ``dim``, over all for None."""
    axes = None if dim is None else tuple(axis for axis in range(v.ndim) if axis != dim % v.ndim)
    return ag.sqrt(ag.sum(ag.square(v), axis=axes, keepdims=dim is not None))


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """Returns the weight with the axis ``dim`` as rows and all others as columns."""
    if dim:
        weight = ag.permute(weight, [dim, *(axis for axis in range(weight.ndim) if axis != dim)])
    return ag.reshape(weight, (weight.shape[0], -1))


def unit(x: Tensor, eps: float) -> Tensor:
    """Returns the vector with norm one."""
    return ag.div(x, ag.maximum(ag.norm(x), eps))


# -- weight normalisation ----------------------------------------------------------------------------------------------


class _WeightNorm(_Reparameterized):
    parts = ("g", "v")

    def __init__(self, name: str, dim: int | None) -> None:
        super().__init__(name)
        self.dim = dim

    def config(self) -> dict[str, Any]:
        return {"by": "weight_norm", "name": self.name, "dim": self.dim}

    def weight(self, module: Module) -> Tensor:
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return ag.mul(v, ag.div(g, norm_except(v, self.dim)))


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Replaces the parameter ``name`` by w = g v / ||v|| (Salimans and Kingma 2016), and returns the module.

    The parameters ``name_g``, the norms over all axes but ``dim`` (over all with None), and ``name_v``, the previous
    value, replace it; w is computed before each forward pass. Raises ValueError if the module has no such parameter.
    """
    weight = _taken(module, name, "weight_norm")
    hook = _WeightNorm(name, dim)
    with ag.no_grad():
        norm = norm_except(weight, dim)
    g = Tensor.empty(norm.shape, norm.dtype, queue=norm.queue, persistent=True).write(norm)
    module.register_parameter(f"{name}_g", ag.Parameter(g, weight.requires_grad))
    module.register_parameter(f"{name}_v", weight)
    _install(module, hook, weight)  # g v / ||v|| is the weight itself
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Makes the current weight the parameter ``name`` again, and returns the module."""
    return _removed(module, name, _WeightNorm, "remove_weight_norm")


# -- spectral normalisation --------------------------------------------------------------------------------------------


class _SpectralNorm(_Reparameterized):
    parts = ("orig", "u", "v")

    def __init__(self, name: str, iterations: int, eps: float, dim: int) -> None:
        super().__init__(name)
        self.iterations, self.eps, self.dim = iterations, eps, dim

    def config(self) -> dict[str, Any]:
        options = {"n_power_iterations": self.iterations, "eps": self.eps, "dim": self.dim}
        return {"by": "spectral_norm", "name": self.name, **options}

    def iterate(self, matrix: Tensor, u: Tensor, v: Tensor, times: int) -> None:
        """Updates u and v in place by one power iteration towards the singular vectors of the largest singular
        value.
        """
        with ag.no_grad():
            for _ in range(times):
                v.write(unit(ag.matmul(u, matrix), self.eps))
                u.write(unit(ag.matmul(matrix, v), self.eps))

    def weight(self, module: Module) -> Tensor:
        original = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        matrix = as_matrix(original, self.dim)
        if module.training:
            self.iterate(matrix, u, v, self.iterations)
        # Copies: the next forward pass updates u and v in place, possibly before the backward pass of this one.
        sigma = ag.sum(ag.mul(ag.clone(u.detach()), ag.matmul(matrix, ag.clone(v.detach()))))
        return ag.div(original, sigma)


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Replaces the parameter ``name`` by w / sigma, sigma the largest singular value of w as a matrix (Miyato et al.
    2018), and returns the module.

    The parameter ``name_orig`` replaces it, with buffers ``name_u`` and ``name_v``, which are updated by
    ``n_power_iterations`` steps of the power method before each forward pass in training, from random vectors: sigma is
    exact after some passes only (``nn.utils.parametrizations.spectral_norm`` begins with 15 steps). ``dim`` becomes the
    rows of the matrix: 1 for transposed convolutions, else 0. Raises ValueError if the module has no such parameter.
    """
    if n_power_iterations < 1:
        raise ValueError(f"n_power_iterations={n_power_iterations} must be positive")
    transposed = hasattr(module, "output_padding")
    weight = _taken(module, name, "spectral_norm")
    hook = _SpectralNorm(name, n_power_iterations, eps, int(transposed) if dim is None else dim % weight.ndim)
    module.register_parameter(f"{name}_orig", weight)
    with ag.no_grad():
        matrix = as_matrix(weight, hook.dim)
        for part, length in zip("uv", matrix.shape):
            buffer: Any = new_buffer((length,), 0, weight.queue, weight.dtype)
            module.register_buffer(f"{name}_{part}", buffer.write(unit(buffer.normal_(), eps)))
    _install(module, hook, weight)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Makes the current weight the parameter ``name`` again, and returns the module."""
    return _removed(module, name, _SpectralNorm, "remove_spectral_norm")


# -- files -------------------------------------------------------------------------------------------------------------


def configs(module: Module) -> list[dict[str, Any]]:
    """Returns the reparameterizations of the module's parameters, as plain values."""
    hooks = module._forward_pre_hooks.values()
    configs = [hook.config() for hook in hooks if isinstance(hook, _Reparameterized)]
    return configs + [{"by": "pruning", "name": name} for name in pruned_names(module)]


def reapply(module: Module, config: Any) -> None:
    """Applies one of ``configs`` to a new module; raises ValueError if it is not valid."""
    # The mask of a pruned parameter is one of the file's arrays.
    known = {"weight_norm": weight_norm, "spectral_norm": spectral_norm, "pruning": identity}
    if not isinstance(config, Mapping) or config.get("by") not in known:
        raise ValueError(f"a config has no meaning for {config!r} as a normalised parameter")
    options = {key: value for key, value in config.items() if key != "by"}
    function: Any = known[config["by"]]
    try:
        function(module, **options)
    except (AttributeError, TypeError) as error:
        raise ValueError(f"a config of {config['by']} has other arguments: {error}") from None


from_here(globals())
