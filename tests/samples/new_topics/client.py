"""The client's side."""

from collections.abc import Callable

from google.protobuf.message import Message

from refimpl.wire.pulsar_api_pb2 import BaseCommand, CommandWatchTcAssignments, CommandWatchTcAssignmentsClose, FeatureFlags


class NewTopicsWatch:
    """The machine of a watch; see `refimpl.proposals.watch_machine`.

    Attributes:
        count: How many topics are new; None: that is not known.
    """

    def __init__(self, watch_id: int) -> None:
        self.address = ("watch_id", watch_id)
        self.wants_connection = True
        self.is_closed = False
        self.count: int | None = None
        self._to_send: list[Message] = []

    def connected(self, flags: FeatureFlags | None, now: float) -> None:
        """Ask, if the broker knows the proposal."""
        self.wants_connection = False
        if flags is not None and flags.supports_tc_metadata_discovery:
            self._to_send = [CommandWatchTcAssignments(watch_id=self.address[1])]

    def disconnected(self, now: float) -> None:
        """Forget what was known."""
        self.wants_connection = not self.is_closed
        self.count = None
        self._to_send = []

    def received(self, command: BaseCommand, now: float) -> None:
        """Take the count."""
        self.count = command.watchTcAssignmentsUpdate.snapshot.parallelism

    def commands_to_send(self, new_request_id: Callable[[], int], now: float) -> list[Message]:
        """Return what is to be sent."""
        taken, self._to_send = self._to_send, []
        return taken

    def next_deadline(self) -> float | None:
        """Return never."""
        return None

    def tick(self, now: float) -> None:
        """Do nothing."""

    def close(self) -> None:
        """End the watch."""
        self.is_closed = True
        self.wants_connection = False
        self._to_send = [CommandWatchTcAssignmentsClose(watch_id=self.address[1])]
