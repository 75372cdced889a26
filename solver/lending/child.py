"""A solver in a process of its own, so that it can be ended.

Requests and replies are frames over pipes: an eight-byte length and that many bytes of JSON, for requests
followed by the model as MathOpt's own protocol buffer. Nothing is unpickled.
"""

import ctypes
import json
import math
import os
import selectors
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import IO, Final, NamedTuple

from ortools.math_opt import model_pb2
from ortools.math_opt.python import mathopt

_COMMAND: Final = (sys.executable, "-m", "solver.lending.child")
_START_S: Final = 30.0
"""How long the process may take to come up; not part of any solve."""


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


class ChildProcess:
    """Starts on the first question, answers one after another, and is ended when it is late."""

    def __init__(self) -> None:
        self._running: _Running | None = None
        self._stop: weakref.finalize[..., ChildProcess] | None = None

    def ask(self, request: Request, limit_s: float) -> Reply | None:
        """The reply; None if there was none within `limit_s` seconds, and then the process is gone."""
        running = self._started()
        due_s = time.monotonic() + limit_s
        body: bytes | None = None
        with suppress(BrokenPipeError):  # it died meanwhile: no reply either
            if _write_in_time(running.requests, _framed(request), due_s):
                body = _read_in_time(running.replies, due_s)
        if body is None:
            self.close()
            return None
        return _reply_of(body)

    def close(self) -> None:
        """End the process."""
        if self._stop is not None:
            self._stop()
        self._running = self._stop = None

    def _started(self) -> _Running:
        if self._running is not None and self._running.process.poll() is None:
            return self._running
        self.close()
        process = subprocess.Popen(  # noqa: S603 - this module itself
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # an interrupt is the parent's to handle
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the solver's process has no pipes")
        self._running = _Running(process, process.stdin, process.stdout)
        self._stop = weakref.finalize(self, _end, self._running)
        os.set_blocking(process.stdin.fileno(), False)
        if _read_in_time(self._running.replies, time.monotonic() + _START_S) is None:
            self.close()
            raise RuntimeError("the solver's process does not start")
        return self._running


def _end(running: _Running) -> None:
    running.process.kill()
    running.process.wait()
    running.replies.close()
    running.requests.close()


def _write_in_time(pipe: IO[bytes], frames: bytes, due_s: float) -> bool:
    """Whether the process took it all in time; a large model is more than a pipe holds."""
    left = memoryview(frames)
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_WRITE)
        while left:
            if not selector.select(max(0.0, due_s - time.monotonic())):
                return False
            left = left[os.write(pipe.fileno(), left) :]
    return True


def _read_in_time(pipe: IO[bytes], due_s: float) -> bytes | None:
    """One frame; None if it is not complete in time or the process has ended."""
    received = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(received) < 8 or len(received) < 8 + int.from_bytes(received[:8], "little"):
            if not selector.select(max(0.0, due_s - time.monotonic())):
                return None
            part = os.read(pipe.fileno(), 1 << 16)
            if not part:
                return None
            received += part
    return bytes(received[8:])


def _framed(request: Request) -> bytes:
    head = {name: value for name, value in asdict(request).items() if name != "model"}
    return _frame(json.dumps(head).encode()) + _frame(request.model)


def _frame(body: bytes) -> bytes:
    return len(body).to_bytes(8, "little") + body


def _write(pipe: IO[bytes], body: bytes) -> None:
    pipe.write(_frame(body))
    pipe.flush()


def _read_frame(pipe: IO[bytes]) -> bytes | None:
    size = pipe.read(8)
    return pipe.read(int.from_bytes(size, "little")) if len(size) == 8 else None


def _reply_of(body: bytes) -> Reply:
    fields = json.loads(body)
    bound = fields.pop("bound")
    return Reply(
        **{**fields, "values": tuple(fields["values"]), "bound": math.inf if bound is None else bound}
    )


def main() -> None:
    """Answer requests from standard input until it ends."""
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    _write(replies, b"ready")
    while (head := _read_frame(requests)) is not None and (model := _read_frame(requests)) is not None:
        fields = json.loads(head)
        reply = asdict(run_request(Request(model=model, **{**fields, "hint": tuple(fields["hint"])})))
        if not math.isfinite(reply["bound"]):
            reply["bound"] = None
        _write(replies, json.dumps(reply).encode())


if __name__ == "__main__":
    main()
