"""SharedBuffer: memory of all ranks; each writes into its own window, and all read after a barrier.

Every rank has a window of two halves (double buffering). Data written before barrier k is in half k % 2, and is read
between the barriers k and k + 1; so one barrier between writing and reading suffices, and no data is overwritten while
another rank reads it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

from netcl.core.errors import CollectiveMismatchError, CollectiveTimeoutError
from netcl.distributed.errors import RankFailedError
from netcl.distributed.reductions import Array
from netcl.distributed.transports.backoff import Deadline

# Words of the buffer: the abort code and rank, then per rank the number of barriers it has reached, a flag that it has
# ended, and for point-to-point messages the destination, the number sent and the number received. A rank's words fill
# two cache lines, so that the counters of two ranks never share one (no false sharing).
HEAD = 16
RANK_WORDS = 16
ABORT_CODE, ABORT_RANK = 0, 1
COUNT, DONE, MESSAGE_TO, MESSAGES_SENT, MESSAGES_RECEIVED, ATTACHED, SIGNATURES = range(7)

FAILED, MISMATCHED, LATE = 1, 2, 3
_MESSAGE_HEADER = 2  # the text slot after the two of signatures, which alternate with the barriers as the halves do


class SharedBuffer(ABC):
    """Counters, texts and windows that are visible to all ranks; ``rank`` is this one."""

    def __init__(self, rank: int, size: int, window: int, words: list[int] | memoryview[int]) -> None:
        self.rank: int = rank
        self.size: int = size
        self.window: int = window
        self.words = words
        self.barriers: int = 0
        self._counts = [HEAD + RANK_WORDS * other + COUNT for other in range(size)]
        self._others = [index for other, index in enumerate(self._counts) if other != rank]
        self._signatures = [[index + SIGNATURES + slot for index in self._counts] for slot in (0, 1)]
        self.timeout: float = 30.0

    @property
    def spins(self) -> int:
        """The number of times that a rank polls the others before it waits."""
        return 1

    # -- implemented per kind of memory --------------------------------------------------------------------------------

    @abstractmethod
    def area(self, rank: int, part: int) -> Array:
        """Returns the bytes of half 0 or 1 of a rank's window, or (part 2) of its message buffer."""

    @abstractmethod
    def post(self, slot: int, text: str) -> None:
        """Publishes a text of this rank: a signature (slot 0, 1) or the header of its message (slot 2)."""

    @abstractmethod
    def posted(self, rank: int, slot: int) -> str:
        """Returns the text that a rank has published."""

    @abstractmethod
    def set_reason(self, text: str) -> None:
        """Stores the reason why the group was aborted."""

    @abstractmethod
    def reason(self) -> str:
        """Returns the reason why the group was aborted."""

    @abstractmethod
    def until(self, ready: Callable[[], bool], deadline: Deadline) -> bool:
        """Waits until ``ready()`` or an abort; returns False if the deadline has expired."""

    @abstractmethod
    def wake(self) -> None:
        """Wakes waiting ranks after a word has changed."""

    # -- barriers ------------------------------------------------------------------------------------------------------

    def barrier(self) -> None:
        """Returns once all ranks have reached this barrier; raises if a rank is gone or late, or the group was
        aborted.
        """
        number = self.barriers = self.barriers + 1
        words = self.words
        if words[ABORT_CODE]:
            self.check()
        words[self._counts[self.rank]] = number
        self.wake()
        others = self._others

        for _ in range(self.spins):
            for index in others:
                if words[index] < number:
                    break
            else:
                return
        self._wait(
            lambda: all(words[index] >= number for index in others),
            lambda: [at for at, index in enumerate(self._counts) if words[index] < number],
        )

    def post_signature(self, text: str) -> None:
        """Publishes the signature of this rank's next collective, for the next barrier."""
        slot = (self.barriers + 1) & 1
        self.words[self._signatures[slot][self.rank]] = crc32(text.encode())
        self.post(slot, text)

    def signatures_match(self) -> bool:
        """Returns True if all ranks published the same signature at the last barrier."""
        words = self.words
        signatures = self._signatures[self.barriers & 1]
        own = words[signatures[self.rank]]
        return not any(words[index] != own for index in signatures)

    def signatures(self) -> list[str]:
        """Returns the signature that each rank published at the last barrier."""
        return [self.posted(rank, self.barriers & 1) for rank in range(self.size)]

    def _wait(self, ready: Callable[[], bool], missing: Callable[[], list[int]]) -> None:
        def ended() -> bool:
            return ready() or any(self.word(rank, DONE) for rank in missing())

        in_time = self.until(ended, Deadline(self.timeout))
        if ready():
            return
        self.report_missing(missing(), not in_time)

    def report_missing(self, missing: Sequence[int], too_late: bool) -> None:
        """Aborts the group, and raises the error, if one of the ranks that this one waits for has ended, or if it is
        ``too_late`` for any of them. Raises the error of an earlier abort.
        """
        self.check()
        gone = [rank for rank in missing if self.word(rank, DONE)]
        if gone:
            self.abort(FAILED, gone[0], f"rank {gone[0]} has ended, the others wait for it in a collective")
        elif too_late and missing:
            names = ", ".join(f"rank {rank}" for rank in missing)
            self.abort(LATE, missing[0], f"{names} did not come within {self.timeout:g} s; rank {self.rank} waited")
        self.check()

    def report_error(self, error: BaseException) -> None:
        """Aborts the group for an error of this rank, if it has not been aborted."""
        code = MISMATCHED if isinstance(error, CollectiveMismatchError) else FAILED
        text = str(error) if code == MISMATCHED else f"rank {self.rank} raised {type(error).__name__}: {error}"
        self.abort(code, self.rank, text)

    def abort(self, code: int, rank: int, reason: str) -> None:
        """Aborts the group for all ranks; the first reason is kept."""
        if not self.words[ABORT_CODE]:
            self.set_reason(reason)
            self.words[ABORT_RANK] = rank
            self.words[ABORT_CODE] = code
        self.wake()

    def check(self) -> None:
        """Raises the error that aborted the group, if any."""
        code = self.words[ABORT_CODE]
        if code == FAILED:
            raise RankFailedError(self.words[ABORT_RANK], self.reason())
        if code == MISMATCHED:
            raise CollectiveMismatchError(self.reason())
        if code == LATE:
            raise CollectiveTimeoutError(self.reason())

    def word(self, rank: int, which: int) -> int:
        """Returns one of a rank's words."""
        return self.words[HEAD + RANK_WORDS * rank + which]

    def set_word(self, rank: int, which: int, value: int) -> None:
        """Changes one of a rank's words."""
        self.words[HEAD + RANK_WORDS * rank + which] = value
        self.wake()

    # -- windows -------------------------------------------------------------------------------------------------------

    def own(self, dtype: Any) -> Array:
        """Returns this rank's half of the window that is visible after the next barrier."""
        return self.area(self.rank, (self.barriers + 1) & 1).view(dtype)

    def read(self, rank: int, dtype: Any) -> Array:
        """Returns the half of a rank's window that became visible at the last barrier."""
        return self.area(rank, self.barriers & 1).view(dtype)

    # -- messages ------------------------------------------------------------------------------------------------------

    def send_message(self, to: int, text: str, content: Array) -> None:
        """Writes a message for rank ``to`` after the previous one was received."""
        me = self.rank
        self._wait(
            lambda: self.word(me, MESSAGES_SENT) == self.word(me, MESSAGES_RECEIVED),
            lambda: [self.word(me, MESSAGE_TO)],
        )
        self.area(me, 2)[: content.size] = content
        self.post(_MESSAGE_HEADER, text)
        self.set_word(me, MESSAGE_TO, to)
        self.set_word(me, MESSAGES_SENT, self.word(me, MESSAGES_SENT) + 1)

    def receive_message(self, source: int, text: str, out: Array) -> None:
        """Waits for a message of rank ``source`` to this one and copies it; ``text`` is the expected header."""

        def ready() -> bool:
            waiting = self.word(source, MESSAGES_SENT) > self.word(source, MESSAGES_RECEIVED)
            return waiting and self.word(source, MESSAGE_TO) == self.rank

        self._wait(ready, lambda: [source])
        sent = self.posted(source, _MESSAGE_HEADER)
        if sent != text:
            reason = f"rank {source} sent {sent}, rank {self.rank} expected {text}"
            self.abort(MISMATCHED, source, reason)
            raise CollectiveMismatchError(reason, op="recv")
        out[...] = self.area(source, 2)[: out.size]
        self.set_word(source, MESSAGES_RECEIVED, self.word(source, MESSAGES_SENT))
