"""Logs: one line per event on standard error; tracebacks without local variables, which may hold secrets.

JSON where standard error is no terminal, text for people where it is. What identifies the work at hand (the
request, the run) is in every line that it causes, in child processes too. Whatever others may have chosen
the characters of is escaped, so no name can break a line or forge one.
"""

import json
import logging
import os
import sys
from collections.abc import Mapping
from typing import Any, Final

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

CONTEXT: Final = "ANTECAST_LOG_CONTEXT"
"""Environment variable of child processes: what to put into each of their lines, as JSON."""

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_MULTILINE: Final = frozenset({"exception", "stack"})
_SET_BY_CHILD: Final = ("event", "level", "timestamp")


def set_up(log_format: str = "auto", level: str = "info") -> None:
    """Let this process log as the service does, its libraries included.

    Args:
        log_format: `json`, `text`, or `auto`: text on a terminal, JSON elsewhere.
        level: what is less important is left out.
    """
    is_text = log_format == "text" or (log_format == "auto" and sys.stderr.isatty())
    first: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        printable,
    ]
    last: Processor = structlog.processors.JSONRenderer(default=str)
    if is_text:
        last = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    structlog.configure(
        processors=[*first, last],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=first,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(_LEVELS[level], logging.INFO), force=True)
    for noisy in ("httpx", "httpcore", "alembic", "dbos"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def printable(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Escape all characters that do more than to stand there: line ends, terminal codes, half surrogates."""
    del logger, method
    for name, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            kept = "\n" if name in _MULTILINE else ""
            event[name] = "".join(
                one if one.isprintable() or one in kept else one.encode("unicode_escape").decode()
                for one in value
            )
    return event


def for_child(context: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Environment of a child process whose lines are to say what ours say of the work at hand.

    Args:
        context: more to say.
    """
    said = {**structlog.contextvars.get_contextvars(), **(context or {})}
    return {CONTEXT: json.dumps(said, default=str)}


def set_up_child() -> None:
    """Log as a child process: JSON, with what its parent said of the work at hand. No secret is in it."""
    set_up("json", os.environ.get("ANTECAST_LOG_LEVEL", "info"))
    try:
        context = json.loads(os.environ.pop(CONTEXT, "{}"))
    except ValueError:
        context = {}
    if isinstance(context, dict):
        structlog.contextvars.bind_contextvars(**context)


def pass_on(line: bytes, child: str) -> bool:
    """Log again what a child process has logged; false where the line is no log line.

    Args:
        line: one line of the child's standard error.
        child: the child's name.
    """
    if not (line.startswith(b"{") and b'"event"' in line):
        return False
    try:
        said = json.loads(line)
        event, level = str(said["event"]), _LEVELS[said["level"]]
    except (ValueError, KeyError, TypeError):
        return False
    more = {str(name): value for name, value in said.items() if name not in _SET_BY_CHILD}
    structlog.get_logger("child").log(level, event, **{**more, "child": child})
    return True
