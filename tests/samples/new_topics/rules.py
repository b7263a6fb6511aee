"""What both sides share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from refimpl.wire.pulsar_api_pb2 import CommandWatchTcAssignmentsUpdate, TcAssignmentsSnapshot


@dataclass(frozen=True)
class Profile:
    """The two readings.

    Attributes:
        first: Where counting begins.
    """

    first: Literal[0, 1] = 0


PROFILES: Mapping[str, Profile] = {"default": Profile(), "as-written": Profile(first=1)}


def update(watch_id: int, count: int) -> CommandWatchTcAssignmentsUpdate:
    """Return what tells a watch of a count: pip9999.watch.told."""
    return CommandWatchTcAssignmentsUpdate(watch_id=watch_id, snapshot=TcAssignmentsSnapshot(parallelism=count))
