"""The samples of the reference run, and each op row, class and command has one."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs_site.coverage import wanted
from docs_site.samples import FOLDER, read, run, samples

from netcl.core.process import naming
from netcl.core.tensor.generator import default_generator


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.py")), ids=lambda file: file.stem)
def test_samples_run(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NETCL_DEVICE", "cpu")
    # `netcl run` gives the process PyTorch's random numbers and texts.
    monkeypatch.setattr(default_generator, "numbers", default_generator.numbers)
    monkeypatch.setattr(naming, "library", naming.library)
    cells = read(file)
    assert cells
    for sample in cells:
        try:
            printed = run(sample)
        except Exception as error:  # noqa: BLE001  (named with the sample: a file has hundreds)
            pytest.fail(f"{sample.name}: {type(error).__name__}: {error}")
        assert "<object" not in printed, sample.name


def test_each_op_class_and_command_has_a_sample() -> None:
    listed = samples()
    for kind, names in wanted():
        assert len(names) > 10, kind
        assert [name for name in names if name not in listed] == []


def test_no_sample_is_left_over() -> None:
    asked = {name for _, names in wanted() for name in names}
    assert [name for name in samples() if name not in asked] == []


def test_a_sample_leaves_no_texts_of_pytorch_to_the_next(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NETCL_DEVICE", "cpu")
    listed = samples()
    run(listed["netcl run"])
    assert run(listed["netcl.nn.Bilinear"]) == "(5, 2)\n"
