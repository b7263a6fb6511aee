"""A broker that the user's command starts for the run, on free ports. It is always stopped."""

import difflib
import re
import shlex
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from conformance.targets.admin import unconfirmed_settings
from conformance.targets.connect_probe import connect_answer
from conformance.targets.model import NOTHING, Endpoint, Progress, SettingsRefused, TargetError, lacking, own_token, refuse_settings
from conformance.targets.process import free_ports, poll_until, supervised
from conformance.targets.properties import properties_text

PLACEHOLDERS = {
    "service_port": "a free TCP port for the protocol",
    "admin_port": "a free TCP port for the admin interface",
    "config_file": "a file with one KEY=VALUE on a line: the settings that a case asks for",
    "work_dir": "an empty folder that is removed afterwards",
}
"""What may stand in braces in a command, and what it becomes."""

STOP_SECONDS = 10.0


@dataclass(frozen=True)
class StartedTarget:
    """A broker with a command that starts it.

    Args:
        endpoint: Where it will be; `{service_port}` and `{admin_port}` in the addresses stand for free ports.
        command: The program, which has to stay in the foreground, and its arguments with placeholders.
        folder: Its working folder.
        ready_seconds: How long it may take until it answers CONNECT.
    """

    endpoint: Endpoint
    command: tuple[str, ...]
    folder: Path
    ready_seconds: float = 60.0
    startable: bool = field(default=True, init=False)
    profile: str = field(default="default", init=False)
    virtual_time: bool = field(default=False, init=False)
    in_virtual_time: None = field(default=None, init=False)
    starts_at_once: int = field(default=1, init=False)
    conversations_at_once: int = field(default=6, init=False)

    @property
    def name(self) -> str:
        """Return the name for reports and baselines."""
        return self.endpoint.name

    @property
    def release(self) -> str | None:
        """Return the release that its description states."""
        return self.endpoint.release

    def at_ports(self, service_port: int, admin_port: int) -> Endpoint:
        """Fill ports into the addresses.

        Args:
            service_port: The TCP port of the protocol.
            admin_port: The TCP port of the admin interface.

        Returns:
            The endpoint.
        """
        ports = {"service_port": str(service_port), "admin_port": str(admin_port)}
        admin_url = _filled(self.endpoint.admin_url, ports) if self.endpoint.admin_url else None
        return replace(self.endpoint, service_url=_filled(self.endpoint.service_url, ports), admin_url=admin_url)

    @asynccontextmanager
    async def run(self, config: Mapping[str, str] = NOTHING, *, progress: Progress | None = None) -> AsyncIterator[Endpoint]:
        """Start it; it and everything in its process group has ended when the block is left.

        Args:
            config: Settings; refused when the command has no `{config_file}`.
            progress: Gets a line when it is started.

        Returns:
            Where it is reached, once it has answered CONNECT with CONNECTED.

        Raises:
            SettingsRefused: With these settings it refuses CONNECT.
            TargetError: It does not start; with the last lines of its log.
        """
        if not any("{config_file}" in word for word in self.command):
            refuse_settings(self.name, lacking(config, self.endpoint.config), hint="its start command has no {config_file}")
        with tempfile.TemporaryDirectory(prefix="pulsar-conformance-", ignore_cleanup_errors=True) as name:
            work = Path(name)
            service_port, admin_port = free_ports(2)
            endpoint = replace(
                self.at_ports(service_port, admin_port),
                token=self.endpoint.token or own_token(config),
                config=dict(config),
                log_file=work / "target.log",
            )
            command = self._command(work, service_port, admin_port, config)
            if progress:
                progress(f"starting {self.name}: {shlex.join(command)}")
            async with supervised(command, log=work / "target.log", cwd=self.folder, grace_seconds=STOP_SECONDS, remove=work) as child:
                answer = "none"

                async def answers() -> bool:
                    nonlocal answer
                    answer = await connect_answer(endpoint)
                    return answer == "connected"

                try:
                    await poll_until(answers, seconds=self.ready_seconds, what=self.name, child=child)
                except TargetError as error:
                    if answer != "refused":
                        raise
                    refused = SettingsRefused if config else TargetError  # without settings there is nothing that could be tested
                    raise refused(f"{self.name} refuses CONNECT; {error.message}", hint="does it need a token?") from None
                yield replace(endpoint, unconfirmed_config=await unconfirmed_settings(endpoint))

    def _command(self, work: Path, service_port: int, admin_port: int, config: Mapping[str, str]) -> Sequence[str]:
        (work / "own").mkdir()
        config_file = work / "settings.conf"
        config_file.touch(mode=0o600)  # settings may hold secrets
        config_file.write_text(properties_text(self.name, config), encoding="ascii")
        values = {
            "service_port": str(service_port),
            "admin_port": str(admin_port),
            "config_file": str(config_file),
            "work_dir": str(work / "own"),
        }
        return [_filled(word, values) for word in self.command]


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


def split_command(command: str | Sequence[str]) -> list[str]:
    """Split a command into words, as a shell would, and check its placeholders.

    Args:
        command: One text, or a list that is split already.

    Returns:
        The words.

    Raises:
        TargetError: Quotes don't match, it is empty, or something in braces looks like a misspelt placeholder.
    """
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise TargetError(f"the start command can't be split into words: {error}") from None
    if not words or not words[0]:
        raise TargetError("the start command is empty")
    for name in re.findall(r"\{(\w+)\}", " ".join(words)):
        close = difflib.get_close_matches(name, PLACEHOLDERS, n=1)
        if name not in PLACEHOLDERS and close:
            hint = f"there are: {', '.join(PLACEHOLDERS)}"
            raise TargetError(f"the start command has {{{name}}}, did you mean {{{close[0]}}}?", hint=hint)
    return words
