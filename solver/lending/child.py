"""A solver in a process of its own, so that it can be ended.

Requests and replies are frames over pipes (`solver.lending.pipes`): JSON, for requests followed by a frame of
the model as MathOpt's own protocol buffer. Nothing is unpickled.
"""

import ctypes
import json
import math
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import IO, Final, NamedTuple

from ortools.math_opt import model_pb2
from ortools.math_opt.python import mathopt

from solver.lending.pipes import frame, read_frame, read_in_time, write, write_in_time

_COMMAND: Final = (sys.executable, "-m", "solver.lending.child")
_START_S: Final = 30.0
"""How long the process may take to come up, over all questions that wait for it; then another is tried."""
_LEAST_S: Final = 1e-3
"""Limit of a solve for which starting the process has left no time."""
_GONE_S: Final = 0.1
"""How long a process whose pipes are closed is waited for, to learn how it ended."""


@dataclass(frozen=True, slots=True)
class Request:
    """A model to maximise and when to stop; `num_values` first variables are wanted, and hinted at."""

    model: bytes
    num_values: int
    gap: float
    nodes: int
    seed: int
    wall_s: float
    hint: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of it; `values` is empty if no solution was found, `failure` says what broke the solver."""

    values: tuple[float, ...]
    bound: float
    is_optimal: bool
    is_cut: bool
    iterations: int
    wall_s: float
    failure: str = ""


def run_request(request: Request) -> Reply:
    """Solve in this process. What HiGHS prints goes to standard error."""
    proto = model_pb2.ModelProto.FromString(request.model)
    model = mathopt.Model.from_model_proto(proto)
    variables = [model.get_variable(k) for k in range(request.num_values)]
    parameters = mathopt.SolveParameters(
        time_limit=timedelta(seconds=request.wall_s),
        relative_gap_tolerance=request.gap,
        node_limit=request.nodes,
        random_seed=request.seed,
        presolve=mathopt.Emphasis.OFF,  # finds nothing in these problems and takes most of the time
    )
    extras = mathopt.ModelSolveParameters()
    if request.hint:
        hint = dict(zip(variables, map(float, request.hint), strict=True))
        extras.solution_hints.append(mathopt.SolutionHint(variable_values=hint))
    try:
        with _stdout_kept_clean():
            result = mathopt.solve(model, mathopt.SolverType.HIGHS, params=parameters, model_params=extras)
    except (RuntimeError, AttributeError) as error:
        # MathOpt 9.15 trips over its own status when it reports an error; what it reports is the context
        return Reply((), math.inf, False, False, 0, 0.0, str(error.__context__ or error))
    values: tuple[float, ...] = ()
    if result.has_primal_feasible_solution():
        values = tuple(result.variable_values(variables))
    return Reply(
        values=values,
        bound=result.termination.objective_bounds.dual_bound,
        is_optimal=result.termination.reason == mathopt.TerminationReason.OPTIMAL,
        is_cut=result.termination.limit == mathopt.Limit.TIME,
        iterations=result.solve_stats.simplex_iterations,
        wall_s=result.solve_stats.solve_time.total_seconds(),
    )


@contextmanager
def _stdout_kept_clean() -> Iterator[None]:
    """HiGHS prints on standard output whatever it is told, through a buffer of its own: C's."""
    flush = ctypes.CDLL(None).fflush
    flush(None)
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        flush(None)
        os.dup2(kept, 1)
        os.close(kept)


class _Running(NamedTuple):
    process: "subprocess.Popen[bytes]"
    requests: IO[bytes]
    replies: IO[bytes]
    begun_s: float


