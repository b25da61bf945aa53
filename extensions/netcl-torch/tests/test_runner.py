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
@pytest.mark.usefixtures("default_signals")
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


# Without torch, so that Python itself runs them too.
PROGRAMS = {
    "variables": """
        import sys
        print(__name__, __file__, __package__, __spec__, sys.argv, sys.path[0])
        print(sys.modules["__main__"].__file__, __doc__, type(__loader__).__name__)
        """,
    "exit code": "import sys; sys.exit(3)",
    "exit text": "import sys; sys.exit('no data')",
    "exit None": "raise SystemExit",
    "os._exit": "import os; print('out', flush=True); os._exit(4)",
    "exception": "def f(x):\n    return 1 / x\n\nf(0)\n",
    "cause": """
        def f():
            try:
                {}["a"]
            except KeyError as error:
                raise ValueError("no a") from error
        f()
        """,
    "syntax": "x = (\n",
    "interrupt": "import atexit; atexit.register(print, 'end'); raise KeyboardInterrupt",
    "hook": """
        import sys, traceback
        def shown(kind, error, trace):
            print(kind.__name__, [frame.lineno for frame in traceback.extract_tb(trace)])
        sys.excepthook = shown
        raise ValueError
        """,
    "thread": """
        import sys, threading, time
        def later():
            time.sleep(0.3)
            print(sys.modules["__main__"].__dict__["x"])
        x = 1
        threading.Thread(target=later).start()
        """,
    "pickle": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))).__module__)\n",
    "unprintable": "class E(Exception):\n    def __str__(self):\n        raise ValueError\n\nraise E\n",
}


