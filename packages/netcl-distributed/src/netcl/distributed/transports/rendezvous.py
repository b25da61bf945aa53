"""Processes of one host that no launcher of netcl has started, such as by ``spawn``, meet at a TCP port.

Rank 0 listens at MASTER_PORT of the loopback interface, and tells the others the path of its shared memory. The
connections stay open: the end of one tells rank 0, and the end of rank 0 tells the others, that a process is gone, so
that collectives raise RankFailedError as they do under the launcher.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from netcl.core.errors import CollectiveTimeoutError, UnsupportedError
from netcl.distributed.errors import RankFailedError
from netcl.distributed.transports.backoff import Deadline
from netcl.distributed.transports.shared import MappedBuffer, SharedGroup, create
from netcl.distributed.transports.shared_buffer import ATTACHED, DONE, FAILED

_GREETING = b"netcl-rendezvous 1\n"
_RETRY_S = 0.05
_LINE = 4096


def numbers(world_size: int, rank: int, init_method: str | None, environment: Mapping[str, str]) -> tuple[int, int]:
    """Returns (rank, number of ranks) of this process: given, in the query of ``init_method``, or RANK and WORLD_SIZE
    of ``environment``; (-1, -1) if they are not there.

    Raises ValueError if only one of the two is known, or the rank is not below the number.
    """
    query = parse_qs(urlsplit(init_method or "").query)
    values = []
    for argument, name in ((rank, "rank"), (world_size, "world_size")):
        text = query[name][0] if name in query else environment.get(name.upper(), "")
        values.append(argument if argument >= 0 else int(text) if text else -1)
    rank, world_size = values
    if (rank < 0) != (world_size < 0) or world_size == 0 or rank >= world_size >= 0:
        raise ValueError(
            f"init_process_group: this process is rank {rank} of {world_size}; give rank and world_size, or set RANK "
            "and WORLD_SIZE"
        )
    return rank, world_size


def address_of(init_method: str | None) -> tuple[str, int]:
    """Returns the host and port of ``init_method``: "tcp://host:port", or "env://" and None for MASTER_ADDR and
    MASTER_PORT.

    Raises UnsupportedError for another kind and for another host, ValueError if the port is not known.
    """
    parts = urlsplit(init_method or "env://")
    if parts.scheme == "tcp":
        host, port = parts.hostname or "", parts.port
    elif parts.scheme == "env":
        host, told = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
        port = int(told) if told.isdecimal() else None
    else:
        raise UnsupportedError(
            f"init_process_group: expected init_method 'env://' or 'tcp://localhost:port', got {init_method!r}"
        )
    if not host or port is None:
        raise ValueError(
            "init_process_group: the port at which the ranks meet is not known; start the script with python -m "
            "netcl.distributed.run -n 2, or set MASTER_ADDR=localhost and MASTER_PORT"
        )
    if not _is_here(host):
        raise UnsupportedError(
            f"init_process_group: {host} is another host; ranks on several hosts are started by mpiexec, with "
            "backend='mpi'"
        )
    return host, port


def _is_here(host: str) -> bool:
    """True if a name or an address is this host's."""
    if host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", socket.gethostname()):
        return True
    try:
        addresses = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in addresses:
        with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as probe:
            probe.bind((address[0], 0))
            return True
    return False


def meet(rank: int, size: int, port: int, timeout: float) -> MetGroup:
    """Returns the group of this process; all ``size`` of them call this function.

    Raises CollectiveTimeoutError if the others are not there after ``timeout`` seconds, RuntimeError if the port is
    used by another program.
    """
    return _listen(size, port, timeout) if rank == 0 else _connect(rank, size, port, timeout)


def _listen(size: int, port: int, timeout: float) -> MetGroup:
    path = create(size)
    arrived: dict[int, socket.socket] = {}
    deadline = Deadline(timeout)
    try:
        with socket.socket() as server:
            if os.name != "nt":
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                server.bind(("127.0.0.1", port))
            except OSError as error:
                raise RuntimeError(
                    f"init_process_group: port {port} of MASTER_PORT is used by another program: {error.strerror}"
                ) from error
            server.listen(size)
            server.settimeout(_RETRY_S)
            while len(arrived) < size - 1:
                if deadline.expired():
                    late = sorted(set(range(1, size)) - set(arrived))
                    raise CollectiveTimeoutError(f"init_process_group: the ranks {late} did not come in {timeout:g} s")
                with contextlib.suppress(socket.timeout):
                    _welcome(server.accept()[0], size, path, arrived)
        buffer = MappedBuffer(path, 0)
        buffer.set_word(0, ATTACHED, 1)
        # Its name is removed when all ranks have opened it: the memory is freed with the last process in any case.
        while not all(buffer.word(rank, ATTACHED) for rank in range(size)):
            if deadline.expired():
                raise CollectiveTimeoutError(f"init_process_group: a rank did not open {path} in {timeout:g} s")
            time.sleep(_RETRY_S / 10)
    except BaseException:
        for connection in arrived.values():
            connection.close()
        raise
    finally:
        if os.name != "nt":
            path.unlink(missing_ok=True)
    return MetGroup(buffer, timeout, arrived)


