"""The NETCL_ variables: types, defaults, bad values, and overrides."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

import pytest

from netcl.core import config
from netcl.core.errors import ConfigError


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    for variable in config.VARIABLES.values():
        monkeypatch.delenv(variable.environment, raising=False)


DEFAULTS = {
    "KERNEL_STRATEGY": "auto",
    "FLOAT32_MATMUL": "highest",
    "AUTOCAST_ON_CPUS": "measured",
    "CONV_WINOGRAD": True,
    "CONV_TILED_LOCAL": False,
    "MAX_CACHED_GB": 4.0,
    "ASYNC_H2D": True,
    "PINNED_H2D": True,
    "PROFILE_EVENTS": False,
    "DEVICE": "auto",
    "PLATFORM_FILTER": "",
    "CACHE": True,
    "CACHE_MAX_MB": 1024,
    "POOL_BUDGET_FRAC": 0.85,
    "PINNED_MAX_MB": 512,
    "AUTOTUNE": "cached",
    "FAST_MATH": False,
    "DETERMINISTIC": False,
    "COMMAND_BUFFER": True,
    "REPLAY": "on",
    "CHECK_CAPTURE": 0,
    "WATCHDOG_S": 30.0,
    "DIST_TIMEOUT_S": 30.0,
    "DIST_STAGING": "auto",
    "SIGINT": True,
    "PROGRESS": True,
    "BUILD_PROCESSES": None,
    "SYNC": False,
    "POISON": False,
    "SEED": None,
    "LOG": "warning",
    "RANK": None,
    "WORLD_SIZE": None,
    "LOCAL_RANK": None,
    "RENDEZVOUS": None,
}


def test_defaults():
    assert {name: config.get(name) for name in DEFAULTS} == DEFAULTS
    assert set(config.VARIABLES) == {*DEFAULTS, "CACHE_DIR"}
    assert config.get("CACHE_DIR").name == "netcl"
    assert all(v.meaning and v.environment == "NETCL_" + name for name, v in config.VARIABLES.items())


@pytest.mark.parametrize("text", ["", "0", "false", "no", "off", "OFF", " 0 "])
def test_false(monkeypatch, text):
    monkeypatch.setenv("NETCL_CONV_WINOGRAD", text)
    assert config.get("CONV_WINOGRAD") is False


@pytest.mark.parametrize("text", ["1", "true", "Yes", "on"])
def test_true(monkeypatch, text):
    monkeypatch.setenv("NETCL_FAST_MATH", text)
    assert config.get("FAST_MATH") is True


def test_typed_values_are_read_at_each_use(monkeypatch):
    monkeypatch.setenv("NETCL_MAX_CACHED_GB", "0.5")
    assert config.get("MAX_CACHED_GB") == 0.5
    monkeypatch.setenv("NETCL_MAX_CACHED_GB", "2")
    assert config.get("MAX_CACHED_GB") == 2.0
    assert isinstance(config.get("MAX_CACHED_GB"), float)
    monkeypatch.setenv("NETCL_MAX_CACHED_GB", "")
    assert config.get("MAX_CACHED_GB") == 4.0
    monkeypatch.setenv("NETCL_SEED", "7")
    assert config.get("SEED") == 7
    monkeypatch.setenv("NETCL_AUTOTUNE", "ON")
    assert config.get("AUTOTUNE") == "on"
    monkeypatch.setenv("NETCL_CACHE_DIR", "~/somewhere")
    assert config.get("CACHE_DIR") == Path.home() / "somewhere"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("CONV_WINOGRAD", "maybe"),
        ("MAX_CACHED_GB", "lots"),
        ("MAX_CACHED_GB", "-1"),
        ("MAX_CACHED_GB", "nan"),
        ("POOL_BUDGET_FRAC", "1.5"),
        ("CACHE_MAX_MB", "1.5"),
        ("KERNEL_STRATEGY", "fastest"),
        ("LOG", "loud"),
        ("WORLD_SIZE", "0"),
        ("MAX_CACHED_GB", "inf"),
        ("MAX_CACHED_GB", "1e300"),
        ("MAX_CACHED_GB", "1_0"),
        ("WATCHDOG_S", "-inf"),
        ("WATCHDOG_S", "1e300"),
        ("DIST_TIMEOUT_S", "inf"),
        ("CACHE_MAX_MB", "1_000"),
        ("CACHE_MAX_MB", "9" * 400),
        ("CACHE_MAX_MB", "٣"),
        ("SEED", "-1"),
        ("SEED", "18446744073709551616"),
        ("RANK", "99999999999"),
        ("CHECK_CAPTURE", "9" * 5000),
        ("CACHE_DIR", "~no-such-user/cache"),
    ],
)
def test_bad_values_name_variable_value_and_what_is_accepted(monkeypatch, name, text):
    monkeypatch.setenv("NETCL_" + name, text)
    with pytest.raises(ConfigError) as caught:
        config.get(name)
    for part in ("NETCL_" + name, repr(text), config.VARIABLES[name].accepted):
        assert part in str(caught.value)
    assert caught.value.parameter == "NETCL_" + name


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="AUTOTUNE"):
        config.get("AUTOTUN")
    with pytest.raises(ConfigError, match="DEVICE"), config.override(DEVISE="cpu"):
        pass


def test_a_variable_follows_the_environment(monkeypatch):
    """Set, changed and deleted, and with another mapping in place of os.environ."""
    assert config.get("AUTOTUNE") == "cached"
    for value in ("off", "on"):
        monkeypatch.setenv("NETCL_AUTOTUNE", value)
        assert config.get("AUTOTUNE") == value
    monkeypatch.delenv("NETCL_AUTOTUNE")
    assert config.get("AUTOTUNE") == "cached"
    monkeypatch.setattr(os, "environ", {"NETCL_AUTOTUNE": "off"})
    assert config.get("AUTOTUNE") == "off"


def test_override_beats_the_environment_and_nests(monkeypatch):
    monkeypatch.setenv("NETCL_AUTOTUNE", "off")
    with config.override(AUTOTUNE="on", MAX_CACHED_GB=1):
        assert (config.get("AUTOTUNE"), config.get("MAX_CACHED_GB")) == ("on", 1.0)
        with config.override(AUTOTUNE=None, CONV_WINOGRAD=False):
            assert (config.get("AUTOTUNE"), config.get("CONV_WINOGRAD")) == ("cached", False)
        assert (config.get("AUTOTUNE"), config.get("CONV_WINOGRAD")) == ("on", True)
    assert (config.get("AUTOTUNE"), config.get("MAX_CACHED_GB")) == ("off", 4.0)


def test_override_checks_before_it_changes_anything():
    with pytest.raises(ConfigError), config.override(CONV_WINOGRAD=False, POOL_BUDGET_FRAC=2):
        pass
    assert config.get("CONV_WINOGRAD") is True


def test_override_ends_with_an_exception():
    with pytest.raises(KeyError), config.override(FAST_MATH=True):
        raise KeyError
    assert config.get("FAST_MATH") is False


def test_overlapping_overrides_of_threads_leave_nothing_behind():
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with config.override(CACHE_MAX_MB=1):
            entered.set()
            leave.wait(5)

    thread = threading.Thread(target=hold)
    with config.override(CACHE_MAX_MB=2):
        thread.start()
        assert entered.wait(5)
        assert config.get("CACHE_MAX_MB") == 1
    # the layer below is gone, the thread's own is still there
    assert config.get("CACHE_MAX_MB") == 1
    leave.set()
    thread.join(5)
    assert config.get("CACHE_MAX_MB") == 1024


def test_log_level_follows_the_variable_and_else_the_application():
    logger = logging.getLogger("netcl")
    level, handlers = logger.level, list(logger.handlers)
    try:
        logger.setLevel(logging.ERROR)
        assert config.get_logger("netcl.core").getEffectiveLevel() == logging.ERROR
        with config.override(LOG="debug"):
            assert config.get_logger("netcl.core").getEffectiveLevel() == logging.DEBUG
    finally:
        logger.setLevel(level)
        logger.handlers[:] = handlers