@pytest.mark.parametrize("kind", sorted(PROGRAMS))
def test_a_program_ends_as_under_python_itself(kind, tmp_path):
    ours = run(tmp_path, PROGRAMS[kind], "a", "--report")
    theirs = subprocess.run(
        [sys.executable, "program.py", "a", "--report"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ours.stderr == theirs.stderr
    assert ours.stdout == theirs.stdout
    assert ours.returncode == theirs.returncode


def test_a_package_runs_with_relative_imports_as_under_python_itself(tmp_path):
    package = tmp_path / "pack"
    (package / "inner").mkdir(parents=True)
    (package / "inner" / "__init__.py").touch()
    (package / "__init__.py").write_text("place = __name__\n", encoding="utf-8")
    (package / "__main__.py").write_text(
        "import sys\nfrom . import place\nfrom .inner.part import f\n"
        "print(__name__, __package__, __spec__.name, place, sys.argv)\nf(0)\n",
        encoding="utf-8",
    )
    (package / "inner" / "part.py").write_text("from .. import place\ndef f(x):\n    return 1 / x\n", encoding="utf-8")
    ours, theirs = (
        subprocess.run(
            [sys.executable, *command, "-m", "pack", "a"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        for command in (["-m", "netcl.torch"], [])
    )
    assert ours.stdout == theirs.stdout
    assert ours.returncode == theirs.returncode == 1
    title, *lines = ours.stderr.splitlines()
    assert title == "Traceback (most recent call last):"
    assert "__main__.py" in lines[0]
    assert theirs.stderr.splitlines()[-len(lines) :] == lines  # Python's own begins with runpy
    done = subprocess.run(
        [sys.executable, "-m", "netcl.torch", "-m", "pack.absent"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "netcl.torch: No module named pack.absent\n")


def test_a_report_comes_after_the_exception(tmp_path):
    done = run(tmp_path, "import torch\ntorch.ones(2)\ntorch.no_such_name\n", options=["--report"])
    lines = done.stderr.splitlines()
    assert done.returncode == 1
    at = lines.index("netcl.torch: 1 names of torch were used, 1 were missing")
    assert lines[at + 1 :] == ["  used     torch.ones", "  missing  torch.no_such_name"]
    assert lines[at - 1].startswith("AttributeError: module 'torch' has no attribute 'no_such_name'")


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.usefixtures("default_signals")
def test_an_interrupt_ends_the_workers_too(tmp_path):
    (tmp_path / "rows.py").write_text(
        "import os, time, torch\n"
        "class Rows(torch.utils.data.Dataset):\n"
        "    def __len__(self):\n        return 1000\n"
        "    def __getitem__(self, at):\n        time.sleep(0.2)\n        return os.getpid()\n"
    )
    (tmp_path / "program.py").write_text(
        "import torch\nfrom rows import Rows\n"
        "for pid in torch.utils.data.DataLoader(Rows(), num_workers=2):\n    print(pid.item(), flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "netcl.torch", "program.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    workers = {int(process.stdout.readline()) for _ in range(4)}
    assert len(workers) == 2
    os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it, to the workers too
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert errors.count("Traceback") == 1
    for pid in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_data_set_of_a_script_without_a_main_guard(tmp_path):
    done = run(
        tmp_path,
        """
        import sys
        import torch

        class Rows(torch.utils.data.Dataset):
            def __init__(self, x):
                self.x = x
            def __len__(self):
                return len(self.x)
            def __getitem__(self, at):
                return Sample(self.x[at])

        class Sample:
            def __init__(self, value):
                self.value = value

        def joined(samples):
            return Sample(torch.stack([sample.value for sample in samples]))

        print("runs", sys.argv[1:])
        loader = torch.utils.data.DataLoader(Rows(torch.arange(3)), 2, num_workers=2, collate_fn=joined)
        for epoch in range(2):
            for batch in loader:
                print(epoch, type(batch) is Sample, batch.value.tolist())
        """,
        "a",
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout == "runs ['a']\n" + "".join(f"{n} True [0, 1]\n{n} True [2]\n" for n in range(2))


def test_a_data_set_of_a_module_that_runs_as_a_script(tmp_path):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").touch()
    (tmp_path / "pack" / "base.py").write_text("FACTOR = 3\n", encoding="utf-8")
    (tmp_path / "pack" / "tool.py").write_text(
        "import torch\nfrom .base import FACTOR\n"
        "class Rows(torch.utils.data.Dataset):\n"
        "    def __len__(self):\n        return 2\n"
        "    def __getitem__(self, at):\n        return at * FACTOR\n"
        "for x in torch.utils.data.DataLoader(Rows(), 2, num_workers=1):\n    print(x.tolist())\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "netcl.torch", "-m", "pack.tool"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 3]\n", "")


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


SPAWN = """
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp

    def work(rank, scale, queue):
        queue.put((rank, (torch.ones(2) * rank * scale).sum().item(), torch.__name__))

    def fail(rank):
        raise ValueError(f"rank {rank} fails")

    def reduce(rank, size):
        dist.init_process_group("gloo", rank=rank, world_size=size)
        x = torch.ones(2)
        dist.all_reduce(x)
        print(x.tolist(), flush=True)

    if __name__ == "__main__":
        queue = mp.get_context("spawn").SimpleQueue()
        mp.spawn(work, args=(3, queue), nprocs=2)
        print(sorted(queue.get() for _ in range(2)))
        mp.spawn(reduce, args=(1,))
        try:
            mp.spawn(fail, nprocs=1)
        except mp.ProcessRaisedException as error:
            print("raised:", str(error).strip().splitlines()[-1])
        context = mp.spawn(reduce, args=(2,), nprocs=2, join=False)
        print(len(context.pids()))
        try:
            while not context.join():
                pass
        except mp.ProcessRaisedException as error:
            print(str(error).strip().splitlines()[-1])
"""


def test_spawned_processes_are_of_the_same_torch(tmp_path):
    done = run(tmp_path, SPAWN)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:4] == [
        "[(0, 0.0, 'torch'), (1, 6.0, 'torch')]",
        "[1.0, 1.0]",
        "raised: ValueError: rank 0 fails",
        "2",
    ]
    assert "start the script with python -m netcl.distributed.run -n 2" in lines[4]
    assert "MASTER_PORT" in lines[4]
