"""Brokers that lie about frames."""

from collections.abc import Callable

from conformance.mutants.model import Patches, mutant
from refimpl.broker import Session, session
from refimpl.proposals.refused import ProtocolViolation
from refimpl.wire import FRAME_PADDING, FrameDecoder, WireError
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import BaseCommand


def tolerate(patches: Patches, reason: str, instead: Callable[[bytes], list[Frame]] = lambda _: []) -> None:
    """Let sessions go on after malformed frames of one kind.

    Args:
        patches: Where it is done.
        reason: Part of what is wrong with these frames, in the words of the decoder.
        instead: Gets the octets of such a frame; returns what is carried out in its place.
    """

    class Tolerant(FrameDecoder):
        def receive(self, data: bytes) -> list[Frame]:
            frames: list[Frame] = []
            while True:
                try:
                    frames += super().receive(data)
                    if self.error is None:
                        return frames
                except WireError as error:
                    if reason not in error.reason:
                        if frames:
                            return frames
                        raise
                    end = 4 + int.from_bytes(self._buffer[:4], "big")
                    frames += instead(bytes(self._buffer[:end]))
                    del self._buffer[:end]
                    self.error = None
                data = b""

    patches.replace(session, "FrameDecoder", Tolerant)


@mutant("core.frame.largest-accepted")
def counts_the_size_field_twice(patches: Patches) -> None:
    """The largest frame is refused, and those that are up to three octets shorter."""
    patches.replace(session, "FRAME_PADDING", FRAME_PADDING - 4)


@mutant("core.frame.too-large-closes")
def does_not_count_the_size_field(patches: Patches) -> None:
    """A frame of up to four octets above the limit is waited for."""
    patches.replace(session, "FRAME_PADDING", FRAME_PADDING + 4)


@mutant("core.frame.sizes-inconsistent-closes")
def takes_an_empty_frame_for_a_sign_of_life(patches: Patches) -> None:
    """A frame with command size 0 is skipped."""
    tolerate(patches, "command size 0")


@mutant("core.frame.not-protobuf-closes")
def skips_a_command_that_is_cut_off(patches: Patches) -> None:
    """A frame whose command would go on beyond its end is skipped."""
    tolerate(patches, "are left")


@mutant("core.frame.foreign-protocol-closes")
def waits_for_the_end_of_an_http_request(patches: Patches) -> None:
    """A connection that begins with an HTTP request stays open without an answer."""
    receive = Session.receive

    def changed(session: Session, data: bytes, now: float) -> None:
        if not data.startswith(b"GET "):
            receive(session, data, now)

    patches.replace(Session, "receive", changed)


@mutant("core.frame.trailing-octets-ignored")
def ends_a_connection_for_octets_behind_a_command(patches: Patches) -> None:
    """A command without payload whose frame goes on behind it ends the connection."""
    carry_out = Session._carry_out_request

    def changed(session: Session, name: str, request: object, frame: Frame) -> None:
        if frame.payload_bytes is not None and name != "send":
            raise ProtocolViolation(f"octets behind {name}")
        carry_out(session, name, request, frame)  # type: ignore[arg-type]

    patches.replace(Session, "_carry_out_request", changed)


@mutant("core.frame.any-segmentation")
def needs_the_size_of_a_frame_at_once(patches: Patches) -> None:
    """A segment that ends within the size field of a frame is dropped."""
    receive = Session.receive

    def changed(session: Session, data: bytes, now: float) -> None:
        if session._decoder.pending or len(data) >= 4:
            receive(session, data, now)

    patches.replace(Session, "receive", changed)


@mutant("core.frame.several-at-once")
def answers_only_the_last_of_several(patches: Patches) -> None:
    """Of several PARTITIONED_METADATA in one segment only the last is answered."""

    class Forgetful(FrameDecoder):
        def receive(self, data: bytes) -> list[Frame]:
            frames = super().receive(data)
            alike = [frame for frame in frames if frame.command.type == BaseCommand.PARTITIONED_METADATA]
            return [frame for frame in frames if frame not in alike[:-1]]

    patches.replace(session, "FrameDecoder", Forgetful)


@mutant("core.frame.cut-frame-dropped")
def waits_for_the_rest_of_a_cut_frame(patches: Patches) -> None:
    """The broker keeps its side open when the peer ends its own within a frame."""
    eof = Session.eof

    def changed(session: Session, now: float) -> None:
        if not session._decoder.pending:
            eof(session, now)

    patches.replace(Session, "eof", changed)


@mutant("core.frame.fault-stays-local")
def takes_idle_producers_along(patches: Patches) -> None:
    """A command size that does not fit ends all connections that produce to topics without messages and subscriptions, too."""
    end = Session.end

    def changed(session: Session, reason: str) -> None:
        end(session, reason)
        for other in session.broker.sessions if "does not fit" in reason else ():
            if any(not producer.topic.entries and not producer.topic.subscriptions for producer in other.producers.values()):
                end(other, reason)

    patches.replace(Session, "end", changed)
