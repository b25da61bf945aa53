"""Pruning: parameters of modules with a mask of zeros and ones, which each forward pass applies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from numbers import Integral, Real
from typing import Any, ClassVar, TypeVar, cast

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.nn.module import Module

M = TypeVar("M", bound=Module)


class BasePruningMethod(ABC):
    """The base class of pruning methods: a forward pre-hook that sets the pruned tensor to ``mask * original``.

    A subclass defines ``compute_mask`` and sets ``PRUNING_TYPE``: "unstructured" (it chooses elements),
    "structured" (slices along its ``dim``) or "global" (it is given all elements).
    """

    PRUNING_TYPE: ClassVar[str]
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Returns the mask of ``t``, of its shape, with 0 for what is pruned, on top of ``default_mask``."""

    def apply_mask(self, module: Module) -> Tensor:
        """Returns ``<name>_mask * <name>_orig`` of the module."""
        mask, original = getattr(module, f"{self._tensor_name}_mask"), getattr(module, f"{self._tensor_name}_orig")
        return ag.mul(mask.astype(original.dtype), original)

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> Any:
        """Prunes ``module.<name>`` by this method, made of the other arguments, and returns the method.

        The parameter becomes ``<name>_orig``, the mask the buffer ``<name>_mask``, and ``<name>`` their product. A
        method on a tensor that is pruned already prunes what is left; both are then in a PruningContainer.
        ``importance_scores``, of the shape of the tensor, are given to ``compute_mask`` in its place. Raises ValueError
        if they have another shape, AttributeError if there is no parameter of that name.
        """
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        old = [(key, hook) for key, hook in module._forward_pre_hooks.items() if _prunes(hook, name)]
        if not old and module._parameters.get(name) is None:
            raise AttributeError(f"{type(module).__name__} has no parameter {name!r}")
        tensor = getattr(module, name)
        if importance_scores is not None and importance_scores.shape != tensor.shape:
            raise ValueError(f"importance_scores have the shape {importance_scores.shape}, {name!r} has {tensor.shape}")
        scores = (tensor if importance_scores is None else importance_scores).detach()
        for _, hook in old:
            container = hook if isinstance(hook, PruningContainer) else PruningContainer(hook)
            container.add_pruning_method(method)
            method = container
        with ag.no_grad():
            default = getattr(module, f"{name}_mask").clone() if old else _ones(tensor)
            mask = method.compute_mask(scores, default_mask=default)
        for key, _ in old:
            del module._forward_pre_hooks[key]
        if not old:
            original: Any = module._parameters.pop(name)
            module.register_parameter(f"{name}_orig", original)
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """Returns ``t`` with zeros where the mask of ``importance_scores``, or of ``t``, has them."""
        if importance_scores is not None and importance_scores.shape != t.shape:
            raise ValueError(f"importance_scores have the shape {importance_scores.shape}, the tensor has {t.shape}")
        scores = (t if importance_scores is None else importance_scores).detach()
        with ag.no_grad():
            mask = self.compute_mask(scores, default_mask=_ones(t) if default_mask is None else default_mask)
        return ag.mul(t, mask.astype(t.dtype))

    def remove(self, module: Module) -> None:
        """Makes the pruned values the values of the parameter ``<name>``, without mask and original."""
        name = self._tensor_name
        with ag.no_grad():
            value = self.apply_mask(module)
        module.__dict__.pop(name, None)
        original: Any = module._parameters.pop(f"{name}_orig")
        del module._buffers[f"{name}_mask"]
        original.data = value.detach()
        module.register_parameter(name, original)


def _prunes(hook: Any, name: str | None = None) -> bool:
    return isinstance(hook, BasePruningMethod) and name in (None, hook._tensor_name)


def _ones(like: Tensor) -> Tensor:
    return Tensor.full(like.shape, 1.0, like.dtype, queue=like.queue)


def _vector(tensors: list[Tensor]) -> Tensor:
    return ag.cat([ag.reshape(t, (t.size,)) for t in tensors], axis=0)


class PruningContainer(BasePruningMethod):
    """Pruning methods of one tensor; each prunes the values that the methods before it left."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        methods = args if len(args) != 1 or not isinstance(args[0], Iterable) else tuple(args[0])
        if len(methods) == 1 and isinstance(methods[0], BasePruningMethod):
            self._tensor_name = methods[0]._tensor_name
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Adds a method; raises TypeError for something else, ValueError for a method of another tensor."""
        if method is None:
            return
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"expected a BasePruningMethod, got {type(method).__name__}")
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                f"the container prunes {self._tensor_name!r}, and the method to be added {method._tensor_name!r}"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Returns the mask of the last method over the elements, or slices, that ``default_mask`` has not pruned."""
        method: Any = self._pruning_methods[-1]
        place: Any = (slice(None),) * t.ndim
        if method.PRUNING_TYPE == "unstructured":
            place = default_mask == 1
        elif method.PRUNING_TYPE == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError("a structured pruning method has a `dim`, along which it prunes")
            dim = _axis(method.dim, t)
            others = [axis for axis in range(t.ndim) if axis != dim]
            kept: Tensor = default_mask.sum(dim=others) != 0
            place = (*place[:dim], kept, *place[dim + 1 :])
        elif method.PRUNING_TYPE != "global":
            raise ValueError(
                f"PRUNING_TYPE: expected 'unstructured', 'structured' or 'global', got {method.PRUNING_TYPE!r}"
            )
        mask = default_mask.astype(t.dtype).clone()
        mask[place] = method.compute_mask(t[place], default_mask=default_mask[place]).astype(t.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing: a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Returns ``default_mask``."""
        return default_mask


