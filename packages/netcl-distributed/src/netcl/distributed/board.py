"""The collectives of ranks that see one memory: each writes into its own window, and all read after they have met.

A board gives every rank a window of two halves. What a rank writes before meeting number k lies in half k % 2, and is
read between the meetings k and k + 1; so one meeting between writing and reading is enough, and nothing is overwritten
that somebody still reads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

import numpy as np

from netcl.core.errors import CollectiveMismatchError, CollectiveTimeoutError
from netcl.distributed.errors import RankFailedError
from netcl.distributed.folding import Array, even_bounds, fold
from netcl.distributed.group import ProcessGroup, Signature, mismatch
from netcl.distributed.patience import Patience

__all__ = ["ABORT_CODE", "ABORT_RANK", "ATTACHED", "DONE", "FAILED", "HEAD", "RANK_WORDS", "Board", "BoardGroup"]

# Words of the board: the abort code and rank, then per rank the number of meetings it came to, whether it has ended,
# and of its letters: to whom, how many were written, how many were taken. A rank's words fill two lines of the cache,
# so that no rank's counter shares one with another's.
HEAD = 16
RANK_WORDS = 16
ABORT_CODE, ABORT_RANK = 0, 1
COUNT, DONE, LETTER_TO, LETTERS, LETTERS_TAKEN, ATTACHED, SIGNS = range(7)

FAILED, MISMATCHED, LATE = 1, 2, 3
_LETTER_TEXT = 2  # the slot of texts behind the two of signatures, which change with the meetings as the halves do


class Board(ABC):
    """Counters, texts and windows that all ranks see; ``rank`` is this one."""

    def __init__(self, rank: int, size: int, window: int, words: list[int] | memoryview[int]) -> None:
        self.rank, self.size, self.window = rank, size, window
        self.words = words
        self.meetings = 0
        self._counts = [HEAD + RANK_WORDS * other + COUNT for other in range(size)]
        self._others = [index for other, index in enumerate(self._counts) if other != rank]
        self._signs = [[index + SIGNS + slot for index in self._counts] for slot in (0, 1)]
        self.timeout = 30.0

    @property
    def spins(self) -> int:
        """How often a rank looks at the others before it waits."""
        return 1

    # -- what a kind of memory brings ----------------------------------------------------------------------------------

    @abstractmethod
    def area(self, rank: int, part: int) -> Array:
        """The bytes of half 0 or 1 of a rank's window, or (part 2) of its letter box."""

    @abstractmethod
    def post(self, slot: int, text: str) -> None:
        """Shows a text of this rank: a signature (slot 0, 1) or what its letter is (slot 2)."""

    @abstractmethod
    def posted(self, rank: int, slot: int) -> str:
        """The text that a rank shows."""

    @abstractmethod
    def set_reason(self, text: str) -> None:
        """Says why the group is over."""

    @abstractmethod
    def reason(self) -> str:
        """Why the group is over."""

    @abstractmethod
    def until(self, ready: Callable[[], bool], patience: Patience) -> bool:
        """Waits until ``ready()`` or an abort; False where the patience is over."""

    @abstractmethod
    def wake(self) -> None:
        """Tells ranks that wait that a word has changed."""

    # -- meetings ------------------------------------------------------------------------------------------------------

    def meet(self) -> None:
        """Returns once all ranks have come; raises where one is gone, late, or the group is over."""
        number = self.meetings = self.meetings + 1
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

    def sign(self, text: str) -> None:
        """Shows at the next meeting what this rank is about to do."""
        slot = (self.meetings + 1) & 1
        self.words[self._signs[slot][self.rank]] = crc32(text.encode())
        self.post(slot, text)

    def agree(self) -> bool:
        """Whether all ranks showed the same at the last meeting."""
        words = self.words
        signs = self._signs[self.meetings & 1]
        own = words[signs[self.rank]]
        return not any(words[index] != own for index in signs)

    def shown(self) -> list[str]:
        """What each rank showed at the last meeting."""
        return [self.posted(rank, self.meetings & 1) for rank in range(self.size)]

    def _wait(self, ready: Callable[[], bool], missing: Callable[[], list[int]]) -> None:
        def ended() -> bool:
            return ready() or any(self.word(rank, DONE) for rank in missing())

        in_time = self.until(ended, Patience(self.timeout))
        if ready():
            return
        self.check()
        late = missing()
        gone = [rank for rank in late if self.word(rank, DONE)]
        if gone:
            self.abort(FAILED, gone[0], f"rank {gone[0]} has ended, the others wait for it in a collective")
        elif not in_time:
            names = ", ".join(f"rank {rank}" for rank in late)
            self.abort(LATE, late[0], f"{names} did not come within {self.timeout:g} s; rank {self.rank} waited")
        self.check()

    def abort(self, code: int, rank: int, reason: str) -> None:
        """Ends the group for all ranks; the first reason stays."""
        if not self.words[ABORT_CODE]:
            self.set_reason(reason)
            self.words[ABORT_RANK] = rank
            self.words[ABORT_CODE] = code
        self.wake()

    def check(self) -> None:
        """Raises what ended the group, if anything did."""
        code = self.words[ABORT_CODE]
        if code == FAILED:
            raise RankFailedError(self.words[ABORT_RANK], self.reason())
        if code == MISMATCHED:
            raise CollectiveMismatchError(self.reason())
        if code == LATE:
            raise CollectiveTimeoutError(self.reason())

    def word(self, rank: int, which: int) -> int:
        """One of a rank's words."""
        return self.words[HEAD + RANK_WORDS * rank + which]

    def set_word(self, rank: int, which: int, value: int) -> None:
        """Changes one of a rank's words."""
        self.words[HEAD + RANK_WORDS * rank + which] = value
        self.wake()

    # -- windows -------------------------------------------------------------------------------------------------------

    def own(self, dtype: Any) -> Array:
        """What this rank shows at the next meeting."""
        return self.area(self.rank, (self.meetings + 1) & 1).view(dtype)

    def read(self, rank: int, dtype: Any) -> Array:
        """What a rank showed at the last meeting."""
        return self.area(rank, self.meetings & 1).view(dtype)

    # -- letters -------------------------------------------------------------------------------------------------------

    def put_letter(self, to: int, text: str, content: Array) -> None:
        """Leaves a letter for rank ``to`` once the one before is taken."""
        me = self.rank
        self._wait(lambda: self.word(me, LETTERS) == self.word(me, LETTERS_TAKEN), lambda: [self.word(me, LETTER_TO)])
        self.area(me, 2)[: content.size] = content
        self.post(_LETTER_TEXT, text)
        self.set_word(me, LETTER_TO, to)
        self.set_word(me, LETTERS, self.word(me, LETTERS) + 1)

    def take_letter(self, source: int, text: str, out: Array) -> None:
        """Waits for a letter of rank ``source`` to this one and copies it; ``text`` is what it has to be."""

        def ready() -> bool:
            waiting = self.word(source, LETTERS) > self.word(source, LETTERS_TAKEN)
            return waiting and self.word(source, LETTER_TO) == self.rank

        self._wait(ready, lambda: [source])
        sent = self.posted(source, _LETTER_TEXT)
        if sent != text:
            reason = f"rank {source} sent {sent}, rank {self.rank} expected {text}"
            self.abort(MISMATCHED, source, reason)
            raise CollectiveMismatchError(reason, op="recv")
        out[...] = self.area(source, 2)[: out.size]
        self.set_word(source, LETTERS_TAKEN, self.word(source, LETTERS))


