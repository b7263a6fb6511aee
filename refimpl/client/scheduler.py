"""Work that waits, without I/O: results to come, coroutines that await them, timers on a clock that is told.

    with scheduler.entered(now):                # says what time it is, and runs what became ready on the way out
        pending = scheduler.spawn(work())       # `async def` functions that await Pending and nothing else

A coroutine goes on only inside `entered`, `tick` or `run_ready`, in the order in which what it waits for came in. So the same
calls at the same times have the same result, and no event loop is involved.
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
    """A result that is still to come. It comes once; what comes later is dropped.

    Attributes:
        done: Whether it has come.
        error: Why it failed; None while it has not.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._calls: list[Callable[[Pending[T]], None]] = []
        self._value: T | None = None
        self.done = False
        self.error: Exception | None = None

    def succeed(self, value: T) -> None:
        """Give the result."""
        if not self.done:
            self._value = value
            self._finish()

    def fail(self, error: Exception) -> None:
        """Give the reason why there is none."""
        if not self.done:
            self.error = error
            self._finish()

    def cancel(self) -> None:
        """Give it up."""
        self.fail(Closed("given up"))

    def on_done(self, call: Callable[[Pending[T]], None]) -> None:
        """Have something called when the result is there; never at once."""
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
    """A coroutine under way; its return value is the result."""

    def __init__(self, scheduler: Scheduler, coroutine: Coroutine[Pending[Any], None, T]) -> None:
        super().__init__(scheduler)
        self._coroutine = coroutine
        self._running = False

    def cancel(self) -> None:
        """End the coroutine where it waits; its `finally` clauses run."""
        super().cancel()
        if not self._running:
            self._coroutine.close()

    def step(self, _: object = None) -> None:
        """Go on until the coroutine waits again or is through."""
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
        now: The time, in seconds, as it was told last; it never goes back.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._ready: deque[Callable[[], None]] = deque()
        self._timers = Timers()
        self._depth = 0
        self._running = False

    @contextmanager
    def entered(self, now: float) -> Iterator[None]:
        """Tell the time for the length of a block, and run what is ready at its end."""
        self.now = max(self.now, now)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self.run_ready()

    def run_ready(self) -> None:
        """Run what is ready, and what becomes ready by that."""
        if self._running:
            return
        self._running = True
        try:
            while self._ready:
                self._ready.popleft()()
        finally:
            self._running = False

    def soon(self, call: Callable[[], None]) -> None:
        """Have something called when all that is ready already has run."""
        self._ready.append(call)

    def spawn(self, coroutine: Coroutine[Pending[Any], None, T]) -> Process[T]:
        """Start a coroutine; it runs to its first wait at once."""
        process = Process(self, coroutine)
        process.step()
        return process

    def call_at(self, when: float, call: Callable[[], None]) -> Timer:
        """Set a timer."""
        return self._timers.at(when, call)

    def sleep(self, seconds: float) -> Pending[None]:
        """Return what is there after a while."""
        pending: Pending[None] = Pending(self)
        self.call_at(self.now + seconds, lambda: pending.succeed(None))
        return pending

    def limit(self, pending: Pending[T], seconds: float, complaint: str) -> Pending[T]:
        """Return the same result, or `TimedOut` if it takes too long; the original is left alone.

        Args:
            pending: What is waited for.
            seconds: How long.
            complaint: Text of the error, without the time.
        """
        limited: Pending[T] = Pending(self)
        timer = self.call_at(self.now + seconds, lambda: limited.fail(TimedOut(f"{complaint} within {seconds:g} s")))

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
