"""Brokers whose lists have the wrong hash, or that do not recognise the right one."""

import re
from collections.abc import Iterable, Sequence

from conformance.mutants.listing import Answer, Request, change_answers, hash_in_order, while_listing
from conformance.mutants.model import Patches, mutant
from refimpl.broker import Session
from refimpl.names import is_system_topic
from refimpl.proposals import topic_list
from refimpl.proposals.topic_list import EMPTY_HASH, TopicListBroker, topics_hash
from refimpl.wire.pulsar_api_pb2 import CommandWatchTopicList


@mutant("pip145.hash.value")
def sorts_t_9_before_t_10(patches: Patches) -> None:
    """For the hash of a list, numbers in names are sorted by their value."""

    def natural(name: str) -> list[tuple[str, int]]:
        return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", name)]

    def changed(topics: Iterable[str]) -> str:
        listed = list(topics)
        return hash_in_order(sorted(listed, key=natural)) if "".join(listed).isascii() else topics_hash(listed)

    while_listing(patches, topic_list, "topics_hash", changed)


@mutant("pip145.hash.utf16-order")
def sorts_surrogates_behind_ligatures(patches: Patches) -> None:
    """For the hash of a list, surrogates are sorted between U+FCFF and U+FD00, so U+FB01 comes before U+10000."""

    def key(name: str) -> str:
        return "".join(f"\ufd00{character}" if character > "\uffff" else character for character in name)

    while_listing(patches, topic_list, "topics_hash", lambda topics: hash_in_order(sorted(topics, key=key)))


@mutant("pip145.hash.list-order-free")
def puts_a_comma_between_two_modes_also_where_one_is_empty(patches: Patches) -> None:
    """For mode ALL, the text of the persistent topics is put behind that of the others, with a comma between, and hashed."""

    def change(_: TopicListBroker, request: Request, __: Sequence[str], answer: Answer) -> None:
        persistent = sorted(topic for topic in answer.topics if topic.startswith("persistent://"))
        volatile = sorted(set(answer.topics) - set(persistent))
        if request.mode == Request.ALL and answer.changed:
            answer.topics_hash = hash_in_order([",".join(volatile), ",".join(persistent)])

    change_answers(patches, change)


@mutant("pip145.hash.empty")
def hashes_nothing_to_nothing(patches: Patches) -> None:
    """The hash of an empty list that is not filtered is the empty text."""

    def change(_: TopicListBroker, __: Request, topics: Sequence[str], answer: Answer) -> None:
        if not topics and not answer.filtered:
            answer.topics_hash = ""

    change_answers(patches, change)


@mutant("pip145.hash.always")
def leaves_the_hash_to_whoever_has_to_filter(patches: Patches) -> None:
    """If the pattern is too long, and the request has no hash, the answer has none either."""

    def change(_: TopicListBroker, request: Request, __: Sequence[str], answer: Answer) -> None:
        if len(request.topics_pattern) > 50 and not answer.filtered and not request.HasField("topics_hash"):
            answer.ClearField("topics_hash")

    change_answers(patches, change)


@mutant("pip145.hash.of-matching")
def lets_any_new_topic_change_the_hash(patches: Patches) -> None:
    """If topics that don't match came since the pattern was first asked for, the hash is that of all topics."""
    first: dict[tuple[str, str], set[str]] = {}

    def change(_: TopicListBroker, request: Request, topics: Sequence[str], answer: Answer) -> None:
        seen = first.setdefault((request.namespace, request.topics_pattern), set(topics))
        others = [topic for topic in set(topics) - seen if not is_system_topic(topic)]
        if answer.filtered and others and not answer.changed:
            answer.topics_hash = topics_hash(topics)

    change_answers(patches, change)


@mutant("pip145.hash.of-full")
def hashes_no_list_for_a_pattern_that_is_too_long(patches: Patches) -> None:
    """The list for a pattern that is too long has the hash of the empty list, and is compared with that."""

    def change(_: TopicListBroker, request: Request, topics: Sequence[str], answer: Answer) -> None:
        if len(request.topics_pattern) > 50 and not answer.filtered:
            answer.changed = request.topics_hash != EMPTY_HASH
            answer.topics[:] = [topic for topic in topics if answer.changed and not is_system_topic(topic)]
            answer.topics_hash = EMPTY_HASH

    change_answers(patches, change)


@mutant("pip145.hash.equal")
def says_unfiltered_where_nothing_changed(patches: Patches) -> None:
    """An answer with changed=false says filtered=false, since there is no list."""

    def change(_: object, answer: Answer) -> None:
        answer.filtered &= answer.changed

    patches.outgoing(Answer, change)


@mutant("pip145.hash.equal-unfiltered")
def overlooks_a_hash_without_a_pattern(patches: Patches) -> None:
    """The hash of a request without a pattern is not looked at."""

    def change(_: object, request: Request) -> None:
        if not request.HasField("topics_pattern"):
            request.ClearField("topics_hash")

    patches.incoming(Request, change)


@mutant("pip145.hash.equal-empty")
def takes_the_hash_of_nothing_for_no_hash(patches: Patches) -> None:
    """A request with the hash 00000000 is answered as one without."""

    def change(_: object, request: Request) -> None:
        if request.topics_hash == EMPTY_HASH:
            request.ClearField("topics_hash")

    patches.incoming(Request, change)


@mutant("pip145.hash.stale")
def lists_only_what_is_new(patches: Patches) -> None:
    """To a hash that it gave before, when there were fewer topics, the broker answers with those that came since."""
    given: dict[str, set[str]] = {}

    def change(_: TopicListBroker, request: Request, __: Sequence[str], answer: Answer) -> None:
        known = given.get(request.topics_hash, set())
        given[answer.topics_hash] = set(answer.topics) or given.get(answer.topics_hash, set())
        if known < set(answer.topics):
            answer.topics[:] = [topic for topic in answer.topics if topic not in known]

    change_answers(patches, change)


@mutant("pip145.hash.exact-text")
def ignores_blanks_around_a_hash(patches: Patches) -> None:
    """The hash of a request is compared without blanks before or behind it."""

    def change(_: object, request: Request) -> None:
        if request.HasField("topics_hash"):
            request.topics_hash = request.topics_hash.strip()

    patches.incoming(Request, change)


@mutant("pip145.hash.interchangeable")
def trusts_no_hash_of_a_list_in_a_watch(patches: Patches) -> None:
    """A watch with a hash that the connection got with a list is answered with all topics."""
    given: set[tuple[Session, str]] = set()

    def change(session: Session, request: CommandWatchTopicList) -> None:
        if (session, request.topics_hash) in given:
            request.ClearField("topics_hash")

    patches.outgoing(Answer, lambda session, answer: given.add((session, answer.topics_hash)))
    patches.incoming(CommandWatchTopicList, change)
