"""A broker that somebody else started."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from conformance.targets.admin import listed_settings
from conformance.targets.model import NOTHING, Endpoint, Progress, as_settings, lacking, refuse_settings


@dataclass(frozen=True)
class AttachedTarget:
    """A broker that somebody else started.

    Args:
        endpoint: Where it is.
    """

    endpoint: Endpoint
    startable: bool = field(default=False, init=False)
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

    @asynccontextmanager
    async def run(self, config: Mapping[str, str] = NOTHING, *, progress: Progress | None = None) -> AsyncIterator[Endpoint]:  # noqa: ARG002
        """Yield the endpoint, if the broker has the settings: it lists them in its admin interface, or is said to have them.

        Args:
            config: The settings that a case needs.
            progress: Not used.

        Returns:
            The endpoint.

        Raises:
            SettingsRefused: It is not known to have all of them.
        """
        known = {**as_settings(await listed_settings(self.endpoint)), **self.endpoint.config} if config else {}
        hint = "a target file lets the suite start it with them; if it has them, say so with --setting"
        refuse_settings(self.name, lacking(config, known), hint=hint)
        yield self.endpoint