class BoardGroup(ProcessGroup):
    """A group whose ranks meet at a board."""

    def __init__(self, board: Board, timeout: float) -> None:
        self.board = board
        super().__init__(board.rank, board.size, timeout)
        self._unread = False  # signatures that nobody has compared yet

    @property
    def timeout(self) -> float:
        """How many seconds this rank waits for the others in a collective; may be set."""
        return self.board.timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self.board.timeout = seconds

    def _announce(self, signature: Signature) -> None:
        self._unread = True
        self.board.sign(signature.text)

    def _meet(self) -> None:
        self.board.meet()
        if self._unread:
            self._unread = False
            if not self.board.agree():
                error = mismatch(self.board.shown())
                self.board.abort(MISMATCHED, 0, str(error))
                raise error

    def _fold(self, source: Array, out: Array, op: str, low: int, high: int) -> None:
        board, dtype, me = self.board, source.dtype, self.rank
        step = board.window // dtype.itemsize
        for start in range(0, max(source.size, 1), step):
            stop = min(start + step, source.size)
            bounds = even_bounds(start, stop, self.size)
            mine, end = bounds[me], bounds[me + 1]
            # Each rank folds its share of the chunk; the share itself is nobody else's to read.
            shown = board.own(dtype)
            shown[: mine - start] = source[start:mine]
            shown[end - start : stop - start] = source[end:stop]
            self._meet()
            parts = [
                source[mine:end] if rank == me else board.read(rank, dtype)[mine - start : end - start]
                for rank in range(self.size)
            ]
            fold(parts, op, board.own(dtype)[mine - start : end - start])
            self._meet()
            for rank in range(self.size):
                first, last = max(bounds[rank], low), min(bounds[rank + 1], high)
                if first < last:
                    out[first - low : last - low] = board.read(rank, dtype)[first - start : last - start]

    def _collect(self, own: Array, counts: Sequence[int]) -> Array:
        board, dtype = self.board, own.dtype
        out = np.empty(sum(counts), dtype)
        places = np.cumsum([0, *counts])
        step = board.window // dtype.itemsize
        for start in range(0, max(*counts, 1), step):
            piece = own[start : start + step]
            board.own(dtype)[: piece.size] = piece
            self._meet()
            for place, count, rank in zip(places, counts, range(self.size)):
                stop = min(start + step, count)
                if start < stop:
                    out[place + start : place + stop] = board.read(rank, dtype)[: stop - start]
        return out

    def _spread(self, source: Array | None, out: Array, root: int, low: int, total: int) -> None:
        board, dtype = self.board, out.dtype
        step = board.window // dtype.itemsize
        for start in range(0, max(total, 1), step):
            stop = min(start + step, total)
            if source is not None:
                board.own(dtype)[: stop - start] = source[start:stop]
            self._meet()
            first, last = max(start, low), min(stop, low + out.size)
            if first < last:
                out[first - low : last - low] = board.read(root, dtype)[first - start : last - start]

    def _send(self, values: Array, to: int, text: str) -> None:
        content = values.view(np.uint8)
        for start in range(0, max(content.size, 1), self.board.window):
            self.board.put_letter(to, text, content[start : start + self.board.window])

    def _recv(self, out: Array, source: int, text: str) -> None:
        content = out.view(np.uint8)
        for start in range(0, max(content.size, 1), self.board.window):
            self.board.take_letter(source, text, content[start : start + self.board.window])
