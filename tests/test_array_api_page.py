"""The page of the array API standard names the tests that do not pass, as the check of them has it."""

from __future__ import annotations

from pathlib import Path

import document_array_api


def test_the_page_is_that_of_the_lists(root: Path) -> None:
    page = (root / "docs/reference/array-api.md").read_text(encoding="utf-8")
    assert page == document_array_api.page(), "run: python tools/document_array_api.py"


def test_each_test_that_does_not_pass_needs_complex_dtypes_or_fft_or_a_later_version(root: Path) -> None:
    reasons = {
        reason
        for name in ("failures.txt", "skips.txt")
        for reason, _ in document_array_api.listed(root / "checks/array_api" / name)
    }
    assert all(any(word in reason for word in ("complex", "fft", "2025.12", "flaky")) for reason in reasons), reasons