class _ByAmount(BasePruningMethod):
    """A method with an ``amount``: an int is a number of elements or slices, a float in [0, 1] a part of them."""

    def __init__(self, amount: int | float) -> None:
        if not isinstance(cast(Any, amount), Real):
            raise TypeError(f"amount to prune: expected a number, got {amount!r}")
        if amount < 0 or (not _is_count(amount) and amount > 1):
            raise ValueError(f"amount to prune: expected an int of at least 0 or a float in [0, 1], got {amount!r}")
        self.amount: int | float = amount

    def _count(self, size: int) -> int:
        """Returns the number of elements to prune out of ``size``."""
        if not _is_count(self.amount):
            return round(self.amount * size)
        if self.amount > size:
            raise ValueError(f"amount={self.amount} is more than the {size} that there are to prune")
        return int(self.amount)


def _is_count(amount: Any) -> bool:
    return isinstance(amount, Integral)


class _Elements(_ByAmount):
    PRUNING_TYPE = "unstructured"

    @abstractmethod
    def _scores(self, t: Tensor) -> Tensor:
        """Returns the number of each element; the lowest are pruned."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Returns ``default_mask`` with 0 for the elements of the lowest scores."""
        count, mask = self._count(t.size), default_mask.clone().reshape(-1)
        if count:
            _, lowest = ag.topk(self._scores(t).reshape(-1), count, largest=False)
            mask[lowest] = 0
        return mask.reshape(t.shape)


class RandomUnstructured(_Elements):
    """Prunes ``amount`` random elements."""

    def _scores(self, t: Tensor) -> Tensor:
        return ag.neg(_random(t.shape, t.dtype, t))  # PyTorch prunes the largest numbers

    @classmethod
    def apply(cls, module: Module, name: str, amount: int | float) -> RandomUnstructured:  # type: ignore[override]
        """Prunes ``amount`` random elements of ``module.<name>`` and returns the method."""
        return super().apply(module, name, amount=amount)  # type: ignore[no-any-return]


class L1Unstructured(_Elements):
    """Prunes the ``amount`` of elements of the lowest magnitudes."""

    def _scores(self, t: Tensor) -> Tensor:
        return ag.abs(t)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: int | float, importance_scores: Tensor | None = None
    ) -> L1Unstructured:
        """Prunes the ``amount`` of elements of ``module.<name>`` of the lowest scores and returns the method."""
        return super().apply(  # type: ignore[no-any-return]
            module, name, amount=amount, importance_scores=importance_scores
        )


class _Slices(_ByAmount):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: int | float, dim: int) -> None:
        super().__init__(amount)
        self.dim: int = dim

    @abstractmethod
    def _kept(self, t: Tensor, count: int) -> Tensor:
        """Returns the slices to keep: their indices, or True for each of them."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Returns ``default_mask`` with 0 for the slices along ``dim`` that are pruned."""
        if t.ndim <= 1:
            raise ValueError(f"structured pruning: expected a tensor of at least two axes, got {t.shape}")
        dim = _axis(self.dim, t)
        count = self._count(t.shape[dim])
        if not count:
            return default_mask
        mask = Tensor.full(t.shape, 0.0, t.dtype, queue=t.queue)
        place: Any = (*(slice(None),) * dim, self._kept(t, count))
        mask[place] = 1
        return ag.mul(mask, default_mask.astype(mask.dtype))


class RandomStructured(_Slices):
    """Prunes ``amount`` random slices along ``dim``."""

    def __init__(self, amount: int | float, dim: int = -1) -> None:
        super().__init__(amount, dim)

    def _kept(self, t: Tensor, count: int) -> Tensor:
        scores = _random((t.shape[_axis(self.dim, t)],), "float32", t)
        lowest, _ = ag.topk(scores, count, largest=False)
        return scores > lowest[count - 1]

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: int | float, dim: int = -1
    ) -> RandomStructured:
        """Prunes ``amount`` random slices of ``module.<name>`` along ``dim`` and returns the method."""
        return super().apply(module, name, amount=amount, dim=dim)  # type: ignore[no-any-return]


