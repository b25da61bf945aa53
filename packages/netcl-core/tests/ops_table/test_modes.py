"""Modes of a thread, as parts of the key of captured steps."""

from __future__ import annotations

import pytest

from netcl.core.ops_table import modes


def test_a_mode_that_is_not_in_use_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is imported after a capture registers its modes, and the captured step stays valid."""
    monkeypatch.setattr(modes, "_states", [lambda: "first"])
    monkeypatch.setattr(modes, "_scopes", [None])
    before = modes.current()
    used = None
    modes.register(lambda: used)
    assert modes.current() == before == ("first",)
    used = "later"
    assert modes.current() == ("first", "later")
    modes.register(lambda: None)
    assert modes.current() == ("first", "later")
