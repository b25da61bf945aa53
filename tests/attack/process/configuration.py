"""Values of the wrong kind: configurations of `netcl train` with any key set to any value, and NETCL_ variables.

A configuration builds a run, or is refused by ConfigError that begins with its file and a line; a variable has a value
of its type, or is refused by ConfigError with its name.
"""

from __future__ import annotations

import os
import random
import re

from registry import Run, attack

from netcl.core import config, manager
from netcl.core.device import device
from netcl.core.errors import ConfigError

TABLES: dict[str, dict[str, str]] = {
    "model": {"layers": '[["Flatten"], ["Linear", 64, 10]]'},
    "data": {"name": '"example_digits"', "n": "60", "batch_size": "20", "validation": "0.2"},
    "optimizer": {"name": '"AdamW"', "lr": "0.01"},
    "scheduler": {"name": '"CosineAnnealingLR"', "T_max": "2"},
    "trainer": {"epochs": "1", "ema": "0.5"},
    "callbacks.EarlyStopping": {"patience": "3"},
}
MORE = {
    "model": ("name", "load", "file"),
    "data": ("seed", "num_workers", "shuffle", "drop_last", "augment", "mean", "std", "file", "root"),
    "optimizer": ("weight_decay", "betas", "eps", "momentum", "file"),
    "scheduler": ("eta_min", "gamma", "step_size"),
    "trainer": ("seed", "loss", "output", "grad_clip", "mixed_precision", "accumulation_steps", "compile", "metrics"),
    "callbacks.EarlyStopping": ("monitor", "mode", "min_delta"),
}
VALUES = (
    "0", "-1", "1", "3", "true", "false", "inf", "-inf", "nan", "256.99", "1e308", "-0.0", "9223372036854775807",
    "9223372036854775808", "9" * 60, '""', '"x"', '"\\u0000"', '"../.."', '"SGD"', "[]", "[[]]", "[1, 2]", '["a"]',
    "{}", "{a = 1}", "1979-05-27", "07:32:00", "0x10", "1_0", '["ReLU"]', '[["Linear", -1, 2]]', '[["Linear", "a", 2]]',
    '[["Conv2d", 1, 2, 0]]', '[["Linear", 64, 10, {bias = "x"}]]', '[["Sequential"]]', '["Dropout"]', "'''",
)  # fmt: skip


def written(rng: random.Random) -> str:
    """Returns a configuration with a few keys changed, added or left out."""
    tables = {name: dict(values) for name, values in TABLES.items()}
    for _ in range(rng.randrange(1, 4)):
        name = rng.choice(list(tables))
        key = rng.choice([*tables[name], *MORE[name], "what"])
        if rng.random() < 0.15:
            tables[name].pop(key, None)
        else:
            tables[name][key] = rng.choice(VALUES)
    return "\n".join(f"[{name}]\n" + "".join(f"{k} = {v}\n" for k, v in rows.items()) for name, rows in tables.items())


@attack("process.configuration", weight=1.0, least=2.0)
def configuration(run: Run) -> None:
    """Configurations with values of any kind."""
    from netcl.trainer.cli.build import build
    from netcl.trainer.cli.config import Config

    path = run.folder / "run.toml"
    place = re.compile(rf"{re.escape(str(path))}(:\d+)*: ")
    manager.default("cpu")
    for rng in run.cases():
        text = written(rng)
        path.write_text(text, encoding="utf-8")
        try:
            with device("cpu"):
                made = build(Config(path))
            made.close()
            run.count("built")
        except ConfigError as error:
            run.count("refused")
            if not place.match(str(error)):
                run.fail("a ConfigError without its place", reproducer=str(error)[:200], data=text.encode())
        except Exception as error:
            run.fail(f"{type(error).__name__} instead of ConfigError", reproducer=str(error)[:200], data=text.encode())


TEXTS = ("", " ", "0", "-1", "inf", "nan", "1e999", "yes", "maybe", "1_0", "9" * 5000, "~nobody/x", "é", "\t2\n", "0x1")


@attack("process.variables", weight=0.3, least=0.5)
def variables(run: Run) -> None:
    """NETCL_ variables with texts of any kind."""
    for rng in run.cases():
        variable = config.VARIABLES[rng.choice(sorted(config.VARIABLES))]
        text = rng.choice((*TEXTS, "".join(chr(rng.randrange(1, 0x2FF)) for _ in range(rng.randrange(9)))))
        os.environ[variable.environment] = text
        try:
            value = config.get(variable.name)
            run.count("read")
            if variable.type == "float" and not abs(value) < float("inf"):
                run.fail(f"{variable.environment} is infinite", reproducer=repr(text))
        except ConfigError as error:
            run.count("refused")
            if variable.environment not in str(error):
                run.fail("a ConfigError without its name", reproducer=f"{variable.environment}={text!r}: {error}")
        except Exception as error:
            run.fail(f"{type(error).__name__} instead of ConfigError", reproducer=f"{variable.environment}={text!r}")
        finally:
            del os.environ[variable.environment]
