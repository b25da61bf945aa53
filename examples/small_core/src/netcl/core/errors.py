"""The errors: each is also the Python error of its kind."""


class NetclError(Exception):
    """The base of all; ``op`` names the op that failed, or is None."""

    def __init__(self, *args, op=None, parameter=None):
        super().__init__(*args)
        self.op, self.parameter = op, parameter


class ForwardOnlyWarning(UserWarning):
    """A function of netcl.ops was called on a tensor that requires grad, and is not recorded."""


KINDS = {
    ValueError: "ShapeError ConfigError BackendMismatchError ExpressionError SingularMatrixError",
    TypeError: "DTypeError",
    RuntimeError: "DeviceNotFoundError CaptureError CollectiveMismatchError DeviceLostError ForkedProcessError "
    "KernelBuildError",
    TimeoutError: "CollectiveTimeoutError DeviceTimeoutError",
    NotImplementedError: "UnsupportedError",
    MemoryError: "OutOfMemoryError",
    ArithmeticError: "NonFiniteError",
}
for _base, _names in KINDS.items():
    for _name in _names.split():
        globals()[_name] = type(_name, (NetclError, _base), {"__module__": __name__})


def format_bytes(nbytes):
    """A number of bytes as text."""
    return f"{nbytes / 2**20:.4g} MiB"


def from_here(function):
    """Marks a public function, of which errors would show their own frame alone."""
    return function


def shorten_traceback(error):
    """Cuts frames of netcl off a traceback; this core keeps them."""
