"""The command ``netcl``: its arguments, and the dispatch to its subcommands."""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from netcl.trainer.cli.help_texts import ABOUT, ENDS, EXAMPLES


class _Parser(argparse.ArgumentParser):
    """A parser that ends its errors with the command or option probably meant."""

    def error(self, message: str) -> NoReturn:
        choice = re.match(r"argument .*: invalid choice: '(\S+)' \(choose from (.*)\)", message)
        option = re.match(r"unrecognized arguments: (-\S+)", message)
        near: list[str] = []
        if choice:
            near = difflib.get_close_matches(choice[1], re.findall(r"[\w-]+", choice[2]), 1, 0.6)
        elif option:
            near = difflib.get_close_matches(option[1], list(self._option_string_actions), 1, 0.6)
        super().error(f"{message}; did you mean {near[0]}?" if near else message)


def parser(extensions: bool = True) -> argparse.ArgumentParser:
    """Returns the parser of the command and its subcommands, with other distributions' subcommands or without."""
    top = _Parser(prog="netcl", description=ABOUT, epilog=ENDS, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--version", action="store_true", help="print the versions and end")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    def add(name: str, module: str, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(
            name,
            help=text,
            description=text,
            epilog=EXAMPLES[name],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.set_defaults(module=module, function=name)
        return command

    doctor = add("doctor", "devices", "drivers, versions, every kernel family against NumPy, and advice")
    doctor.add_argument("--full", action="store_true", help="every op, and every device with emulated limits")

    doctor.add_argument("--html", metavar="FILE", help="also write the results as a page")

    devices = add("devices", "devices", "the devices, their selectors, and their speed relative to NumPy")
    devices.add_argument("--json", action="store_true", help="one JSON object per device")

    train = add("train", "train", "train by a configuration file")
    _config_arguments(train)
    train.add_argument(
        "--overwrite", action="store_true", help="save over an earlier run; default: to a new folder, such as runs/a-2"
    )
    train.add_argument("--resume", metavar="auto|FILE", help="continue the last run of this output, or a checkpoint")
    train.add_argument(
        "--resume-changes",
        metavar="allow|NAME,..",
        type=_changes,
        default="refuse",
        help="what may differ from the run of the checkpoint, such as data,scheduler; default: nothing that counts",
    )

    evaluate = add("evaluate", "train", "loss and metrics of a trained model on the validation data")
    _config_arguments(evaluate)
    evaluate.add_argument("--model", help="a model or checkpoint; default: the best, else the last of the output")
    evaluate.add_argument("--json", action="store_true", help="print a JSON object")

    predict = add("predict", "predict", "the predictions of a model for a table, images or an array")
    predict.add_argument("model", metavar="MODEL", help="a file of save_model, as `netcl train` writes")
    predict.add_argument(
        "input", metavar="INPUT", nargs="+", help=".csv, .parquet, images, folders of images, or .npy (N, ...)"
    )
    predict.add_argument(
        "--output", metavar="OUT", help="a .csv or .json file of predictions, or .npy of outputs; default: print them"
    )
    predict.add_argument("--batch-size", type=_positive, default=64, help="samples at a time; default: 64")
    _device_argument(predict)

    tune = add("tune", "measure", "find the fastest kernel variant for a shape, and keep it for later runs")
    tune.add_argument(
        "what",
        choices=["matmul", "conv2d"],
        help="matmul takes M N K; conv2d takes N C H W F KH KW [STRIDE [PAD]]",
    )
    tune.add_argument("sizes", type=_positive_or_zero, nargs="+", metavar="SIZE", help="see the examples")
    tune.add_argument(
        "--dtype", default="float32", choices=["float32", "float16", "bfloat16", "float64"], help="default: float32"
    )
    _device_argument(tune)

    profile = add("profile", "measure", "profile a training step: table, trace and roofline")
    _config_arguments(profile)
    profile.add_argument("--steps", type=_positive, default=10, help="steps to profile, after five others; default: 10")
    profile.add_argument("--folder", default=None, help="for kernels.txt, trace.json (Perfetto) and roofline.html")
    profile.add_argument(
        "--roofline", type=_roofline_file, metavar="FILE", help="write the roofline here too: .html, .png, .svg or .pdf"
    )

    bench = add("bench", "measure", "times of common work on each device, relative to NumPy and PyTorch")
    bench.add_argument("--devices", help="selectors separated by commas; default: all")
    bench.add_argument("--runs", type=_positive, default=10, help="of each job, where the median counts; default: 10")
    bench.add_argument("--json", action="store_true", help="one JSON object per device")

    export = add("export", "convert", "a model for other programs")
    export.add_argument("model", metavar="MODEL", help="a file of save_model, as `netcl train` writes")
    export.add_argument("--to", required=True, choices=["onnx", "safetensors", "torch"], help="the format")
    export.add_argument("--output", help="default: the model's path with the format's suffix")
    export.add_argument(
        "--shape", type=_shape, metavar="1,3,32,32", help="shape of an input with its batch axis (onnx needs it)"
    )

    convert = add(
        "convert", "convert", "a file of weights into another format, by suffix: .netcl .safetensors .pt .pth .onnx"
    )
    convert.add_argument("source", metavar="IN", help="the file to read")
    convert.add_argument("target", metavar="OUT", help="the file to write")
    convert.add_argument("--shape", type=_shape, metavar="1,3,32,32", help="shape of an input, for .onnx")

    init = add("init", "start", "write a commented configuration and a script that run at once")
    init.add_argument("kind", choices=["cnn", "mlp", "table", "gpt", "finetune"], help="see the examples")
    init.add_argument("folder", nargs="?", metavar="FOLDER", help="where to write; default: a folder of that name")

    completion = add("completion", "start", "print a script that completes commands in a shell")
    completion.add_argument("shell", choices=["bash", "zsh", "tcsh"], help="the shell")
    if extensions:
        _add_extensions(commands)
    return top


def _config_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config", metavar="CONFIG.toml", help="the configuration: tables model, data, optimizer, trainer .."
    )
    parser.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="a.b=v", help="a value in place of the file's"
    )