class ChildProcess:
    """Starts on the first question, answers one after another, and is ended when it is late.

    No question costs more than its limit: the start is part of the question that needs it. A process that
    is not ready by then goes on starting, for the next question to find.
    """

    def __init__(self) -> None:
        self._running: _Running | None = None
        self._is_ready = False
        self._stop: weakref.finalize[..., ChildProcess] | None = None

    def ask(self, request: Request, limit_s: float) -> Reply | None:
        """What comes of a question within `limit_s` seconds.

        Returns:
            The reply, its seconds including those of the start. None if the process works on it at the limit:
            then it is ended. A reply that says what failed if it cannot be started, is not ready in time, or
            has died; whatever happens to the process, nothing is raised.
        """
        begun_s = time.monotonic()
        try:
            running = self._ready(begun_s + limit_s)
        except TimeoutError:
            spent_s = time.monotonic() - begun_s
            return _failed("the solver's process was not ready before the limit", spent_s, is_cut=True)
        except (OSError, EOFError) as error:
            found = f"the solver's process does not start: {self._said_at_its_end() or error}"
            return _failed(found, time.monotonic() - begun_s)
        start_s = time.monotonic() - begun_s
        try:
            return self._answer(running, request, start_s, begun_s + limit_s)
        except TimeoutError:
            self.close()
            return None
        except (OSError, EOFError) as error:
            found = f"the solver's process died: {self._said_at_its_end() or error}"
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            self.close()
            found = f"the solver's process does not answer in its own words: {error}"
        return _failed(found, time.monotonic() - begun_s)

    def close(self) -> None:
        """End the process."""
        if self._stop is not None:
            self._stop()
        self._running = self._stop = None
        self._is_ready = False

    @staticmethod
    def _answer(running: _Running, request: Request, start_s: float, due_s: float) -> Reply:
        left = replace(request, wall_s=max(request.wall_s - start_s, _LEAST_S))
        write_in_time(running.requests, _framed(left), due_s)
        reply = _reply_of(read_in_time(running.replies, due_s))
        return replace(reply, wall_s=reply.wall_s + start_s)

    def _ready(self, due_s: float) -> _Running:
        """The process once it can be asked.

        Raises:
            TimeoutError: if it is not ready in time; it is left to go on, but not for ever.
            OSError: if there is no such program, or no process to be had.
            EOFError: if it ends instead.
        """
        running = self._running
        if running is not None and self._is_ready and running.process.poll() is not None:
            self.close()  # it died between two questions: that is no failure of this one
            running = None
        if running is None:
            running = self._running = _begin()
            self._stop = weakref.finalize(self, _end, running)
        if not self._is_ready:
            try:
                read_in_time(running.replies, due_s)  # one short frame, which a pipe takes whole
            except TimeoutError:
                if time.monotonic() - running.begun_s >= _START_S:
                    self.close()
                raise
            self._is_ready = True
        return running

    def _said_at_its_end(self) -> str:
        """How the process has ended, in words, and no more of it; empty if there never was one."""
        if self._running is None:
            return ""
        process = self._running.process
        with suppress(subprocess.TimeoutExpired):  # its pipes close a moment before it is gone
            process.wait(_GONE_S)
        status = process.returncode
        self.close()
        if status is None:
            return "it closed its pipes"
        return f"ended by {_signal_name(-status)}" if status < 0 else f"exit status {status}"


def _begin() -> _Running:
    process = subprocess.Popen(  # noqa: S603 - this module itself
        _COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,  # an interrupt is the parent's to handle
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    if process.stdin is None or process.stdout is None:
        raise OSError("the solver's process has no pipes")
    os.set_blocking(process.stdin.fileno(), False)
    return _Running(process, process.stdin, process.stdout, time.monotonic())


def _end(running: _Running) -> None:
    running.process.kill()
    running.process.wait()
    running.replies.close()
    running.requests.close()


def _failed(failure: str, wall_s: float, *, is_cut: bool = False) -> Reply:
    return Reply((), math.inf, is_optimal=False, is_cut=is_cut, iterations=0, wall_s=wall_s, failure=failure)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _framed(request: Request) -> bytes:
    head = {name: value for name, value in asdict(request).items() if name != "model"}
    return frame(json.dumps(head).encode()) + frame(request.model)


def _reply_of(body: bytes) -> Reply:
    fields = json.loads(body)
    bound = fields.pop("bound")
    return Reply(
        **{**fields, "values": tuple(fields["values"]), "bound": math.inf if bound is None else bound}
    )


def main() -> None:
    """Answer requests from standard input until it ends."""
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    write(replies, b"ready")
    while (head := read_frame(requests)) is not None and (model := read_frame(requests)) is not None:
        fields = json.loads(head)
        reply = asdict(run_request(Request(model=model, **{**fields, "hint": tuple(fields["hint"])})))
        if not math.isfinite(reply["bound"]):
            reply["bound"] = None
        write(replies, json.dumps(reply).encode())


if __name__ == "__main__":
    main()
