"""Wrong arguments of public functions, named after a call has failed."""

from __future__ import annotations

import dis
import inspect
import re
import sys
from typing import Any

from netcl_core_kit import errors

RAISE = dis.opmap["RAISE_VARARGS"]
# Keywords of other frameworks for arguments that have PyTorch's names here.
_OF_OTHERS = {
    "kernel": "kernel_size", "filter_size": "kernel_size", "pool_size": "kernel_size", "window_shape": "kernel_size",
    "filters": "out_channels", "features": "out_features", "units": "out_features", "input_dim": "num_embeddings",
    "output_dim": "embedding_dim", "strides": "stride", "pad": "padding", "dilation_rate": "dilation",
    "use_bias": "bias", "with_bias": "bias", "rate": "p", "epsilon": "eps", "learning_rate": "lr", "axis": "dim",
    "dim": "axis", "heads": "num_heads", "key_dim": "embed_dim",
}  # fmt: skip
_CHECKS = {
    "Tensor": lambda value: hasattr(value, "dtype") and hasattr(value, "engine") or hasattr(value, "__netcl_op__"),
    "int": lambda value: hasattr(value, "__index__"),
    "float": lambda value: hasattr(value, "__float__") or hasattr(value, "__index__"),
    "str": lambda value: isinstance(value, str),
    "os.PathLike": lambda value: hasattr(value, "__fspath__"),
    "BinaryIO": lambda value: hasattr(value, "read") or hasattr(value, "write"),
    "bool": lambda value: not isinstance(value, (str, list, dict, type(None))) and type(value) is not object,
    "None": lambda value: value is None,
    "Callable": callable,
}


def name_keyword(error: Exception, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises UnsupportedError, which is a TypeError, for a keyword that ``function`` does not take. It gives the advice
    of the object's ``_words_of_others``, else the argument that is meant, else all arguments.
    """
    parameters = inspect.signature(function).parameters
    if type(error) is not TypeError or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    known = [name for name in parameters if name != "self"]
    words = getattr(type(args[0]), "_words_of_others", {}) if args else {}
    for keyword in kwargs:
        if keyword not in known:
            from difflib import get_close_matches

            near = [_OF_OTHERS[keyword]] if _OF_OTHERS.get(keyword) in known else get_close_matches(keyword, known, 1)
            takes = f"write {near[0]}=..." if near else f"its arguments are {', '.join(known)}"
            name = _name_of(function, args)
            text = f"{name}() got an unexpected keyword argument {keyword!r}; {words.get(keyword, takes)}"
            raise errors.UnsupportedError(text, op=name, parameter=keyword) from None


def name_argument(error: Exception, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises UnsupportedError in place of an error of Python, NumPy or PyTorch below ``function``: it names the first
    argument that does not fit its annotation.
    """
    signature = inspect.signature(function)
    if not isinstance(error, (AttributeError, TypeError, ValueError, IndexError, KeyError)) or not _is_bare(error):
        return
    try:
        arguments = signature.bind(*args, **kwargs).arguments
    except TypeError:  # Python's message says which argument is missing or too many
        return
    for parameter, value in arguments.items():
        expected = "" if parameter == "self" else _unfit(str(signature.parameters[parameter].annotation), value)
        if expected:
            name = _name_of(function, args)
            text = f"{name}: expected {expected} as {parameter}, got {_shown(value)}"
            raise errors.UnsupportedError(text, op=name, parameter=parameter) from None


def _name_of(function: Any, args: tuple[Any, ...]) -> str:
    return type(args[0]).__name__ if function.__name__ == "__init__" else str(function.__qualname__)


def _is_bare(error: Exception) -> bool:
    """True if netcl raised no message of its own, and no function of the user is among the frames."""
    if isinstance(error, errors.NetclError) or getattr(error, "_shortened", False) or error.__traceback__ is None:
        return False
    last = error.__traceback__
    while last.tb_next is not None:
        last = last.tb_next
        package = str(last.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in ("netcl", "netcl_core_kit", "numpy", "torch") and package not in sys.stdlib_module_names:
            return False
    own = str(last.tb_frame.f_globals.get("__name__", "")).startswith("netcl")
    return not own or last.tb_frame.f_code.co_code[last.tb_lasti] != RAISE


def _unfit(annotation: str, value: Any) -> str:
    """Returns what an annotation expects if a value is certainly something else, else ""."""
    annotation = annotation.strip("'").replace("builtins.", "")
    if annotation.startswith("<class '"):
        annotation = annotation[len("<class '") : -len("'>")].rpartition(".")[2]
    for kind in annotation.split(" | "):
        sequence = re.match(r"(?:Sequence|list|tuple|Iterable)\[(\w+)", kind)
        check = _CHECKS.get(sequence[1] if sequence else kind.partition("[")[0])
        if check is None:
            return ""
        if sequence and (isinstance(value, (list, tuple)) or hasattr(value, "__array__")):
            if all(map(check, value)):
                return ""
        elif not sequence and check(value):
            return ""
    return f"a {annotation}" if annotation in ("Tensor", "str", "bool", "float") else annotation


def _shown(value: Any) -> str:
    """Returns the type of a value, with its shape, its length or its text."""
    kind, shape = type(value).__name__, getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"{kind} {shape}"
    if isinstance(value, (list, tuple, dict)):
        return f"{kind} of {len(value)}"
    return f"{kind} {value!r:.40}" if isinstance(value, (int, float, str)) else kind
