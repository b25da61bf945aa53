"""The variables NETCL_..., from the environment or an override."""

import logging
import os
from collections import namedtuple
from contextlib import contextmanager

from netcl.core.errors import ConfigError

Variable = namedtuple("Variable", "name type default meaning minimum maximum", defaults=(None, None))
VARIABLES = {"DEVICE": Variable("DEVICE", "str", "auto", "the default device")}
_overridden = {}


def get(name):
    """The value of NETCL_``name``; ConfigError if there is no such variable."""
    if name not in VARIABLES:
        raise ConfigError(f"there is no variable NETCL_{name}; there are {', '.join(VARIABLES)}")
    return _overridden.get(name) or os.environ.get(f"NETCL_{name}", VARIABLES[name].default)


@contextmanager
def override(**values):
    """Sets variables within the block; None is the default."""
    before = dict(_overridden)
    _overridden.update({name: value for name, value in values.items() if name in VARIABLES or get(name)})
    try:
        yield
    finally:
        _overridden.clear()
        _overridden.update(before)


def get_logger(name="netcl"):
    """The logger of a part of netcl."""
    return logging.getLogger(name)
