"""Frames through pipes: an eight-byte length, and that many bytes."""

import os
import selectors
import time
from typing import IO


def write_in_time(pipe: IO[bytes], frames: bytes, due_s: float) -> None:
    """Have the process take it all; a large model is more than a pipe holds.

    Raises:
        TimeoutError: if it does not take it in time.
        OSError: if it has ended.
    """
    left = memoryview(frames)
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_WRITE)
        while left:
            if not selector.select(max(0.0, due_s - time.monotonic())):
                raise TimeoutError
            left = left[os.write(pipe.fileno(), left) :]


def read_in_time(pipe: IO[bytes], due_s: float) -> bytes:
    """One frame.

    Raises:
        TimeoutError: if it is not complete in time.
        EOFError: if the process has ended.
    """
    received = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(received) < 8 or len(received) < 8 + int.from_bytes(received[:8], "little"):
            if not selector.select(max(0.0, due_s - time.monotonic())):
                raise TimeoutError
            part = os.read(pipe.fileno(), 1 << 16)
            if not part:
                raise EOFError("it ended")
            received += part
    return bytes(received[8:])


def frame(body: bytes) -> bytes:
    """A body as it goes through a pipe."""
    return len(body).to_bytes(8, "little") + body


def write(pipe: IO[bytes], body: bytes) -> None:
    """Write a frame, waiting as long as it takes."""
    pipe.write(frame(body))
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> bytes | None:
    """The next frame, waited for as long as it takes; None where the pipe ends."""
    size = pipe.read(8)
    return pipe.read(int.from_bytes(size, "little")) if len(size) == 8 else None
