"""Logs as JSON lines. Names and messages from outside cannot forge a line, colour a terminal, or flood it."""

import json
import logging
import unicodedata
from typing import TextIO

from antecast_executor.clock import to_text

MAX_TEXT = 2000


def clean(text: object, limit: int = MAX_TEXT) -> str:
    """Text without control, format and surrogate characters, cut to `limit`."""
    plain = "".join(
        "\N{REPLACEMENT CHARACTER}"
        if unicodedata.category(letter) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        else letter
        for letter in str(text)[: limit + 1]
    )
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


class JsonLines(logging.Formatter):
    """One record, one line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a JSON object; a traceback becomes a field of it."""
        line = {
            "at": to_text(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": clean(record.getMessage()),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)[-4 * MAX_TEXT :]
        return json.dumps(line)


def set_up(stream: TextIO, level: int = logging.INFO) -> None:
    """Send all logs of this process to a stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
