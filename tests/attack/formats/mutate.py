"""Mutations that formats share: edits of bytes, of JSON values, of the instructions of pickles."""

from __future__ import annotations

import io
import pickletools
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

NUMBERS = (0, 1, -1, 2, 7, 255, 256, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1, 10**9)
TEXTS = ("", "a", "\0", "..", "/etc/passwd", "weight", "." * 3000, "a." * 50, "é" * 9, "float32", "uint16", "bfloat16")
VALUES: tuple[Any, ...] = (
    *(None, True, False, [], {}, [[]], {"a": 1}, 0.5, -1.5, 1e308, float("inf"), float("nan"), 10**30, [1] * 40),
    *NUMBERS,
    *TEXTS,
)


@dataclass(frozen=True)
class Edit:
    """Bytes ``start`` to ``end`` of the base are replaced by ``data``."""

    start: int
    end: int
    data: bytes


def edited(base: bytes, edits: Sequence[Edit]) -> bytes:
    """Returns the base with the edits, which refer to places in the base; the last ones of overlapping edits win."""
    data = bytearray(base)
    for edit in sorted(edits, key=lambda edit: -edit.start):
        data[edit.start : edit.end] = edit.data
    return bytes(data)


def byte_edits(base: bytes, rng: random.Random) -> list[Edit]:
    """Returns one to eight random edits: bits, numbers at their limits, cuts, copies, insertions."""
    return [_byte_edit(base, rng) for _ in range(rng.choice((1, 1, 1, 2, 3, 8)))]


def _byte_edit(base: bytes, rng: random.Random) -> Edit:
    at = rng.randrange(max(1, len(base)))
    kind = rng.randrange(7)
    if kind == 0 and base:
        return Edit(at, at + 1, bytes([base[at] ^ 1 << rng.randrange(8)]))
    if kind == 1:
        return Edit(at, at + 1, bytes([rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))]))
    if kind == 2:
        size = rng.choice((2, 4, 8))
        form = rng.choice("<>")
        number = rng.choice(NUMBERS) & (1 << 8 * size) - 1
        return Edit(at, at + size, struct.pack(form + "xxHxIxxxQ"[size], number))
    if kind == 3:
        return Edit(at, min(len(base), at + rng.choice((1, 4, 64, 10**9))), b"")
    if kind == 4:
        start = rng.randrange(max(1, len(base)))
        return Edit(at, at, base[start : start + rng.choice((4, 32, 300))])
    if kind == 5:
        return Edit(at, at, rng.randbytes(rng.choice((1, 4, 40))))
    start = rng.randrange(max(1, len(base)))
    size = rng.choice((1, 8, 46))
    return Edit(at, at + size, base[start : start + size])


def json_value(value: Any, rng: random.Random, names: Sequence[str] = ()) -> Any:
    """Returns a copy of plain values with one change at a random depth; ``names`` are texts of the format."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        copy = dict(value)
        key = rng.choice(list(copy))
        action = rng.randrange(12)
        if action == 0:
            del copy[key]
        elif action == 1:
            copy[rng.choice((*TEXTS, *names))] = copy[key]
        else:
            copy[key] = json_value(copy[key], rng, names)
        return copy
    if isinstance(value, list) and value and rng.random() < 0.85:
        items = list(value)
        at = rng.randrange(len(items))
        action = rng.randrange(12)
        if action == 0:
            del items[at]
        elif action == 1:
            items += [items[at]] * rng.choice((1, 3, 200))
        else:
            items[at] = json_value(items[at], rng, names)
        return items
    if isinstance(value, int) and rng.random() < 0.5:
        return value + rng.choice((-1, 1, 10**9)) if rng.random() < 0.5 else value * rng.choice((-1, 2, 10**6))
    if rng.random() < 0.02:
        for _ in range(rng.choice((50, 500))):
            value = [value]
        return value
    if names and isinstance(value, str) and rng.random() < 0.7:
        return rng.choice(names)
    return rng.choice(VALUES)


def instructions(program: bytes) -> list[bytes]:
    """Returns the instructions of a pickle with their arguments, in pieces."""
    places = [place for _, _, place in pickletools.genops(io.BytesIO(program)) if place is not None]
    return [program[start:end] for start, end in zip(places, [*places[1:], len(program)])]


# One of each kind, with arguments that ask for much.
OPCODES = (
    *(b"(", b")", b"]", b"}", b".", b"0", b"1", b"2", b"a", b"e", b"s", b"u", b"t", b"d", b"l", b"R", b"b", b"N", b"Q"),
    *(b"\x85", b"\x86", b"\x87", b"\x88", b"\x89", b"\x90", b"\x91", b"\x93", b"\x94", b"\x81", b"\x92", b"\x8f"),
    *(b"K\x00", b"J\xff\xff\xff\xff", b"M\xff\xff", b"h\x00", b"q\x00", b"j\xff\xff\xff\x7f", b"r\xff\xff\xff\x7f"),
    *(b"X\xff\xff\xff\x7f", b"B\xff\xff\xff\x7f", b"\x8d" + b"\xff" * 7 + b"\x7f", b"\x8e" + b"\xff" * 5 + b"\0" * 3),
    *(b"\x96\xff\xff\xff\xff\x0f\0\0\0", b"\x8b\xff\xff\xff\x7f", b"I99999999999999999999\n", b"L1L\n", b"F1e999\n"),
    *(
        b"cos\nsystem\n",
        b"cnumpy\nndarray\n",
        b"cnumpy\ndtype\n",
        b"c_codecs\nencode\n",
        b"\x82\x01",
        b"\x84\x01\0\0\0",
    ),
    *(b"X\x01\x00\x00\x00a", b"U\x01a", b"Pid\n", b"G" + b"\x7f\xf0" + b"\0" * 6, b"\x80\x09", b"\x95" + b"\xff" * 8),
)


def program(base: Sequence[bytes], rng: random.Random) -> list[bytes]:
    """Returns the instructions of a pickle with one to four changes."""
    made = list(base)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(made))
        action = rng.randrange(6)
        if action == 0:
            del made[at]
        elif action == 1:
            made[at:at] = [rng.choice(OPCODES)] * rng.choice((1, 1, 2, 60))
        elif action == 2:
            made[at] = rng.choice(OPCODES)
        elif action == 3:
            made[at:at] = made[at : at + rng.choice((1, 5, 30))]
        elif action == 4:
            other = rng.randrange(len(made))
            made[at], made[other] = made[other], made[at]
        elif len(made[at]) > 1:
            piece = bytearray(made[at])
            piece[rng.randrange(1, len(piece))] = rng.randrange(256)
            made[at] = bytes(piece)
        if not made:
            made = [b"."]
    return made
