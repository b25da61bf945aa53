"""Recurrent layers: RNN, LSTM and GRU over sequences, multi-layer and bidirectional, and their cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.nn import init
from netcl.nn.layer_count import check_layers
from netcl.nn.module import Module, check_precision
from netcl.nn.packed import PackedSequence, padded, repacked
from netcl.nn.placement import new_parameter
from netcl.nn.unbind import unbind

State = tuple[Tensor, ...]  # (h,), for an LSTM (h, c)
Start = tuple[Any, ...]  # a State, or one with None for an h of zeros
Advance = Callable[[Tensor, Tensor, State], State]
Run = Callable[[Tensor, str, Start, bool], tuple[Tensor, State]]


def _lstm(x: Tensor, product: Tensor, state: State) -> State:
    return ag.lstm_gates(x, product, state[1])


def _gru(x: Tensor, product: Tensor, state: State) -> State:
    return (ag.gru_gates(x, product, state[0]),)


def _tanh(x: Tensor, product: Tensor, state: State) -> State:
    return (ag.elementwise_binary(x, product, "tanh(v0 + v1)"),)


def _relu(x: Tensor, product: Tensor, state: State) -> State:
    return (ag.elementwise_binary(x, product, "max(v0 + v1, 0)"),)


def _advance(mode: str) -> Advance:
    known = {"tanh": _tanh, "relu": _relu, "lstm": _lstm, "gru": _gru}
    if mode not in known:
        raise ValueError(f"nonlinearity: expected 'tanh' or 'relu', got {mode!r}")
    return known[mode]


class _Weights(Module):
    """Base class of cells and layers: sizes, and parameters initialized uniform in +-1/sqrt(hidden_size)."""

    gates: int = 1
    states: int = 1
    input_size: int
    hidden_size: int
    proj_size: int = 0
    bias: bool
    kernel: str

    @property
    def _width(self) -> int:
        """The length of h, or of its projection if there is one."""
        return self.proj_size or self.hidden_size

    def _add_weights(self, suffix: str, size: int, device: Any, dtype: Any) -> None:
        rows = self.gates * self.hidden_size
        for kind, columns in (("ih", size), ("hh", self._width)):
            self.register_parameter(f"weight_{kind}{suffix}", new_parameter((rows, columns), device, dtype))
        for kind in ("ih", "hh"):
            self.register_parameter(
                f"bias_{kind}{suffix}", new_parameter((rows,), device, dtype) if self.bias else None
            )
        if self.proj_size:
            shape = (self.proj_size, self.hidden_size)
            self.register_parameter(f"weight_hr{suffix}", new_parameter(shape, device, dtype))

    def reset_parameters(self) -> None:
        """Initializes the parameters again."""
        for parameter in self.parameters():
            init.uniform_around_zero_(parameter, 1 / math.sqrt(max(1, self.hidden_size)))

    def _products(self, x: Tensor, suffix: str) -> tuple[Tensor, Tensor, Tensor | None]:
        """Returns x (..., in) times its weight, (..., gates * hidden), the weight of the state and the remaining bias
        of the state.

        Both biases are added to the product of the inputs if they are only summed: only a GRU uses its second one
        separately.
        """
        bias, rest = getattr(self, f"bias_ih{suffix}"), getattr(self, f"bias_hh{suffix}")
        if bias is not None and self.kernel != "gru":
            bias, rest = ag.add(bias, rest), None
        product = ag.linear(x, getattr(self, f"weight_ih{suffix}"), bias)
        return product, getattr(self, f"weight_hh{suffix}"), rest

    def multiply_adds(self, x: Tensor, *rest: Any) -> int:
        """Returns the sum over positions and rows of the weights of the length of a row."""
        return (x.size // x.shape[-1]) * sum(p.size for p in self.parameters() if p.ndim == 2)

    def _zeros(self, shape: tuple[int, ...], x: Tensor) -> State:
        return (Tensor.zeros(shape, x.dtype, queue=x.queue),) * self.states

    def _given(self, hx: Any, shape: tuple[int, ...]) -> State:
        """Checks the initial states: h of ``shape`` and the length of h, c of ``shape`` and ``hidden_size``."""
        states = (hx,) if isinstance(hx, Tensor) else tuple(hx)
        shapes = [(*shape, self._width), (*shape, self.hidden_size)][: self.states]
        if [state.shape for state in states] != shapes:
            names = "h" if self.states == 1 else "(h, c)"
            raise ShapeError(
                f"{self!r}: expected {names} of shape {' and '.join(map(str, dict.fromkeys(shapes)))}, got "
                f"{' and '.join(str(s.shape) for s in states)}",
                op=type(self).__name__,
            )
        for state in states:
            check_precision(self, state, next(iter(self.parameters())))
        return states


# PyTorch's names of the recurrences: the name of the kernel, gates, states.
_MODES = {"RNN_TANH": ("tanh", 1, 1), "RNN_RELU": ("relu", 1, 1), "LSTM": ("lstm", 4, 2), "GRU": ("gru", 3, 1)}


class RNNBase(_Weights):
    """The base class of RNN, LSTM and GRU; ``mode`` is "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".

    Raises ValueError for another mode and for a ``proj_size`` that is negative, not below ``hidden_size`` or not of an
    LSTM.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if mode not in _MODES:
            raise ValueError(f"expected a mode of {', '.join(_MODES)}, got {mode!r}")
        if proj_size and mode != "LSTM":
            raise ValueError(f"{type(self).__name__}: only an LSTM has a projection; proj_size={proj_size}")
        if not 0 <= proj_size < max(hidden_size, 1):
            raise ValueError(f"expected proj_size 0, for none, or below hidden_size={hidden_size}, got {proj_size}")
        check_layers("num_layers", num_layers)
        if hidden_size < 1:
            raise ValueError(f"hidden_size={hidden_size} must be positive")
        if not 0 <= dropout <= 1:
            raise ValueError(f"expected a dropout probability in [0, 1], got {dropout}")
        self.kernel: str
        self.kernel, self.gates, self.states = _MODES[mode]
        self.input_size: int = input_size
        self.hidden_size: int = hidden_size
        self.num_layers: int = num_layers
        self.bias: bool = bias
        self.batch_first: bool = batch_first
        self.dropout: float = dropout
        self.bidirectional: bool = bidirectional
        self.mode: str = mode
        self.proj_size: int = proj_size
        for layer, suffix in self._runs():
            size = input_size if layer == 0 else self._width * (1 + bidirectional)
            self._add_weights(suffix, size, device, dtype)
        self.reset_parameters()

    def _runs(self) -> Iterator[tuple[int, str]]:
        """Yields layer and suffix of each pass over the sequence, in the order of the states."""
        for layer in range(self.num_layers):
            for direction in ("", "_reverse")[: 1 + self.bidirectional]:
                yield layer, f"_l{layer}{direction}"

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The parameters of each layer and direction: weight_ih, weight_hh, the biases if there are any, and the
        weight_hr of a projection.
        """
        kinds = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if self.bias else [])]
        kinds += ["weight_hr"] if self.proj_size else []
        return [[getattr(self, kind + suffix) for kind in kinds] for _, suffix in self._runs()]

    def flatten_parameters(self) -> None:
        """Does nothing: the kernels read each parameter from its own memory."""

    def _packed(self, packed: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        """Runs the layer on sequences of several lengths: each direction runs forward, over sequences that are
        reversed within their lengths for the other direction, and the final states are those at the lengths.
        """
        x, lengths = padded(packed)
        check_precision(self, x, next(iter(self.parameters())))
        steps, batch = x.shape[:2]
        count = self.num_layers * (1 + self.bidirectional)
        if hx is None:
            begins = [self._start(batch, x)] * count
        else:
            states = self._given(hx, (count, batch))
            if packed.sorted_indices is not None:
                states = tuple(ag.index_select(state, 1, packed.sorted_indices) for state in states)
            begins = list(zip(*map(unbind, states)))
        times, rows = np.arange(steps)[:, None], np.arange(batch)
        back = np.where(times < lengths, lengths - 1 - times, times) * batch + rows
        last = (lengths - 1) * batch + rows

        def at(value: Tensor, places: np.ndarray[Any, Any]) -> Tensor:
            flat = ag.reshape(value, (steps * batch, value.shape[2]))
            index = Tensor.from_host(x.queue, np.ascontiguousarray(places.reshape(-1)), dtype="int64")
            return ag.reshape(ag.index_select(flat, 0, index), (*places.shape, value.shape[2]))

        def run(x: Tensor, suffix: str, state: Start, reverse: bool) -> tuple[Tensor, State]:
            results = self._steps(at(x, back) if reverse else x, suffix, state, reverse=False)
            end = tuple(ag.unsqueeze(at(value, last), 0) for value in results)
            return at(results[0], back) if reverse else results[0], end

        x, final = self._stacked(x, begins, run)
        if packed.unsorted_indices is not None:
            final = tuple(ag.index_select(state, 1, packed.unsorted_indices) for state in final)
        result = repacked(x, packed)
        return result, final[0] if self.states == 1 else final

    def forward(self, x: Any, hx: Any = None) -> tuple[Any, Any]:
        """Returns x (T, N, in), (N, T, in) with ``batch_first``, or (T, in), and the initial states, (layers *
        directions, N, H) each, give the outputs of the last layer, (T, N, directions * H), and the final states.
        """
        if isinstance(x, PackedSequence):
            return self._packed(x, hx)
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size or not math.prod(x.shape[:-1]):
            axes = "(N, T, {})" if self.batch_first else "(T, N, {})"
            raise ShapeError(
                f"{self!r}: expected x {axes.format(self.input_size)} or (T, {self.input_size}), not empty, "
                f"got {x.shape}",
                op=type(self).__name__,
            )
        check_precision(self, x, next(iter(self.parameters())))
        single = x.ndim == 2
        if single:
            x = ag.unsqueeze(x, 1)
        elif self.batch_first:
            x = ag.transpose(x, 0, 1)
        count, batch = self.num_layers * (1 + self.bidirectional), x.shape[1]
        shape = (count,) if single else (count, batch)
        if hx is None:
            begins = [self._start(batch, x)] * count
        else:
            whole = (ag.reshape(state, (count, batch, state.shape[-1])) for state in self._given(hx, shape))
            begins = list(zip(*map(unbind, whole)))
        x, ends = self._stacked(x, begins, self._run)
        last = tuple(ag.reshape(state, (*shape, state.shape[-1])) for state in ends)
        if single:
            x = ag.squeeze(x, 1)
        elif self.batch_first:
            x = ag.transpose(x, 0, 1)
        return x, last[0] if self.states == 1 else last

    def _stacked(self, x: Tensor, begins: Sequence[Start], run: Run) -> tuple[Tensor, State]:
        """Returns the outputs of the last layer and the final states of all layers and directions, each computed by
        ``run(x, suffix, begin, reverse)``.
        """
        ends: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.training and self.dropout:
                x = ag.dropout(x, self.dropout)
            outputs = []
            for direction in range(1 + self.bidirectional):
                suffix = f"_l{layer}{'_reverse' if direction else ''}"
                output, end = run(x, suffix, begins[len(ends)], direction == 1)
                outputs.append(output)
                ends.append(end)
            x = outputs[0] if len(outputs) == 1 else ag.cat(outputs, axis=-1)
        return x, tuple(ag.cat(parts) if len(ends) > 1 else parts[0] for parts in zip(*ends))

    def _start(self, batch: int, x: Tensor) -> Start:
        """Returns the initial states of one layer and direction; None for an h of zeros that has a projection."""
        zeros = self._zeros((batch, self.hidden_size), x)
        return (None, *zeros[1:]) if self.proj_size else zeros

    def _run(self, x: Tensor, suffix: str, state: Start, reverse: bool) -> tuple[Tensor, State]:
        """Runs one layer in one direction; returns the outputs (T, N, H) and the final state, (1, N, H) each."""
        steps = self._steps(x, suffix, state, reverse)
        at = 0 if reverse else x.shape[0] - 1
        return steps[0], tuple(ag.narrow(t, 0, at, 1) for t in steps)

    def _steps(self, x: Tensor, suffix: str, state: Start, reverse: bool) -> State:
        """Returns the states of all steps of one layer in one direction, (T, N, H) each.

        The states of half types are float32 between steps, as in PyTorch's kernels.
        """
        product, weight, bias = self._products(x, suffix)
        project = getattr(self, f"weight_hr{suffix}") if self.proj_size else None
        narrow = product.dtype if product.dtype in ("float16", "bfloat16") else None
        arguments: list[Any] = [product, weight, state[0], bias, state[1] if self.states > 1 else None, project]
        if narrow:
            arguments = [ag.cast(t, dtype="float32") if t is not None and t.dtype == narrow else t for t in arguments]
        product, weight, first, bias, cell, project = arguments
        if project is not None:
            product, weight, first = self._unprojected(product, weight, first, project, reverse)
        operands: tuple[Any, ...] = (product, weight, first, bias, cell, self.kernel, reverse)
        steps: State = ag.recurrence(*operands)[: self.states]
        if project is not None:
            steps = (ag.linear(steps[0], project), *steps[1:])
        return tuple(ag.cast(t, dtype=narrow) for t in steps) if narrow else steps

    def _unprojected(
        self, product: Tensor, weight: Tensor, first: Tensor | None, project: Tensor, reverse: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the products, the weight of the state and the initial state of the recurrence of o * tanh(c); h is
        its projection: W_hh h = (W_hh W_hr)(o * tanh(c)), and W_hh h_0 is added to the product of the step that is
        computed first.
        """
        steps, batch = product.shape[:2]
        if first is not None:
            at = steps - 1 if reverse else 0
            begin = ag.add(ag.narrow(product, 0, at, 1), ag.linear(ag.unsqueeze(first, 0), weight))
            rest = ag.narrow(product, 0, 0 if reverse else 1, steps - 1)
            product = ag.cat([rest, begin] if reverse else [begin, rest]) if steps > 1 else begin
        zeros = Tensor.zeros((batch, self.hidden_size), product.dtype, queue=product.queue)
        return product, ag.matmul(weight, project), zeros

    def extra_repr(self) -> str:
        options = {
            "proj_size": (self.proj_size, 0),
            "num_layers": (self.num_layers, 1),
            "bias": (self.bias, True),
            "batch_first": (self.batch_first, False),
            "dropout": (self.dropout, 0),
            "bidirectional": (self.bidirectional, False),
        }
        shown = [f"{name}={value}" for name, (value, default) in options.items() if value != default]
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *shown])