def _welcome(connection: socket.socket, size: int, path: Path, arrived: dict[int, socket.socket]) -> None:
    """Sends the path to a rank that has connected; closes connections of other programs."""
    connection.settimeout(1.0)
    try:
        words = _line(connection).split()
        rank, told = (int(words[2]), int(words[3])) if len(words) == 4 else (-1, -1)
    except (OSError, ValueError):
        rank, told = -1, -1
    if not 0 < rank < size or told != size or rank in arrived:
        with contextlib.suppress(OSError):
            connection.sendall(f"refused: this is rank 0 of {size}, there comes rank {rank} of {told}\n".encode())
        connection.close()
        return
    try:
        connection.sendall(f"{path}\n".encode())
    except OSError:  # it has ended; the wait for all ranks says so
        connection.close()
        return
    arrived[rank] = connection


def _connect(rank: int, size: int, port: int, timeout: float) -> MetGroup:
    deadline = Deadline(timeout)
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=1.0)
            if connection.getsockname() == connection.getpeername():
                # Before rank 0 listens, the system may choose the port itself for this end, and connect it to itself.
                connection.close()
                raise ConnectionRefusedError
        except OSError:
            if deadline.expired():
                raise CollectiveTimeoutError(
                    f"init_process_group: rank 0 did not listen at port {port} within {timeout:g} s"
                ) from None
            time.sleep(_RETRY_S)
            continue
        break
    connection.settimeout(max(timeout, 1.0))
    try:
        connection.sendall(_GREETING.rstrip(b"\n") + f" {rank} {size}\n".encode())
        path = _line(connection)
    except OSError as error:
        connection.close()
        raise CollectiveTimeoutError(f"init_process_group: rank 0 did not answer at port {port}: {error}") from error
    if not path or path.startswith("refused"):
        connection.close()
        if not path:
            raise RankFailedError(0, "rank 0 has ended before the group was complete")
        raise RuntimeError(f"init_process_group: {path}")
    try:
        buffer = MappedBuffer(path, rank)
    except BaseException:
        connection.close()
        raise
    buffer.set_word(rank, ATTACHED, 1)
    return MetGroup(buffer, timeout, {0: connection})


def _line(connection: socket.socket) -> str:
    line = b""
    while not line.endswith(b"\n") and len(line) < _LINE:
        part = connection.recv(1)
        if not part:
            break
        line += part
    return line.decode("utf-8", "replace").strip()


class MetGroup(SharedGroup):
    """A rank that is a process of this host and watches the processes at its connections."""

    def __init__(self, buffer: MappedBuffer, timeout: float, others: dict[int, socket.socket]) -> None:
        super().__init__(buffer, timeout)
        self._others = others
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="netcl-rendezvous", daemon=True)
        self._watcher.start()

    def _watch(self) -> None:
        """Reports the ranks with connections that end before they have left the group."""
        with selectors.DefaultSelector() as selector:
            for rank, connection in self._others.items():
                connection.setblocking(False)
                selector.register(connection, selectors.EVENT_READ, rank)
            while not self._ended.is_set() and selector.get_map():
                for key, _ in selector.select(timeout=0.2):
                    with contextlib.suppress(BlockingIOError):
                        if _is_open(key.fileobj):
                            continue
                        selector.unregister(key.fileobj)
                        rank = int(key.data)
                        if not self._ended.is_set() and not self.buffer.word(rank, DONE):
                            self.buffer.abort(FAILED, rank, f"rank {rank} has ended without destroy_process_group()")

    def close(self) -> None:
        """Leaves the group: collectives of the others that wait for this rank raise RankFailedError."""
        self.buffer.set_word(self.rank, DONE, 1)
        self._ended.set()
        self._watcher.join()
        for connection in self._others.values():
            connection.close()
        super().close()


def _is_open(connection: object) -> bool:
    assert isinstance(connection, socket.socket)
    try:
        return bool(connection.recv(64))
    except ConnectionError:
        return False
