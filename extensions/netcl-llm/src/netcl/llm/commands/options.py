"""Arguments that several commands have, and how they report errors."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields

from netcl.llm.cache import CACHES
from netcl.llm.lora import load_adapter
from netcl.llm.model import Model, load
from netcl.llm.sampling import Sampling

__all__ = ["add_model", "add_sampling", "loaded", "parser", "positive", "run", "sampling_of"]

_HELP = {
    "temperature": "divides the logits; 0 takes the most likely token",
    "top_k": "draw from so many tokens; 0 from all",
    "top_p": "draw from the tokens that have this probability together",
    "min_p": "leave out tokens less likely than this part of the most likely one",
    "repetition_penalty": "above 1, tokens that are there already become less likely",
    "seed": "makes the text repeatable",
    "max_tokens": "tokens of an answer at most",
}


def parser(command: str, description: str | None) -> argparse.ArgumentParser:
    """Returns the parser of a command."""
    return argparse.ArgumentParser(prog=f"netcl {command}", description=description)


def add_model(arguments: argparse.ArgumentParser, adapter: bool = True) -> None:
    """Adds the model's file, the device, the dtype, and an adapter for it."""
    arguments.add_argument("model", help="a .gguf file, or a folder with config.json, safetensors and tokenizer.json")
    arguments.add_argument("--device", help="where to compute, such as cpu, pocl, intel, gpu")
    arguments.add_argument("--dtype", help="dtype of weights that are not packed: float32, float16 or bfloat16")
    arguments.add_argument("--cache", choices=CACHES, help="dtype of keys and values; Q8_0 is the smallest")
    if adapter:
        arguments.add_argument("--adapter", help="a folder that netcl lora or peft wrote")


def positive(text: str) -> int:
    """Returns the number of an argument that must be at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1 on, got {text}")
    return value


def add_sampling(arguments: argparse.ArgumentParser) -> None:
    """Adds the fields of Sampling."""
    for field in fields(Sampling):
        if field.name in _HELP:
            default = None if field.default is MISSING else field.default
            kind = int if field.name in ("top_k", "seed", "max_tokens") else float
            name = "--" + field.name.replace("_", "-")
            arguments.add_argument(name, type=kind, default=default, help=f"{_HELP[field.name]} ({default})")
    arguments.add_argument("--stop", action="append", default=[], help="a text that ends the answer; may be repeated")


def sampling_of(parsed: argparse.Namespace) -> Sampling:
    """Returns the Sampling of the parsed arguments."""
    return Sampling(**{name: getattr(parsed, name) for name in _HELP}, stop=tuple(parsed.stop))


def loaded(parsed: argparse.Namespace) -> Model:
    """Returns the model of the parsed arguments."""
    model = load(parsed.model, device=parsed.device, dtype=parsed.dtype, cache=parsed.cache)
    if getattr(parsed, "adapter", None):
        load_adapter(model.decoder, parsed.adapter)
    return model


def run(command: str, work: Callable[[argparse.Namespace], int], parsed: argparse.Namespace) -> int:
    """Returns the exit code of the work; what the user can correct is one line, and code 1."""
    try:
        return work(parsed)
    except (OSError, ValueError, RuntimeError, ImportError, MemoryError) as error:
        print(f"netcl {command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
