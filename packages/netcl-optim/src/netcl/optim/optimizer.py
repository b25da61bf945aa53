"""Optimizer: parameter groups, state in PyTorch's layout, and the step that applies a rule."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import netcl.autograd as ag
from netcl.autograd.prediction import changes_gradients, force
from netcl.core import Tensor
from netcl.core.dtypes import canonical, is_floating
from netcl.core.errors import ShapeError, UnsupportedError, from_here, shorten_traceback
from netcl.optim.clip import clipping
from netcl.optim.fused import (
    CLIP,
    FOUND,
    MASTER,
    SCALE,
    Bucket,
    DeviceHyperparameters,
    Rule,
    compute_dtype,
    state_shape,
    states_of,
)
from netcl.optim.hooks import Hooks, RemovableHandle, has_step_hooks, watched

# A parameter, its running scalars and its states, as read from a state_dict.
Entry = tuple[Tensor, dict[str, float], dict[str, Any]]

# Names of other libraries for options.
_OTHER_NAMES = {
    **dict.fromkeys(("learning_rate", "step_size", "eta"), "lr=..."),
    **dict.fromkeys(("beta1", "beta2", "beta_1", "beta_2", "b1", "b2"), "betas=(beta1, beta2), or momentum=... of SGD"),
    "epsilon": "eps=...",
    **dict.fromkeys(("decay", "l2"), "weight_decay=..."),
    **dict.fromkeys(("parameters", "model"), "params=model.parameters()"),
    "clipnorm": "netcl.optim.clip_grad_norm(params, max_norm) before step()",
}


class ParamGroup(dict[str, Any]):
    """The options of a parameter group; a new value is written to the device at once, so that replays of a captured
    step use it.
    """

    def __init__(
        self, values: Mapping[str, Any], check: Callable[[Mapping[str, Any]], None], send: Callable[[ParamGroup], None]
    ) -> None:
        super().__init__(values)
        self._check, self._send = check, send

    def __setitem__(self, key: str, value: Any) -> None:
        self.update({key: value})

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Updates as ``dict.update``; checks the values first and writes them to the device at the end."""
        new = dict(*args, **kwargs)
        self._check({**self, **new})
        force(self["params"])  # a step with the present values may be predicted
        super().update(new)
        self._send(self)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Sets as ``dict.setdefault``, by ``update``."""
        if key not in self:
            self.update({key: default})
        return self[key]


class Optimizer:
    """Updates parameters by their gradients; a parameter with ``grad`` None is skipped.

    ``params``: Parameters, or dicts ``{"params": [...], option: value}`` that override the defaults for a group. A
    subclass defines ``rule(group)``, the form of its kernel, and ``numbers(group)``, the values that are written to the
    device; or, as for PyTorch, ``step`` alone, which stores its values in ``state[p]``, a dict for each parameter.
    Raises ValueError if there is no parameter, one is given twice or is not a leaf, or an option is invalid.

    The first step, of Adagrad the constructor, creates the states, on the device of each parameter and in persistent
    storage. If ``found_inf`` is set to a 0-d float32 tensor, a step changes nothing while that is not zero, without a
    host read. ``grad_scale``, another such tensor, divides the gradients in the rule's compute dtype, in the pass that
    updates.
    """

    _is_own: ClassVar[bool] = True  # False for a class of the program
    _clip: Tensor | None = None  # the factor that the next step clips by

    if not TYPE_CHECKING:

        def __new__(cls, *args: Any, **options: Any) -> Any:
            """Raises TypeError for an option under another library's name, and says which it is here."""
            for name in _OTHER_NAMES.keys() & options.keys():
                known = inspect.signature(cls).parameters
                if name not in known and not any(
                    parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()
                ):
                    raise TypeError(f"{cls.__name__} takes no {name}; write {_OTHER_NAMES[name]}")
            return super().__new__(cls)

        def __init_subclass__(cls, **options: Any) -> None:
            super().__init_subclass__(**options)
            cls._is_own = cls.__module__.startswith("netcl.")
            if "__init__" in vars(cls) and cls.__module__.startswith("netcl."):
                cls.__init__ = from_here(vars(cls)["__init__"])
            if "step" in vars(cls):
                cls.step = watched(vars(cls)["step"])

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, Any]) -> None:
        self.defaults: dict[str, Any] = dict(defaults)
        self.param_groups: list[ParamGroup] = []
        self.found_inf: Tensor | None = None
        self.grad_scale: Tensor | None = None
        self._buckets: list[list[Bucket]] = []
        self._bucketed: int = 0  # how often parameters with step counts were put in other buckets
        self._numbers: list[dict[tuple[int, str], DeviceHyperparameters]] = []
        self._states: dict[int, dict[str, Tensor]] = {}
        self._own_state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self._hooks = Hooks()
        if isinstance(params, Tensor):
            raise TypeError("params is an iterable of parameters or of groups; give [tensor], not the tensor itself")
        if isinstance(params, Mapping):
            raise TypeError("params is a mapping; give its values(), or [{'params': ...}] for a group")
        if callable(getattr(params, "parameters", None)):
            raise TypeError(f"params is a {type(params).__name__}; give its parameters(): model.parameters()")
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("the optimizer got no parameters")
        try:
            for group in groups if isinstance(groups[0], Mapping) else [{"params": groups}]:
                self.add_param_group(group)
        except Exception as error:
            shorten_traceback(error)
            raise

    # -- defined by subclasses -----------------------------------------------------------------------------------

    def rule(self, group: Mapping[str, Any]) -> Rule:
        """Returns the rule for the options of ``group``."""
        raise TypeError(f"{type(self).__name__} has no rule")

    def numbers(self, group: Mapping[str, Any]) -> dict[str, float]:
        """Returns the scalars that the rule reads, computed in double precision on the host."""
        return {"lr": float(group["lr"])}

    def check(self, group: Mapping[str, Any]) -> None:
        """Raises ValueError if an option of ``group`` is invalid."""
        require(group.get("lr", 0) >= 0, f"expected lr of at least 0, got {group.get('lr')}")
        require(
            group.get("weight_decay", 0) >= 0, f"expected weight_decay of at least 0, got {group.get('weight_decay')}"
        )
        self._check_forms(group)

    def _check_forms(self, group: Mapping[str, Any]) -> None:
        """Checks PyTorch's choices of an implementation. There is one here, which updates all tensors in a kernel and
        can be captured, so ``foreach``, ``fused`` and ``capturable`` change nothing; ``differentiable`` is refused.
        """
        if group.get("fused") and group.get("foreach"):
            raise RuntimeError("fused and foreach cannot both be True")
        if group.get("differentiable"):
            raise UnsupportedError(
                f"{type(self).__name__}: differentiable=True is not in netcl, as a step is not recorded; write the "
                "update with tensors: torch.autograd.grad(..., create_graph=True) gives its gradients"
            )

    def refuses_prediction(self, closure: Any = None) -> str | None:
        """Returns why a step cannot be computed later than it is called; None if it can: it calls no function of the
        program.
        """
        if closure is not None:
            return "a closure of an optimizer"
        if not self._is_own:
            return "an optimizer of the program"
        return "a hook of an optimizer" if has_step_hooks(self._hooks) else None

    # -- copies ------------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Returns the options, parameters and states, for pickle and deepcopy; derived values are made again."""
        made = ("_buckets", "_numbers", "_states", "_own_state", "_clip", "param_groups", "_predicted_places")
        state = {name: value for name, value in vars(self).items() if name not in made}
        return {"fields": state, "groups": [dict(group) for group in self.param_groups], "state": self.state_dict()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state["fields"])
        self.param_groups, self._buckets, self._numbers, self._states = [], [], [], {}
        self._clip = None
        self._own_state = defaultdict(dict)
        for group in state["groups"]:
            self.add_param_group(group)
        self.load_state_dict(state["state"])

    # -- groups ------------------------------------------------------------------------------------------------------

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Adds a group ``{"params": [...], option: value}``; missing options are the defaults. Pairs of a name and a
        parameter, as ``model.named_parameters()`` gives them, put the names in the group's ``param_names``.
        """
        values = {**self.defaults, **group}
        tensors = values["params"]
        values["params"] = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        if all(isinstance(item, tuple) and len(item) == 2 for item in values["params"]) and values["params"]:
            values = {"param_names": [name for name, _ in values["params"]], **values}
            values["params"] = [p for _, p in values["params"]]
        try:
            self.check(values)
        except TypeError:
            for name, value in values.items():
                if isinstance(value, str):
                    raise TypeError(
                        f"{type(self).__name__}: expected a number as {name}, got the string {value!r}"
                    ) from None
            raise
        known = {id(p) for other in self.param_groups for p in other["params"]}
        for p in values["params"]:
            if not isinstance(p, Tensor):
                raise TypeError(f"expected tensors as parameters, got {type(p).__name__}")
            if p.grad_fn is not None:
                raise ValueError(
                    f"an optimizer steps leaves; this tensor of shape {p.shape} is the result of an operation"
                )
            if id(p) in known:
                cure = "write list(dict.fromkeys(params)), which has each once; PyTorch steps it twice, and warns"
                raise ValueError(f"expected each parameter once, got one of shape {p.shape} twice; {cure}")
            known.add(id(p))
            compute_dtype(p.dtype)
        self.param_groups.append(ParamGroup(values, self.check, self._send))
        self._buckets.append([])
        self._numbers.append({})

    @property
    def lr(self) -> float:
        """The learning rate of the first group; setting it sets the rate of all groups."""
        return float(self.param_groups[0]["lr"])

    @lr.setter
    def lr(self, value: float) -> None:
        for group in self.param_groups:
            group["lr"] = value

    @property
    def state(self) -> dict[Tensor, dict[str, Any]]:
        """The states by parameter and name, as stored on the device; of an optimizer without a rule, the dicts that its
        ``step`` fills.
        """
        if not self._has_rule:
            return self._own_state
        return {p: self._states[id(p)] for group in self.param_groups for p in group["params"] if id(p) in self._states}

    @property
    def _has_rule(self) -> bool:
        return type(self).rule is not Optimizer.rule

    def _send(self, group: ParamGroup) -> None:
        for at, other in enumerate(self.param_groups):
            if other is group and self._numbers[at]:
                values = self.numbers(group)
                for numbers in self._numbers[at].values():
                    numbers.set(values)

    # -- stepping ------------------------------------------------------------------------------------------------------

    @changes_gradients
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients, or fills them with zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    p.grad.write(Tensor.zeros(p.grad.shape, p.grad.dtype, queue=p.grad.queue))

    @partial(watched, closure_first=True)
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Takes one step; ``closure`` recomputes the gradients and returns the loss, which is returned."""
        loss = None
        if closure is not None:
            with ag.enable_grad():
                loss = closure()
        named = ((FOUND, self.found_inf), (SCALE, self.grad_scale), (CLIP, self._clip))
        step_scalars = {name: tensor for name, tensor in named if tensor is not None}
        self._clip = None
        for at, group in enumerate(self.param_groups):
            for bucket in self._ready_buckets(at, group):
                self.update_bucket(bucket, group, step_scalars)
        return loss

    def update_bucket(self, bucket: Bucket, group: Mapping[str, Any], step_scalars: Mapping[str, Tensor]) -> None:
        """Updates the parameters of a bucket; a subclass with an update that is not one expression defines it."""
        rule = self.rule(group)
        bucket.advance(rule, step_scalars)
        bucket.update(rule, partial(self._states_of, rule=rule, group=group), step_scalars)

    def clip_grad_norm(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Makes the next ``step`` clip the gradients, as one vector, to the norm ``max_norm`` in the pass that updates;
        returns their norm as a 0-d tensor.

        For float32 the step is bit-identical to one after ``clip_grad_norm_device``; ``p.grad`` is not changed.
        """
        norm, self._clip = self._clipping(max_norm, norm_type)
        return norm

    @changes_gradients
    def _clipping(self, max_norm: float, norm_type: float) -> tuple[Tensor, Tensor | None]:
        return clipping([p for group in self.param_groups for p in group["params"]], max_norm, norm_type)

    def _take_clip(self) -> Tensor | None:
        """Returns the factor that the next step clips by, which no later step does; None without."""
        clip, self._clip = self._clip, None
        return clip

    def _ready_buckets(self, at: int, group: ParamGroup) -> list[Bucket]:
        """Returns the buckets with gradients of all parameters, after splitting the buckets with some gradients."""
        buckets, placed = self._buckets[at], {id(p) for bucket in self._buckets[at] for p in bucket.members}
        if len(placed) < len(group["params"]):
            self._add_buckets([p for p in group["params"] if id(p) not in placed and p.grad is not None], at, group)
        ready = []
        for bucket in list(buckets):
            without = [p for p in bucket.members if p.grad is None]
            if not without:
                ready.append(bucket)
            elif len(without) < len(bucket.members):
                buckets.append(bucket.split(without))
                ready.append(bucket)
                self._bucketed += bool(bucket.running)
        values = self.numbers(group)
        for numbers in self._numbers[at].values():
            numbers.set(values)
        return ready

    def _add_buckets(self, params: Sequence[Tensor], at: int, group: ParamGroup) -> list[Bucket]:
        """Adds buckets for parameters that have not been stepped yet, one per queue and compute dtype."""
        made: dict[tuple[int, str], Bucket] = {}
        for p in params:
            key = (id(p.queue), compute_dtype(p.dtype))
            if key not in self._numbers[at]:
                self._numbers[at][key] = DeviceHyperparameters(p.queue, key[1])
                self._numbers[at][key].set(self.numbers(group))
            made.setdefault(key, Bucket([], self._numbers[at][key])).members.append(p)
        self._buckets[at].extend(made.values())
        return list(made.values())

    def _make_states(self) -> None:
        """Makes the states of all parameters before their first step."""
        for at, group in enumerate(self.param_groups):
            rule = self.rule(group)
            for bucket in self._add_buckets(group["params"], at, group):
                bucket.set_running(rule.running)
            for p in group["params"]:
                self._states_of(p, rule, group)

    def initial_state(self, name: str, group: Mapping[str, Any]) -> float:
        """Returns the value that fills a new state."""
        return 0.0

    def _states_of(self, p: Tensor, rule: Rule, group: Mapping[str, Any]) -> list[Tensor]:
        states = self._states.setdefault(id(p), {})
        rule = rule.for_rank(len(p.shape))
        names = states_of(rule, p.dtype)
        for name in names:
            if name not in states:
                # A master copy that does not round to the parameter is ignored, so it may start as zeros.
                value, dtype = 0.0 if name == MASTER else self.initial_state(name, group), compute_dtype(p.dtype)
                shape = state_shape(rule, name, p.shape)
                states[name] = Tensor.full(shape, value, dtype, queue=p.queue, persistent=True)
        return list(map(states.__getitem__, names))

    # -- state
    # -----------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Returns ``{"state": {index: {name: T or number}}, "param_groups": [...]}`` in PyTorch's layout; tensors are
        not copied.
        """
        for hook in self._hooks.of("state_dict_pre"):
            hook(self)
        state_dict = self._state_dict()
        for hook in self._hooks.of("state_dict_post"):
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        return state_dict

    def _state_dict(self) -> dict[str, Any]:
        index = {id(p): at for at, p in enumerate(p for group in self.param_groups for p in group["params"])}
        state: dict[int, dict[str, Any]] = {}
        groups = []
        for group, buckets in zip(self.param_groups, self._buckets):
            for bucket in buckets:
                running = {name: tensor.item() for name, tensor in bucket.running.items()}
                for p in bucket.members:
                    entry = {**running, **self._states.get(id(p), {})}
                    if entry:
                        state[index[id(p)]] = entry
            groups.append({**group, "params": [index[id(p)] for p in group["params"]]})
        state.update({index[id(p)]: dict(entry) for p, entry in self._own_state.items() if id(p) in index})
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restores a state of ``state_dict``, also one of torch.optim; everything is checked before anything is
        written.

        Raises ValueError if the numbers of groups or parameters differ, ShapeError if the shape of a state differs.
        """
        for hook in self._hooks.of("load_state_dict_pre"):
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        for at, (group, entries) in enumerate(self.check_state_dict(state_dict)):
            self._take(at, group, entries)
        for hook in self._hooks.of("load_state_dict_post"):
            hook(self)

    def check_state_dict(self, state_dict: Mapping[str, Any]) -> list[tuple[dict[str, Any], list[Entry]]]:
        """Returns the values that ``load_state_dict`` would write, per group; raises as it does and writes nothing."""
        groups, state = state_dict["param_groups"], state_dict["state"]
        sizes, ours = [len(g["params"]) for g in groups], [len(g["params"]) for g in self.param_groups]
        if sizes != ours:
            raise ValueError(f"the state has groups of {sizes} parameters, the optimizer of {ours}")
        checked: list[tuple[dict[str, Any], list[Entry]]] = []
        for group, saved in zip(self.param_groups, groups):
            fresh = {**group, **saved, "params": group["params"]}
            self.check(fresh)
            entries = [(p, state[key]) for p, key in zip(fresh["params"], saved["params"]) if key in state]
            if not self._has_rule:
                checked.append((fresh, [(p, {}, dict(entry)) for p, entry in entries]))
                continue
            rule = self.rule(fresh)
            checked.append((fresh, [(p, *self._read(p, rule, fresh, entry)) for p, entry in entries if entry]))
        return checked

    def _read(
        self, p: Tensor, rule: Rule, group: Mapping[str, Any], entry: Mapping[str, Any]
    ) -> tuple[dict[str, float], dict[str, Any]]:
        """Returns the running scalars and the states of one parameter, checked."""
        running: dict[str, float] = {}
        for name, first in rule.running.items():
            # PyTorch's SGD has no step count; a parameter with a state has been stepped at least once.
            value = entry.get(name, 1.0 if name == "step" else first)
            running[name] = float(value.item() if hasattr(value, "item") else value)
        states: dict[str, Any] = {}
        rule = rule.for_rank(p.ndim)
        for name in states_of(rule, p.dtype):
            value = entry.get(name)
            if value is None:
                continue
            value = value if isinstance(value, Tensor) else np.asarray(value)
            if tuple(value.shape) != state_shape(rule, name, p.shape):
                raise ShapeError(
                    f"state {name!r} has shape {tuple(value.shape)}, its parameter {p.shape}", parameter=name
                )
            states[name] = value
        return running, states

    def _take(self, at: int, values: Mapping[str, Any], entries: Sequence[Entry]) -> None:
        group = self.param_groups[at]
        group.update({key: value for key, value in values.items() if key != "params"})
        if not self._has_rule:
            for p in group["params"]:
                self._own_state.pop(p, None)
            for p, _, entry in entries:
                self._own_state[p] = {name: _like(value, p, name) for name, value in entry.items()}
            return
        by_count: dict[Any, list[Tensor]] = {}
        for p, running, _ in entries:
            by_count.setdefault((id(p.queue), compute_dtype(p.dtype), *running.values()), []).append(p)
        counts = {id(p): running for p, running, _ in entries}
        kept = self._buckets[at]
        # Tensors that a captured step refers to must stay the same objects if only their values change.
        before = {frozenset(map(id, bucket.members)): bucket for bucket in kept}
        wanted = [frozenset(map(id, members)) for members in by_count.values()]
        if before.keys() != set(wanted):
            self._bucketed += any(bucket.running for bucket in kept)
            kept.clear()
            before.clear()
        rule = self.rule(group)
        for members, ids in zip(by_count.values(), wanted):
            for bucket in [before[ids]] if ids in before else self._add_buckets(members, at, group):
                bucket.set_running(counts[id(members[0])])
        for p in group["params"]:
            if id(p) not in counts and self._states.pop(id(p), {}):
                self._bucketed += 1  # the next step makes other tensors
        for p, _, states in entries:
            self._states_of(p, rule, group)
            for name, value in states.items():
                self._states[id(p)][name].write(value)

    # -- hooks -----------------------------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(optimizer, args, kwargs)`` before each step; a returned pair replaces args and kwargs."""
        return self._hooks.add("step_pre", hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(optimizer, args, kwargs)`` after each step."""
        return self._hooks.add("step_post", hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer)`` before ``state_dict`` reads the state."""
        return self._hooks.add("state_dict_pre", hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer, state_dict)`` at the end of ``state_dict``; a returned dict replaces the result."""
        return self._hooks.add("state_dict_post", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer, state_dict)`` before a state is loaded; a returned dict is loaded instead."""
        return self._hooks.add("load_state_dict_pre", hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer)`` after a state was loaded."""
        return self._hooks.add("load_state_dict_post", hook, prepend)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for at, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {at}")
            lines.extend(f"    {key}: {value}" for key, value in sorted(group.items()) if key != "params")
        return "\n".join([*lines, ")"])


def _like(value: Any, p: Tensor, name: str) -> Any:
    """Returns a value of a state as its parameter has it: arrays as tensors on its device, floating ones in its dtype,
    except the count ``step``.
    """
    if isinstance(value, (list, tuple)):
        return type(value)(_like(item, p, name) for item in value)
    if not (isinstance(value, (Tensor, np.ndarray)) or hasattr(value, "__array__")) or np.ndim(value) == 0:
        return value
    values = value if isinstance(value, Tensor) else np.asarray(value)
    dtype = p.dtype if is_floating(values.dtype) and name != "step" else canonical(values.dtype)
    return Tensor.empty(tuple(values.shape), dtype, queue=p.queue, persistent=True).write(values)


def require(holds: bool, message: str) -> None:
    """Raises ValueError with ``message`` if the condition is false."""
    if not holds:
        raise ValueError(message)


def check_betas(betas: Sequence[float]) -> None:
    """Raises ValueError if ``betas`` are not two numbers in [0, 1)."""
    require(
        len(betas) == 2 and all(0 <= beta < 1 for beta in betas), f"betas: expected two numbers in [0, 1), got {betas}"
    )