def _device_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="auto", help="a selector of `netcl devices`; default: auto")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, got {text}")
    return value


def _positive_or_zero(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 on, got {text}")
    return value


def _changes(text: str) -> str | list[str]:
    return text if text in ("refuse", "allow") else text.split(",")


def _roofline_file(text: str) -> str:
    suffix = os.path.splitext(text)[1].lower()
    if suffix not in (".html", ".png", ".svg", ".pdf"):
        raise argparse.ArgumentTypeError(f"expected a file that ends in .html, .png, .svg or .pdf, got {text}")
    if suffix != ".html" and not _has_matplotlib():
        raise argparse.ArgumentTypeError(
            f'{suffix} needs matplotlib (pip install "netcl-trainer[plot]"), .html does not'
        )
    return text


def _has_matplotlib() -> bool:
    """Returns True if matplotlib can be imported, so that a profile does not end without its picture."""
    try:
        importlib.import_module("matplotlib")
    except ImportError:
        return False
    return True


def _shape(text: str) -> tuple[int, ...]:
    return tuple(_positive(part) for part in text.split(","))


def _add_extensions(commands: Any) -> None:
    """Adds the commands of other distributions, so that ``--help``, completion and suggestions know them."""
    from netcl.trainer import extensions

    for name in sorted(extensions.commands().keys() - EXAMPLES.keys()):
        command = commands.add_parser(name, help=extensions.summary(name), add_help=False)
        command.add_argument("arguments", nargs=argparse.REMAINDER)


def parse(commands: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """Returns the arguments of a command line."""
    chosen, others = commands.parse_known_args(words)
    if others:  # an error of the command itself shows its usage, and knows its options
        of = next((action.choices for action in commands._actions if isinstance(action.choices, dict)), {})
        of.get(chosen.command, commands).error(f"unrecognized arguments: {' '.join(others)}")
    return chosen


def _run_extension(name: str, arguments: Sequence[str]) -> int | None:
    """Runs a command of another distribution; returns its exit code, 2 if it must be installed, None for others."""
    from netcl.trainer import extensions

    if name in extensions.commands():
        return extensions.run(name, arguments)
    distribution = extensions.absent(name)
    if not distribution:
        return None
    print(f"netcl: {name} is a command of {distribution}: pip install {distribution}", file=sys.stderr)
    return 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line (default: of this process) and returns its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    own = bool(words) and words[0] in EXAMPLES  # other distributions cost the time to read their metadata
    if words and not own and not words[0].startswith("-"):
        code = _run_extension(words[0], words[1:])
        if code is not None:
            return code
    commands = parser(extensions=not own)
    chosen = parse(commands, words)
    if chosen.version:
        from netcl.trainer.versions import versions

        print("\n".join(versions()))
        return 0
    if chosen.command is None:
        commands.print_help()
        return 2
    try:
        module = importlib.import_module(f"{__name__}.{chosen.module}")
        code = int(getattr(module, chosen.function)(chosen))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("netcl: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of a pipe has ended, for example `head`; nothing can be flushed to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        from netcl.trainer.cli.failures import exit_code

        explained = exit_code(error)
        if explained is None:
            raise
        return explained
