"""Defects of the broker: the connection concerned is dropped, one line is logged, and everything else goes on."""

from __future__ import annotations

import asyncio
import json

import pytest

from refimpl.broker import Broker, Session
from refimpl.broker.admin import Admin
from refimpl.net.memory_link import MemoryLink
from refimpl.net.serving import serving
from refimpl.net.virtual_time import VirtualTimeLoop
from refimpl.proposals.administration import AdminRequest
from tests.fakes.link_peers import CONNECT, PING, LinkPeer, connected


def fails(*_: object, **__: object) -> None:
    raise ZeroDivisionError("on purpose")


def run(main):
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


def test_defect_while_receiving_ends_one_connection(monkeypatch):
    async def main():
        lines = []
        link = MemoryLink(Broker(), log=lines.append)
        good, bad = LinkPeer(link), LinkPeer(link)
        for peer in (good, bad):
            peer.connection.send(CONNECT)
        with monkeypatch.context() as patched:
            patched.setattr(Session, "_carry_out", fails)
            bad.connection.send(PING)
        good.connection.send(PING)
        await asyncio.sleep(1)
        assert (good.names, good.closed, bad.closed) == (["connected", "pong"], None, "rst")
        assert len(link.broker.sessions) == 1
        assert len(lines) == 1
        assert "ZeroDivisionError: on purpose (fails, line" in lines[0]
        link.close()

    run(main())


def test_defect_in_an_admin_call_is_answered(monkeypatch):
    async def main():
        lines = []
        link = MemoryLink(Broker(), log=lines.append)
        with monkeypatch.context() as patched:
            patched.setattr(Admin, "health", fails)
            answer = link.admin(AdminRequest("GET", "/admin/v2/brokers/health"))
        assert (answer.status, json.loads(answer.body)) == (500, {"reason": "defect: ZeroDivisionError: on purpose"})
        assert len(lines) == 1
        assert link.admin(AdminRequest("GET", "/admin/v2/brokers/health")).status == 200

    run(main())


def test_defect_in_a_timer_stops_no_other(monkeypatch):
    async def main():
        lines = []
        link = MemoryLink(Broker(), log=lines.append)
        peer = LinkPeer(link)
        peer.connection.send(CONNECT)
        with monkeypatch.context() as patched:
            patched.setattr(Session, "send", fails)
            await asyncio.sleep(31)
        assert len(lines) == 1
        later = LinkPeer(link)
        later.connection.send(CONNECT)
        await asyncio.sleep(31)
        assert later.names == ["connected", "ping"]
        link.close()

    run(main())


@pytest.mark.parametrize("log", [True, False])
def test_nothing_is_printed_over_sockets_either(monkeypatch, capfd, log):
    async def main() -> None:
        lines: list[str] = []
        async with serving(log=lines.append if log else None) as served:

            def trial_log() -> None:
                with connected(served.service_url) as peer:
                    monkeypatch.setattr(Session, "_carry_out", fails)
                    peer.send(PING)
                    with pytest.raises(ConnectionError):
                        assert peer.receive() is not None or peer.socket.sendall(PING * 100_000)

            await asyncio.to_thread(trial_log)
        assert any("on purpose" in line for line in lines) == log

    asyncio.run(main())
    assert capfd.readouterr() == ("", "")
