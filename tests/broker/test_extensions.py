"""What a proposal can add to a broker: one that exists nowhere else, by the same means as those that do."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

import refimpl.broker
from refimpl import proposals
from refimpl.broker import AdminRefused, Broker
from refimpl.broker.rest import handle
from refimpl.names import TopicName
from refimpl.proposals.administration import Access, AdminRequest, ExtensionRoute
from refimpl.proposals.declaration import Capability, Command, Proposal
from refimpl.proposals.extension import EntryJudge, EntryVerdict, Extension, Host
from refimpl.proposals.profiles import AS_WRITTEN, DEFAULT
from refimpl.proposals.refused import ProtocolViolation, Refused
from refimpl.store import Cursor, Entry, StoredTopic
from refimpl.wire.pulsar_api_pb2 import (
    CommandError,
    CommandProducerSuccess,
    CommandSuccess,
    CommandWatchTcAssignmentsUpdate,
    FeatureFlags,
    InvalidTopicName,
    NotAllowedError,
)
from tests.fakes.broker_peer import TOPIC, Peer

NOTE = "note://public/default/n"


class Odd(EntryJudge):
    """Rejects each second entry, and puts off the first once."""

    def __init__(self) -> None:
        self.put_off: dict[int, float] = {0: 1.0}

    def judge(self, consumer: object, index: int, entry: Entry, cursor: Cursor, now: float) -> EntryVerdict:
        if index in self.put_off:
            return EntryVerdict.RESCHEDULE
        return EntryVerdict.REJECT if index % 2 else EntryVerdict.ACCEPT

    def next_deadline(self) -> float | None:
        return min(self.put_off.values(), default=None)

    def due(self, now: float) -> list[int]:
        return [self.put_off.popitem()[0]] if self.put_off and now >= 1.0 else []

    def stats(self) -> Mapping[str, int]:
        return {"oddMsgCount": 7}


class Notes(Extension):
    """Tells whoever watches, a second later, how many topics have come; has topics of its own."""

    domains = ("note",)

    def __init__(self, host: Host, profile: str, plugins: object = None) -> None:
        super().__init__(host)
        self.profile, self.plugins = profile, plugins
        self.watching: dict[object, int] = {}
        self.due: float | None = None
        self.notes = {NOTE: host.store.new_topic()}
        self.commands = {"watchTcAssignments": self._watch, "scalableTopicUnsubscribe": self._take}
        self.routes = (ExtensionRoute("GET", "/admin/v2/notes/{tenant}", self._read, access=Access("any")),)

    def _watch(self, connection: object, request: SimpleNamespace) -> None:
        if request.watch_id == 13:
            raise ProtocolViolation("unlucky")
        self.watching[connection] = request.watch_id

    def _take(self, connection: object, request: SimpleNamespace) -> CommandSuccess:
        if request.consumer_id == 13:
            raise Refused(NotAllowedError, "unlucky")
        return CommandSuccess(request_id=request.request_id)

    def _read(self, path: Mapping[str, str], request: AdminRequest) -> list[str]:
        if path["tenant"] == "nobody":
            raise AdminRefused(404, "no such tenant")
        return [path["tenant"], request.query["more"]]

    def advertise(self, flags: FeatureFlags) -> None:
        flags.supports_tc_metadata_discovery = True

    def disconnected(self, connection: object) -> None:
        self.watching.pop(connection, None)

    def topic_created(self, topic: str) -> None:
        self.due = self.host.now + 1

    def next_deadline(self) -> float | None:
        return self.due

    def tick(self, now: float) -> None:
        if self.due is not None and now >= self.due:
            self.due = None
            for connection, watch_id in self.watching.items():
                connection.send(CommandWatchTcAssignmentsUpdate(watch_id=watch_id))

    def entry_judge(self, properties: Mapping[str, str], *, is_new: bool) -> Odd:
        return Odd()

    def topic_name(self, text: str) -> TopicName:
        if not text.startswith("note://public/default/"):
            raise Refused(InvalidTopicName, text)
        return TopicName(text, "note", "public/default", text, -1)

    def exists(self, name: TopicName) -> bool:
        return name.full in self.notes

    def stored_topic(self, name: TopicName) -> StoredTopic | None:
        return self.notes.get(name.full)

    def topics_of(self, namespace: str) -> list[str]:
        return [name for name in self.notes if name.startswith(f"note://{namespace}/")]

    def delete_topics(self, namespace: str) -> None:
        for name in self.topics_of(namespace):
            del self.notes[name]


PROPOSAL = Proposal(
    register="notes",
    name="Notes",
    title="notes",
    address="https://example.org",
    capabilities=(Capability("notes", "feature flag", flag="supports_tc_metadata_discovery"),),
    commands=(Command("watchTcAssignments", 79, "client"),),
    broker=Notes,
    profiles={"default": "usual", "as-written": "strict"},
)


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposals, "PROPOSALS", (*proposals.PROPOSALS, PROPOSAL))


def test_it_gets_its_profile_and_its_plugins() -> None:
    assert Broker().extension(Notes).profile == "usual"
    notes = Broker(profiles=AS_WRITTEN, plugins={"notes": "some"}).extension(Notes)
    assert (notes.profile, notes.plugins) == ("strict", "some")
    assert Broker(profiles=DEFAULT.replacing(PROPOSAL, "mine")).extension(Notes).profile == "mine"


def test_a_broker_without_it_knows_nothing_of_it() -> None:
    broker = Broker(proposals=frozenset({"pip145"}))
    peer = Peer(broker)
    assert not broker.feature_flags().HasField("supports_tc_metadata_discovery")
    assert peer.producer(NOTE).error == InvalidTopicName
    peer.send("watchTcAssignments", watch_id=1)
    assert peer.session.closing
    with pytest.raises(LookupError, match="no Notes"):
        broker.extension(Notes)


def test_commands_are_answered_refused_or_end_the_connection() -> None:
    peer = Peer(Broker())
    assert peer.ask("scalableTopicUnsubscribe", request_id=5, consumer_id=1) == CommandSuccess(request_id=5)
    refused = CommandError(request_id=6, error=NotAllowedError, message="unlucky")
    assert peer.ask("scalableTopicUnsubscribe", request_id=6, consumer_id=13) == refused
    peer.send("watchTcAssignments", watch_id=13)
    assert (peer.answers(), peer.session.closing) == ([], True)


def test_it_tells_in_its_own_time_what_has_changed() -> None:
    broker = Broker()
    peer, gone = Peer(broker), Peer(broker)
    for one in (peer, gone):
        one.send("watchTcAssignments", watch_id=4)
    gone.session.eof(broker.now)
    broker.admin.create_topic(TOPIC)
    assert broker.next_deadline() == 1.0
    broker.tick(0.9)
    assert peer.answers() == []
    broker.tick(1.0)
    assert peer.answers() == [CommandWatchTcAssignmentsUpdate(watch_id=4)]
    assert list(broker.extension(Notes).watching) == [peer.session]
    assert broker.feature_flags().supports_tc_metadata_discovery


def test_it_judges_entries() -> None:
    broker = Broker()
    peer = Peer(broker)
    peer.producer()
    peer.subscribe()
    peer.publish("a", "b", "c")
    assert peer.flow(9) == ["c"]
    broker.tick(1.0)
    assert peer.texts() == ["a"]
    subscription = broker.admin.topic_stats(TOPIC)["subscriptions"]["s"]
    assert (subscription["oddMsgCount"], subscription["filterProcessedMsgCount"], subscription["msgBacklog"]) == (7, 0, 2)


def test_topics_of_its_domain_are_produced_to_and_go_with_their_namespace() -> None:
    broker = Broker()
    peer = Peer(broker)
    assert isinstance(peer.producer(NOTE), CommandProducerSuccess)
    peer.publish("x")
    assert [type(one).__name__ for one in peer.answers()] == ["CommandSendReceipt"]
    assert len(broker.extension(Notes).notes[NOTE].entries) == 1
    assert peer.producer(f"{NOTE}2", producer_id=2).message == f"Topic {NOTE}2 does not exist"
    with pytest.raises(AdminRefused, match="non empty"):
        broker.admin.delete_namespace("public/default")
    broker.admin.delete_namespace("public/default", force=True)
    assert broker.extension(Notes).notes == {}


def test_it_adds_to_the_admin_interface() -> None:
    broker = Broker()
    answer = handle(broker, AdminRequest("GET", "/admin/v2/notes/t", {"more": "m"}), 0.0)
    assert (answer.status, json.loads(answer.body)) == (200, ["t", "m"])
    assert handle(broker, AdminRequest("GET", "/admin/v2/notes/nobody"), 0.0).status == 404
    assert handle(broker, AdminRequest("PUT", "/admin/v2/notes/t"), 0.0).status == 405


def test_the_broker_names_no_proposal() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in Path(refimpl.broker.__file__).parent.glob("*.py")}
    names = [name for one in proposals.PROPOSALS for name in (one.register, one.name) if one is not PROPOSAL]
    assert len(texts) > 10
    assert [(file, name) for file, text in texts.items() for name in names if name in text] == []
