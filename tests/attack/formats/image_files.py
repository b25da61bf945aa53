"""Images: chunks of PNG with right checksums, segments of JPEG, fields of other formats, and records of CIFAR."""

from __future__ import annotations

import importlib.util
import io
import random
import struct
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from registry import Run, attack

from formats.judge import Judge
from formats.mutate import NUMBERS, byte_edits, edited
from netcl.data import CIFAR10Arrays
from netcl.data.datasets import default_loader

SIGNATURE = b"\x89PNG\r\n\x1a\n"
KINDS = ("PNG", "JPEG", "GIF", "BMP", "PPM", "TIFF", "WEBP")


def library() -> str:
    """Returns the name of the package if it is missing."""
    return "" if importlib.util.find_spec("PIL") else "the package Pillow"


@lru_cache
def pictures(kind: str) -> list[bytes]:
    """Returns images of a format in several modes, JPEG's with all their scans."""
    from PIL import Image, features

    if kind == "WEBP" and not features.check("webp"):
        return []
    rows = np.arange(24 * 20 * 3, dtype=np.uint8).reshape(24, 20, 3)
    made = []
    for mode in ("RGB", "L", "P", "RGBA", "CMYK", "1"):
        for options in ({}, {"progressive": True} if kind == "JPEG" else {"compression": "tiff_lzw"}):
            file = io.BytesIO()
            try:
                Image.fromarray(rows).convert(mode).save(file, kind, **options)
            except (OSError, ValueError):  # a mode that the format lacks
                continue
            made.append(file.getvalue())
    return made


def chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    """Returns the chunks of a PNG, as (name, contents)."""
    found, at = [], len(SIGNATURE)
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        found.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + length]))
        at += 12 + length
    return found


def png(parts: list[tuple[bytes, bytes]]) -> bytes:
    """Returns the PNG of these chunks, with the right checksums."""
    return SIGNATURE + b"".join(
        struct.pack(">I", len(text)) + name + text + struct.pack(">I", zlib.crc32(name + text)) for name, text in parts
    )


def chunk_changes(data: bytes, rng: random.Random) -> list[tuple[bytes, bytes]]:
    """Returns the chunks with one to three changes: sizes, contents, another order."""
    parts = chunks(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(parts))
        name, text = parts[at]
        action = rng.randrange(6)
        if action == 0 and name == b"IHDR":
            sizes = [rng.choice(NUMBERS) & 0xFFFFFFFF for _ in range(2)]
            parts[at] = name, struct.pack(">2I", *sizes) + text[8:]
        elif action == 1:
            parts[at] = name, edited(text, byte_edits(text, rng))
        elif action == 2:
            packed = zlib.compress(bytes(rng.choice((0, 10, 10**6))))
            kinds = (b"tEXt", text), (b"zTXt", b"a\0\0" + packed), (b"iCCP", b"a\0\0" + packed), (b"eXIf", text)
            parts.insert(at, rng.choice((*kinds, (b"iTXt", b"a\0\1\0\0\0" + packed))))
        elif action == 3:
            parts.insert(rng.randrange(len(parts) + 1), parts[at])
        elif action == 4 and len(parts) > 1:
            del parts[at]
        else:
            parts[at] = rng.choice((b"IHDR", b"PLTE", b"IDAT", b"tRNS", b"acTL", b"fdAT", b"zzzz")), text
    return parts


@attack("formats.images", needs=library)
def images(run: Run) -> None:
    """An image is read, or refused with a ValueError."""
    from PIL import Image

    start = pictures("PNG")[0]
    judge = Judge(run, ".png", lambda path: default_loader(str(path)), start, (ValueError,))
    Image.init()  # the modules of rare formats, which are imported at the first damaged file
    for rng in run.cases():
        kind = rng.choice(KINDS)
        good = rng.choice(pictures(kind) or [start])
        if kind == "PNG" and rng.random() < 0.7:
            judge.case(chunk_changes(good, rng), lambda parts: png(list(parts)))
        else:
            judge.case(byte_edits(good, rng), lambda edits, good=good: edited(good, edits))


@attack("formats.bombs.images", needs=library)
def bombs(run: Run) -> None:
    """Few bytes of many pixels, and passes over them."""
    from PIL import Image

    def blank(size: int, mode: str, kind: str, **options: Any) -> bytes:
        file = io.BytesIO()
        Image.new(mode, (size, size)).save(file, kind, **options)
        return file.getvalue()

    @lru_cache
    def made(size: int) -> dict[str, bytes]:
        jpeg = blank(size, "RGB", "JPEG", progressive=True)
        last = jpeg.rindex(b"\xff\xda")
        scan = jpeg[jpeg.rindex(b"\xff\xc4", 0, last) : -2]
        return {
            "PNG": blank(size, "1", "PNG"),
            "PNG with a palette": blank(size, "P", "PNG"),
            "TIFF of one strip": blank(size, "RGBA", "TIFF", compression="tiff_adobe_deflate", strip_size=1 << 30),
            "JPEG": blank(size, "CMYK", "JPEG", progressive=True),
            "JPEG of many scans": jpeg[:-2] + scan * 3000 + jpeg[-2:],
            "GIF": blank(size, "P", "GIF"),
        }

    judge = Judge(run, ".png", lambda path: default_loader(str(path)), blank(16, "RGB", "PNG"), (ValueError,))
    names = sorted(made(500))
    for rng in run.cases(least=len(names) if run.seconds >= 1 else 1):
        name = names[run.case % len(names)]
        size = rng.choice((500, 3900) if run.seconds < 10 else (500, 3900, 8000))
        found = judge.symptom(made(size)[name])
        run.count(judge.outcome)
        if found:
            run.fail(f"{name} of {size} x {size}: {found}", reproducer=judge.detail, data=made(size)[name])


@attack("formats.records")
def records(run: Run) -> None:
    """Binary records of CIFAR are read, or refused with a ValueError."""
    good = bytes(range(3)) * 1024 + bytes([1])

    def read(path: Path) -> Any:
        (run.folder / "test_batch.bin").write_bytes(path.read_bytes())
        try:
            return CIFAR10Arrays(run.folder, train=False)
        except ValueError as error:
            raise ValueError(str(error).replace(str(run.folder), str(path))) from error

    judge = Judge(run, ".bin", read, good, (ValueError,))
    build: Callable[[Any], bytes]
    for rng in run.cases():
        whole = good * rng.choice((0, 1, 3))
        build = lambda edits, whole=whole: edited(whole, edits)  # noqa: E731
        judge.case(byte_edits(whole, rng) if whole else [], build)
