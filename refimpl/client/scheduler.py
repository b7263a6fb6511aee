"""A scheduler without I/O: pending results, coroutines that await them, and timers. The caller sets the time.

    with scheduler.entered(now):                # sets the time; at the end, runs what is ready
        pending = scheduler.spawn(work())       # an `async def` function that awaits only Pending

Coroutines run only inside `entered`, `tick` or `run_ready`, in the order in which their results came. Therefore the same calls at the
same times have the same outcome. No event loop is involved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeVar, cast

from refimpl.client.errors import ClientError, Closed, TimedOut
from refimpl.timers import Timer, Timers

T = TypeVar("T")


class Pending(Generic[T]):
    """A result that is not there yet. It is set once; later results are ignored.

    Attributes:
        done: Whether it has a result or an error.
        error: Why it failed; None while it has not.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._calls: list[Callable[[Pending[T]], None]] = []
        self._value: T | None = None
        self.done = False
        self.error: Exception | None = None

    def succeed(self, value: T) -> None:
        """Set the result."""
        if not self.done:
            self._value = value
            self._finish()

    def fail(self, error: Exception) -> None:
        """Set the error."""
        if not self.done:
            self.error = error
            self._finish()

    def cancel(self) -> None:
        """Cancel it."""
        self.fail(Closed("given up"))

    def on_done(self, call: Callable[[Pending[T]], None]) -> None:
        """Call a function when the result is there; never immediately."""
        if self.done:
            self._scheduler.soon(partial(call, self))
        else:
            self._calls.append(call)

    def value(self) -> T:
        """Return the result.

        Raises:
            ClientError: It failed.
        """
        if self.error is not None:
            raise self.error.with_traceback(None)
        return cast(T, self._value)

    def __await__(self) -> Generator[Pending[Any], None, T]:
        if not self.done:
            yield self
        return self.value()

    def _finish(self) -> None:
        self.done = True
        for call in self._calls:
            self._scheduler.soon(partial(call, self))
        self._calls = []


class Process(Pending[T]):
    """A running coroutine; its return value is the result."""

    def __init__(self, scheduler: Scheduler, coroutine: Coroutine[Pending[Any], None, T]) -> None:
        super().__init__(scheduler)
        self._coroutine = coroutine
        self._running = False

    def cancel(self) -> None:
        """End the coroutine at its current `await`; its `finally` clauses run."""
        super().cancel()
        if not self._running:
            self._coroutine.close()

    def step(self, _: object = None) -> None:
        """Run until the coroutine waits again or is finished."""
        if self.done:
            return
        self._running = True
        try:
            awaited = self._coroutine.send(None)
        except StopIteration as stop:
            self.succeed(stop.value)
        except ClientError as error:
            self.fail(error)
        except Exception as error:
            self.fail(error)
            raise
        else:
            if self.done:  # it has cancelled itself
                self._coroutine.close()
            else:
                awaited.on_done(self.step)
        finally:
            self._running = False


class Scheduler:
    """Runs processes and timers.

    Attributes:
        now: The current time in seconds; it never decreases.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._ready: deque[Callable[[], None]] = deque()
        self._timers = Timers()
        self._depth = 0
        self._running = False

    @contextmanager
    def entered(self, now: float) -> Iterator[None]:
        """Set the time for a block, and run what is ready at its end."""
        self.now = max(self.now, now)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self.run_ready()

    def run_ready(self) -> None:
        """Run everything that is ready, or becomes ready meanwhile."""
        if self._running:
            return
        self._running = True
        try:
            while self._ready:
                self._ready.popleft()()
        finally:
            self._running = False

    def soon(self, call: Callable[[], None]) -> None:
        """Call a function after everything that is already ready."""
        self._ready.append(call)

    def spawn(self, coroutine: Coroutine[Pending[Any], None, T]) -> Process[T]:
        """Start a coroutine; it runs immediately to its first `await`."""
        process = Process(self, coroutine)
        process.step()
        return process

    def call_at(self, when: float, call: Callable[[], None]) -> Timer:
        """Set a timer."""
        return self._timers.at(when, call)

    def sleep(self, seconds: float) -> Pending[None]:
        """Return a result that comes after some seconds."""
        pending: Pending[None] = Pending(self)
        self.call_at(self.now + seconds, lambda: pending.succeed(None))
        return pending

    def limit(
        self,
        pending: Pending[T],
        seconds: float,
        complaint: str,
        reason: Callable[[], ClientError | None] = lambda: None,
        unless: Callable[[], bool] = lambda: False,
    ) -> Pending[T]:
        """Return the same result, or `TimedOut` if it takes too long; the original result is not cancelled.

        Args:
            pending: The result to wait for.
            seconds: The time limit, in seconds.
            complaint: The error message, without the time.
            reason: Returns what has failed last, to be named in the message.
            unless: Returns whether to wait on without a limit.
        """
        limited: Pending[T] = Pending(self)

        def give_up() -> None:
            if unless():
                return
            failed = reason()
            limited.fail(TimedOut(f"{complaint} within {seconds:g} s" + (f"; the last attempt ended so: {failed}" if failed else "")))

        timer = self.call_at(self.now + seconds, give_up)

        def settle(done: Pending[T]) -> None:
            timer.cancel()
            if done.error is None:
                limited.succeed(done.value())
            else:
                limited.fail(done.error)

        pending.on_done(settle)
        return limited

    def next_deadline(self) -> float | None:
        """Return the time of the next timer; None if there is none."""
        return self._timers.next_deadline()

    def tick(self, now: float) -> None:
        """Call everything that is due."""
        with self.entered(now):
            due = self.now
            while (call := self._timers.take_due(due)) is not None:
                call()
                self.run_ready()
