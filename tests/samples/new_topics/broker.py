"""The broker's side."""

from typing import Any

from refimpl.proposals.extension import Connection, Extension, Host
from refimpl.proposals.new_topics.rules import Profile, update
from refimpl.wire.pulsar_api_pb2 import CommandWatchTcAssignmentsUpdate, FeatureFlags


class NewTopicsExtension(Extension):
    """What the proposal adds to a broker."""

    def __init__(self, host: Host, profile: Profile, plugins: object = None) -> None:
        super().__init__(host)
        self._first = profile.first
        self._counts: dict[tuple[Connection, int], int] = {}
        self.commands = {"watchTcAssignments": self._watch, "watchTcAssignmentsClose": self._close}

    def _watch(self, connection: Connection, request: Any) -> CommandWatchTcAssignmentsUpdate:
        self._counts[connection, request.watch_id] = self._first
        return update(request.watch_id, self._first)

    def _close(self, connection: Connection, request: Any) -> None:
        self._counts.pop((connection, request.watch_id), None)

    def advertise(self, flags: FeatureFlags) -> None:
        """Set the feature flag."""
        flags.supports_tc_metadata_discovery = True

    def disconnected(self, connection: Connection) -> None:
        """Forget the watches of a connection."""
        self._counts = {key: count for key, count in self._counts.items() if key[0] is not connection}

    def topic_created(self, topic: str) -> None:
        """Tell all watches."""
        for connection, watch_id in self._counts:
            self._counts[connection, watch_id] += 1
            connection.send(update(watch_id, self._counts[connection, watch_id]))
