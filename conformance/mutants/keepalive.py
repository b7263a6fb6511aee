"""Brokers that lie about who is alive."""

from conformance.mutants.model import Patches, mutant
from refimpl.broker import Session
from refimpl.wire import encode_frame, wrap
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import BaseCommand, CommandPong


@mutant("core.keepalive.ping-answered")
def answers_several_pings_once(patches: Patches) -> None:
    """A PING is not answered while the PONG for another has not been taken."""
    pong = encode_frame(wrap(CommandPong()))
    patches.outgoing(CommandPong, lambda session, _: not session._output.endswith(pong))


@mutant("core.keepalive.pong-silent")
def answers_pong_by_pong(patches: Patches) -> None:
    """A PONG is answered by PONG, like PING."""
    carry_out = Session._carry_out

    def changed(session: Session, frame: Frame) -> None:
        carry_out(session, frame)
        if frame.command.type == BaseCommand.PONG:
            session.send(CommandPong())

    patches.replace(Session, "_carry_out", changed)


@mutant("core.keepalive.ping-after-interval")
def pings_every_ten_seconds(patches: Patches) -> None:
    """PING is sent every 10 s if keepAliveIntervalSeconds is longer."""
    later = Session._later
    patches.replace(Session, "_later", lambda session, seconds, call: later(session, min(seconds, 10), call))


@mutant("core.keepalive.pong-keeps")
def does_not_take_pong_for_a_sign_of_life(patches: Patches) -> None:
    """A peer is disconnected if nothing but PONG comes between two PINGs."""
    carry_out = Session._carry_out

    def changed(session: Session, frame: Frame) -> None:
        pinged = session._pinged
        carry_out(session, frame)
        session._pinged = pinged and frame.command.type == BaseCommand.PONG

    patches.replace(Session, "_carry_out", changed)


@mutant("core.keepalive.any-command-counts")
def takes_nothing_but_pong_for_a_sign_of_life(patches: Patches) -> None:
    """A peer is disconnected if no PONG comes between two PINGs."""
    carry_out = Session._carry_out

    def changed(session: Session, frame: Frame) -> None:
        pinged = session._pinged
        carry_out(session, frame)
        session._pinged = pinged and frame.command.type != BaseCommand.PONG

    patches.replace(Session, "_carry_out", changed)


@mutant("core.keepalive.silent-peer-dropped")
def never_gives_a_peer_up(patches: Patches) -> None:
    """A silent peer gets one PING after the other."""
    check_alive = Session._check_alive

    def changed(session: Session) -> None:
        session._pinged = False
        check_alive(session)

    patches.replace(Session, "_check_alive", changed)


@mutant("core.keepalive.no-connect-dropped")
def waits_for_connect_for_ever(patches: Patches) -> None:
    """A connection without CONNECT is not closed."""
    check_alive = Session._check_alive

    def changed(session: Session) -> None:
        if session.protocol_version is not None:
            check_alive(session)

    patches.replace(Session, "_check_alive", changed)


@mutant("core.keepalive.version-0-exempt")
def expects_pong_of_the_oldest_clients(patches: Patches) -> None:
    """A client of version 0 gets PING like any other."""
    check_alive = Session._check_alive

    def changed(session: Session) -> None:
        if session.protocol_version == 0:
            session.protocol_version = 1
        check_alive(session)

    patches.replace(Session, "_check_alive", changed)
