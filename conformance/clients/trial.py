"""One trial of a case for clients: asks the driver, arms rules, sends what the case sends, and logs all that the client does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from conformance.clients.driver import END_SECONDS, Answer, Driver, DriverError, LeftOut, Said
from conformance.engine import log
from conformance.engine.actions import Action, Send
from conformance.engine.client_steps import BACKDROP, CLIENT, DRIVER, RESULT
from conformance.engine.machine import LINK
from conformance.engine.node import USER
from conformance.engine.program import Program
from conformance.engine.values import Value, resolve, variables_of
from conformance.running.connection import IN_ONE_CONVERSATION
from conformance.running.conversation import Surroundings, TrialRunner
from conformance.targets.admin import AdminClient
from conformance.targets.model import TargetError
from refimpl.wire import Frame

_RECORD = 1024
"""Bytes that a frame or event counts for besides its own: what its record takes."""
FLOOD = (
    f"the client or its driver floods: more than {IN_ONE_CONVERSATION >> 20} MB, "
    f"or {IN_ONE_CONVERSATION // _RECORD:,} frames and events, in one conversation"
)


class ClientTrial(TrialRunner):
    """One trial with a client, whose driver is at hand.

    Args:
        program: The compiled cell.
        begin: The start of the trial.
        around: What the trials of a run share; the endpoint is that of the backdrop from `hold` on.
        driver: The driver, between two trials.
        config: Settings of the backdrop.
    """

    def __init__(self, program: Program, begin: log.TrialStarted, around: Surroundings, driver: Driver, config: Mapping[str, str]) -> None:
        super().__init__(program, begin, around)
        self._driver = driver
        self._backdrop = driver.backdrop(self, config)
        self.left_out: LeftOut | None = None
        """Why the case says nothing of the client, if that ended the trial."""

    async def hold(self, namespaces: list[str]) -> None:
        """Run the trial from the start of the backdrop to the last word of the driver."""
        async with self._backdrop as backdrop:
            endpoint = replace(
                self._around.endpoint, service_url=backdrop.service_url, admin_url=backdrop.admin_url, in_process=backdrop.memory
            )
            async with AdminClient(endpoint) as admin:
                for name in namespaces:
                    await admin.call("create_namespace", {"namespace": name})
                self._around = replace(self._around, endpoint=endpoint, admin=admin)
                self._driver.listen(self.said, self._give_way)
                try:
                    await self._begin(backdrop.service_url)
                    await self.run()
                except DriverError as error:
                    self.give_up(str(error))
                finally:
                    self._driver.listen(None)
                    await self._end()

    async def _converse(self) -> None:
        await super()._converse()
        if self._driver.lost is not None:
            raise DriverError(self._driver.lost)

    async def _begin(self, url: str) -> None:
        answer = await self._driver.request("begin", {"service_url": url}, END_SECONDS * self._around.slow)
        if not answer.ok:
            raise DriverError(f"the driver {self._driver.name} can't begin: {answer.error or answer.unsupported}")

    async def _end(self) -> None:
        """Let the driver close what the case has left open. One that can't is ended, and the next trial has a new one."""
        try:
            await self._driver.request("end", {}, END_SECONDS * self._around.slow)
        except DriverError:
            await self._driver.kill()

    def opened(self, link: int) -> None:
        """Log a connection of the client."""
        if self._room(0):
            self._log(log.Opened, at=CLIENT, link=link)

    def frame(self, link: int, frame: Frame) -> None:
        """Log a frame of the client."""
        if self._room(len(frame.data)):
            self._log(log.Frame, at=CLIENT, link=link, data=frame.data.hex())

    def passed(self, link: int, data: bytes, rule: int | None) -> None:
        """Log a frame for the client."""
        if self._room(len(data)):
            self._log(log.Passed, at=BACKDROP, link=link, data=data.hex(), rule=rule)

    def garbage(self, link: int, data: bytes, reason: str) -> None:  # noqa: ARG002
        """Log bytes of the client that are no frame."""
        if self._room(len(data)):
            self._log(log.Garbage, at=CLIENT, data=data.hex(), reason=reason)

    def closed(self, link: int, how: Literal["fin", "rst"]) -> None:
        """Log the end of a connection by the client."""
        if self._room(0):
            self._log(log.Closed, at=CLIENT, how=how, link=link)

    def said(self, said: Said) -> None:
        """Log an event of the driver."""
        if self._room(len(str(said.detail))):
            self._log(log.Told, at=USER, what=said.event, detail=said.detail)

    def _room(self, size: int) -> bool:
        """Return whether the log has room for so many bytes more; a client or driver that sends more floods it."""
        if self._allowance.take(size + _RECORD):
            return True
        self._stuck = self._stuck or TargetError(FLOOD)
        self._changed.set()
        return False

    async def _send(self, step: str, action: Send, variables: Mapping[str, Value]) -> None:
        data = action.data(lambda value: resolve(value, variables))
        named = (variables.get(f"{LINK} {name}") for name in sorted(variables_of(action.spec.get("frame"))))
        numbers = [number for number in (*named, variables.get(LINK)) if number in self._backdrop.links]
        detail = {"link": numbers[0]} if numbers else {}
        self._log(log.Begin, step=step, what="send", at=CLIENT, data=data.hex(), size=len(data), detail=detail)
        if numbers:
            self._backdrop.links[numbers[0]].inject(data)
        self._log(log.End, step=step)

    async def _close(self, step: str, action: Action, variables: Mapping[str, Value]) -> None:  # noqa: ARG002
        how = action.spec
        self._log(log.Begin, step=step, what="close", at=CLIENT, detail={"how": how})
        for link in list(self._backdrop.links):
            self._backdrop.end(link, how)
        self._log(log.End, step=step)

    async def _rule(self, step: str, action: Action, variables: Mapping[str, Value]) -> None:
        rule = self._backdrop.rules.arm(action.spec, variables)
        detail = {"number": rule.number, "side": rule.side, "frame": dict(rule.frame), "do": dict(rule.do)}
        self._log(log.Begin, step=step, what="rule", detail=detail)
        self._log(log.End, step=step)

    async def _drive(self, step: str, action: Action, variables: Mapping[str, Value]) -> None:
        verb, name = action.spec["do"], action.spec["name"]
        arguments = resolve(action.spec["with"], variables)
        self._log(log.Begin, step=step, what="drive", at=DRIVER, detail={verb: arguments})
        try:
            coming = await self._driver.carry_out(verb, arguments, name)
        except LeftOut as why:
            self.left_out = why
            raise
        coming.add_done_callback(lambda done: self._answered(name, verb, done))
        self._log(log.End, step=step)

    def _answered(self, name: str, verb: str, done: asyncio.Future[Answer]) -> None:
        if done.cancelled() or self.trial_log.finished is not None:
            return
        error = done.exception()
        if isinstance(error, DriverError):
            self._give_way(error)
            return
        answer = done.result()
        if answer.unsupported is not None:
            self.left_out = LeftOut("NOT-APPLICABLE", f"the client does not offer {verb}: {answer.unsupported}")
            self._give_way(self.left_out)
            return
        told = {"of": name, "ok": answer.ok, "result": answer.result, "error": answer.error}
        self._log(log.Told, at=DRIVER, what=RESULT, detail={key: value for key, value in told.items() if value is not None})

    def _give_way(self, error: TargetError) -> None:
        self._stuck = self._stuck or error
        self._changed.set()
