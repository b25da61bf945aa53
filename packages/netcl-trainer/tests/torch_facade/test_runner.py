"""``python -m netcl.torch``: a program's arguments, exit code, output and tracebacks are those of Python itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest


def run(folder, text, *arguments, options=(), name="program.py"):
    (folder / name).write_text(textwrap.dedent(text), encoding="utf-8")
    command = [sys.executable, "-m", "netcl.torch", *options, name, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)


TRAINING = """
    import sys
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from torch.optim import SGD
    from torch.utils.data import DataLoader, TensorDataset

    print(sys.argv, __name__)
    torch.manual_seed(0)
    x = torch.linspace(-1, 1, 64).reshape(64, 1)
    loader = DataLoader(TensorDataset(x, 3 * x + 1), batch_size=16, shuffle=True)
    model = nn.Linear(1, 1)
    optimizer = SGD(model.parameters(), lr=0.1)
    for epoch in range(40):
        for data, target in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(model(data), target)
            loss.backward()
            optimizer.step()
    print(f"{model.weight.item():.2f} {model.bias.item():.2f}")
    sys.exit(3)
"""


def test_an_unchanged_program_trains_and_keeps_its_arguments_and_exit_code(tmp_path):
    done = run(tmp_path, TRAINING, "--epochs", "-m", options=["--report"])
    assert done.returncode == 3, done.stderr
    assert done.stdout == "['program.py', '--epochs', '-m'] __main__\n3.00 1.00\n"
    assert "netcl.torch: " in done.stderr
    assert "  used     torch.nn.functional.mse_loss" in done.stderr


def test_a_module_runs_as_a_script(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "tool.py").write_text(
        "import sys, torch\nprint(torch.ones(2).sum().item(), sys.argv[1:])\n"
    )
    command = [sys.executable, "-m", "netcl.torch", "-m", "package.tool", "a"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (0, "2.0 ['a']\n"), done.stderr


def test_an_exception_shows_the_programs_line_first(tmp_path):
    done = run(tmp_path, "import torch\n\ntorch.linalg.eig(torch.ones(2, 2))\n")
    lines = done.stderr.splitlines()
    assert done.returncode == 1
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith('program.py", line 3, in <module>')
    assert lines[-1].startswith("AttributeError: torch.linalg.eig is not in netcl")


def test_a_missing_program_and_wrong_options_say_so(tmp_path):
    command = [sys.executable, "-m", "netcl.torch"]
    for arguments, text in (
        (["absent.py"], "there is no file 'absent.py'"),
        (["--what"], "usage: python -m netcl.torch"),
    ):
        done = subprocess.run([*command, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=100)
        assert done.returncode == 2
        assert text in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_an_interrupt_ends_the_program_as_python_does(tmp_path):
    (tmp_path / "program.py").write_text("import torch, time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "netcl.torch", "program.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert b"KeyboardInterrupt" in errors
    assert process.returncode in (130, -signal.SIGINT)


def test_workers_do_not_run_a_script_without_a_main_guard(tmp_path):
    (tmp_path / "rows.py").write_text(
        "import torch\n"
        "class Rows(torch.utils.data.Dataset):\n"
        "    def __init__(self):\n        self.x = torch.arange(8).reshape(4, 2)\n"
        "    def __len__(self):\n        return 4\n"
        "    def __getitem__(self, at):\n        return self.x[at] * torch.tensor(2), at\n"
    )
    done = run(
        tmp_path,
        """
        import torch
        from rows import Rows

        print("runs")
        for x, at in torch.utils.data.DataLoader(Rows(), batch_size=3, num_workers=2):
            print(x.tolist(), at.tolist())
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "runs\n[[0, 2], [4, 6], [8, 10]] [0, 1, 2]\n[[12, 14]] [3]\n"


def test_workers_get_a_data_set_of_a_guarded_script(tmp_path):
    done = run(
        tmp_path,
        """
        import torch

        class Rows(torch.utils.data.Dataset):
            def __len__(self):
                return 3
            def __getitem__(self, at):
                return torch.tensor([float(at)])

        def joined(samples):
            return torch.cat(samples), len(samples), torch.utils.data.get_worker_info().num_workers

        if __name__ == "__main__":
            for x, count, workers in torch.utils.data.DataLoader(Rows(), 2, num_workers=1, collate_fn=joined):
                print(x.tolist(), count, workers)
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[0.0, 1.0] 2 1\n[2.0] 1 1\n"