class LnStructured(_Slices):
    """Prunes the ``amount`` of slices along ``dim`` of the lowest ``n``-norms; ``n`` as for ``Tensor.norm``."""

    def __init__(self, amount: int | float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n: Any = n

    def _kept(self, t: Tensor, count: int) -> Tensor:
        dim = _axis(self.dim, t)
        norms = ag.norm(t, self.n, tuple(axis for axis in range(t.ndim) if axis != dim))
        _, highest = ag.topk(norms, t.shape[dim] - count)
        return highest

    @classmethod
    def apply(  # type: ignore[override]
        cls,
        module: Module,
        name: str,
        amount: int | float,
        n: Any,
        dim: int,
        importance_scores: Tensor | None = None,
    ) -> LnStructured:
        """Prunes the ``amount`` of slices of ``module.<name>`` along ``dim`` of the lowest ``n``-norms and returns the
        method.
        """
        return super().apply(  # type: ignore[no-any-return]
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """Prunes what a given mask has as 0."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask: Tensor = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Returns ``default_mask * mask``."""
        if default_mask.shape != self.mask.shape:
            raise ValueError(f"the mask has the shape {self.mask.shape}, the tensor {default_mask.shape}")
        return ag.mul(default_mask, self.mask.astype(default_mask.dtype))

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> CustomFromMask:  # type: ignore[override]
        """Prunes ``module.<name>`` by ``mask`` and returns the method."""
        return super().apply(module, name, mask=mask)  # type: ignore[no-any-return]


def _random(shape: tuple[int, ...], dtype: str, like: Tensor) -> Tensor:
    """Returns uniform numbers in [0, 1)."""
    numbers: Tensor = Tensor.full(shape, 0.0, dtype, queue=like.queue).uniform_()
    return numbers


def _axis(dim: int, t: Tensor) -> int:
    if not -t.ndim <= dim < t.ndim:
        raise IndexError(f"there is no axis {dim} in a tensor of the shape {t.shape}")
    return dim % t.ndim


def identity(module: M, name: str) -> M:
    """Gives ``module.<name>`` a mask of ones and returns the module. Raises AttributeError if there is no such
    parameter.
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: int | float) -> M:
    """Prunes ``amount`` random elements of ``module.<name>``, an int or a part in [0, 1], and returns the module.

    Raises TypeError for an amount that is no number, ValueError for one below 0 or above what there is to prune,
    AttributeError if there is no such parameter, as the functions below do.
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: M, name: str, amount: int | float, importance_scores: Tensor | None = None) -> M:
    """Prunes the ``amount`` of elements of ``module.<name>`` of the lowest magnitudes, or of the lowest magnitudes of
    ``importance_scores``, of the shape of the parameter, and returns the module.
    """
    L1Unstructured.apply(module, name, amount, importance_scores)
    return module


def random_structured(module: M, name: str, amount: int | float, dim: int) -> M:
    """Prunes ``amount`` random slices of ``module.<name>`` along ``dim`` and returns the module.

    Raises ValueError for a parameter of less than two axes, IndexError for an axis that it lacks.
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: M, name: str, amount: int | float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> M:
    """Prunes the ``amount`` of slices of ``module.<name>`` along ``dim`` of the lowest ``n``-norms, of the parameter or
    of ``importance_scores`` in its shape, and returns the module. Raises what ``random_structured`` raises.
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores)
    return module


def custom_from_mask(module: M, name: str, mask: Tensor) -> M:
    """Prunes what ``mask``, zeros and ones in the shape of the parameter, has as 0 of ``module.<name>`` and returns the
    module. Raises ValueError for another shape.
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: Mapping[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prunes the tensors of all pairs (module, name) together: the method, made of ``kwargs``, chooses among the
    elements of all.

    Raises TypeError if the method is not unstructured.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError(f"global_unstructured: expected pairs (module, name), got {type(parameters).__name__}")
    pairs = list(parameters)
    importances = {} if importance_scores is None else importance_scores
    if not isinstance(importances, Mapping):
        raise TypeError("global_unstructured: importance_scores is a dict by (module, name), or None")
    method: Any = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(f"global_unstructured takes an unstructured method, and {pruning_method.__name__} is not one")
    tensors = [getattr(module, name).detach() for module, name in pairs]
    with ag.no_grad():
        scores = _vector([importances.get(pair, tensor).detach() for pair, tensor in zip(pairs, tensors)])
        masks = [getattr(m, f"{name}_mask", None) for m, name in pairs]
        default = _vector([_ones(t) if mask is None else mask for t, mask in zip(tensors, masks)])
        mask = PruningContainer(method).compute_mask(scores, default)
        start = 0
        parts = []
        for tensor in tensors:
            parts.append(mask[start : start + tensor.size].reshape(tensor.shape))
            start += tensor.size
    for (module, name), part in zip(pairs, parts):
        custom_from_mask(module, name, part)


def remove(module: M, name: str) -> M:
    """Makes the pruned values of ``module.<name>`` its parameter, without a mask, and returns the module.

    Raises ValueError if the tensor is not pruned.
    """
    for key, hook in module._forward_pre_hooks.items():
        if _prunes(hook, name):
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def pruned_names(module: Module) -> list[str]:
    """Returns the names of the tensors of this module that are pruned."""
    return [hook._tensor_name for hook in module._forward_pre_hooks.values() if _prunes(hook)]


def is_pruned(module: Module) -> bool:
    """Returns True if a tensor of the module, or of one below it, is pruned."""
    return any(pruned_names(part) for part in module.modules())