class RNN(RNNBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or max(..., 0) with ``nonlinearity="relu"`` (Elman 1990).

    ``rnn(x, h_0=None)`` returns (output, h_n). Parameters weight_ih_l0 (H, in), weight_hh_l0 (H, H), bias_ih_l0 and
    bias_hh_l0 (H,), and so on for each layer, with the suffix _reverse for the other direction; all are initialized
    uniform in +-1/sqrt(H). ``dropout`` acts on the outputs of all layers but the last.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        _advance(nonlinearity)
        options = (num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, *options)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """``ag.lstm_gates`` at each step: ``lstm(x, (h_0, c_0)=None)`` returns (output, (h_n, c_n)).

    Weights as in RNN, (4 H, ...) with the rows of the gates i, f, g, o. With ``proj_size`` P > 0 the output of each
    step is h = W_hr (o * tanh(c)) of length P (Sak et al. 2014): weight_hr_l0 (P, H), weight_hh_l0 (4 H, P), outputs
    (T, N, directions * P), h (..., P) and c (..., H); it is computed as one recurrence with the weight W_hh W_hr.
    """

    gates: int = 4
    states: int = 2

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = (num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype)
        super().__init__("LSTM", input_size, hidden_size, *options)


class GRU(RNNBase):
    """``ag.gru_gates`` at each step: ``gru(x, h_0=None)`` returns (output, h_n). Weights as in RNN, (3 H, ...) with the
    rows of the gates r, z, n.
    """

    gates: int = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = (num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        super().__init__("GRU", input_size, hidden_size, *options)


class _Cell(_Weights):
    def __init__(self, input_size: int, hidden_size: int, bias: bool, mode: str, device: Any, dtype: Any) -> None:
        super().__init__()
        _advance(mode)
        self.input_size: int = input_size
        self.hidden_size: int = hidden_size
        self.bias: bool = bias
        self.kernel: str = mode
        self._add_weights("", input_size, device, dtype)
        self.reset_parameters()

    def forward(self, x: Tensor, hx: Any = None) -> Any:
        """Returns x (N, in) or (in,) and the state, (N, H) or (H,), give the next state; the state of an LSTMCell is
        (h, c).
        """
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{self!r}: expected x (N, {self.input_size}) or ({self.input_size},), got {x.shape}",
                op=type(self).__name__,
            )
        check_precision(self, x, next(iter(self.parameters())))
        shape = (*x.shape[:-1], self.hidden_size)
        state = self._zeros(shape, x) if hx is None else self._given(hx, shape[:-1])
        product, weight, bias = self._products(x if x.ndim == 2 else ag.unsqueeze(x, 0), "")
        new = self._step(product, weight, bias, tuple(ag.reshape(s, (-1, 1, self.hidden_size)) for s in state))
        new = tuple(ag.reshape(s, shape) for s in new)
        return new[0] if self.states == 1 else new

    def _step(self, x: Tensor, weight: Tensor, bias: Tensor | None, state: State) -> State:
        product, rows = ag.linear(state[0], weight, bias), (-1, self.gates, self.hidden_size)
        return _advance(self.kernel)(ag.reshape(x, rows), ag.reshape(product, rows), state)

    def extra_repr(self) -> str:
        bias = "" if self.bias else f", bias={self.bias}"
        activation = f", nonlinearity={self.kernel}" if self.kernel == "relu" else ""
        return f"{self.input_size}, {self.hidden_size}{bias}{activation}"


class RNNCell(_Cell):
    """One step of an RNN: weight_ih (H, in), weight_hh (H, H), bias_ih and bias_hh (H,)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, nonlinearity, device, dtype)
        self.nonlinearity = nonlinearity


class _GatedCell(_Cell):
    name: ClassVar[str]

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, self.name, device, dtype)


class LSTMCell(_GatedCell):
    """One step of an LSTM: weight_ih (4 H, in), weight_hh (4 H, H), bias_ih and bias_hh (4 H,)."""

    gates: int = 4
    states: int = 2
    name: ClassVar[str] = "lstm"


class GRUCell(_GatedCell):
    """One step of a GRU: weight_ih (3 H, in), weight_hh (3 H, H), bias_ih and bias_hh (3 H,)."""

    gates: int = 3
    name: ClassVar[str] = "gru"
