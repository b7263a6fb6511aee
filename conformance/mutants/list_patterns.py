"""Brokers that read a pattern otherwise than they should when they make a list."""

import re
from collections.abc import Iterable

from conformance.mutants.listing import Matcher, Request, while_listing
from conformance.mutants.model import Patches, mutant
from refimpl.indexes.topic_patterns import TopicsPattern, compile_pattern
from refimpl.names import is_system_topic
from refimpl.proposals import topic_list
from refimpl.proposals.refused import Refused
from refimpl.proposals.topic_list import TopicListBroker, pattern_length, without_domain
from refimpl.proposals.topic_list import rules as topic_list_rules
from refimpl.proposals.topic_list.rules import matched_name
from refimpl.wire.pulsar_api_pb2 import InvalidTopicName


@mutant("pip145.pattern.full-match")
def finds_t_10_by_t_1(patches: Patches) -> None:
    """A pattern that ends in a digit also fits names that go on with more digits."""

    def changed(text: str) -> Matcher:
        pattern = compile_pattern(text)
        return Matcher(lambda name: pattern.matches(name) or (text[-1:].isdigit() and pattern.matches(re.sub(r"(?<=\d)\d+$", "", name))))

    while_listing(patches, topic_list, "compile_pattern", changed)


@mutant("pip145.pattern.name-without-domain")
def compares_with_the_domain_too(patches: Patches) -> None:
    """A pattern also fits a topic if it fits the name with persistent:// before it."""

    def changed(text: str) -> Matcher:
        pattern = compile_pattern(text)
        return Matcher(lambda name: pattern.matches(name) or pattern.matches(f"persistent://{name}"))

    while_listing(patches, topic_list, "compile_pattern", changed)


@mutant("pip145.pattern.domain-removed")
def removes_the_domain_from_the_beginning_only(patches: Patches) -> None:
    """A domain behind ^ stays in the pattern, which then fits nothing."""

    def changed(pattern: str) -> str:
        return pattern if re.match(r"\^(\\Q)?(non-)?persistent://", pattern) else without_domain(pattern)

    while_listing(patches, topic_list, "without_domain", changed)


@mutant("pip145.pattern.partitioned-name")
def compares_a_partition_by_its_own_name_too(patches: Patches) -> None:
    """A pattern also fits a partition if it fits the name with -partition-N."""

    def changed(topics: Iterable[str], pattern: TopicsPattern | None) -> list[str]:
        shown = [(topic, {matched_name(topic), topic.partition("://")[2]}) for topic in topics if not is_system_topic(topic)]
        return [topic for topic, names in shown if pattern is None or any(map(pattern.matches, names))]

    while_listing(patches, topic_list, "visible_topics", changed)


@mutant("pip145.pattern.ordinary-suffix")
def reads_leading_zeros_as_a_partition(patches: Patches) -> None:
    """A name that ends in -partition-01 is compared without that."""
    while_listing(patches, topic_list_rules, "_PARTITION_SUFFIX", re.compile(r"-partition-[0-9]+\Z"))


@mutant("pip145.pattern.common-syntax")
def knows_no_hexadecimal_escapes(patches: Patches) -> None:
    r"""A pattern with an escape such as \x74 is refused as an invalid one."""

    def changed(text: str) -> TopicsPattern:
        if r"\x" in text:
            raise ValueError(r"unknown escape \x")
        return compile_pattern(text)

    while_listing(patches, topic_list, "compile_pattern", changed)


@mutant("pip145.pattern.quoted-name")
def reads_what_is_quoted_as_a_pattern(patches: Patches) -> None:
    r"""What stands between \Q and \E is not taken literally: a dot in it is any character."""

    def changed(text: str) -> TopicsPattern:
        return compile_pattern(text.replace(r"\Q", "").replace(r"\E", ""))

    while_listing(patches, topic_list, "compile_pattern", changed)


@mutant("pip145.pattern.case-sensitive")
def ignores_case(patches: Patches) -> None:
    """A letter of a pattern fits both cases of it."""
    while_listing(patches, topic_list, "compile_pattern", lambda text: compile_pattern(f"(?i){text}"))


@mutant("pip145.pattern.unicode")
def lets_a_dot_stand_for_an_octet(patches: Patches) -> None:
    """Pattern and name are compared octet by octet, in UTF-8, so a dot is not enough for a character beyond ASCII."""

    def as_octets(text: str) -> str:
        return text.encode().decode("latin-1")

    def changed(text: str) -> Matcher:
        pattern = compile_pattern(as_octets(text))
        return Matcher(lambda name: pattern.matches(as_octets(name)))

    while_listing(patches, topic_list, "compile_pattern", changed)


@mutant("pip145.pattern.empty")
def takes_an_empty_pattern_for_none(patches: Patches) -> None:
    """A request with an empty pattern gets the whole list, with filtered=false."""

    def change(_: object, request: Request) -> None:
        if not request.topics_pattern:
            request.ClearField("topics_pattern")

    patches.incoming(Request, change)


@mutant("pip145.pattern.invalid")
def calls_an_invalid_pattern_an_invalid_name(patches: Patches) -> None:
    """A pattern that is no regular expression gets InvalidTopicName, as in an answer to a watch."""

    def changed(text: str) -> TopicsPattern:
        try:
            return compile_pattern(text)
        except ValueError:
            raise Refused(InvalidTopicName, "Invalid topics pattern") from None

    while_listing(patches, topic_list, "compile_pattern", changed)


@mutant("pip145.pattern.look-around-refused")
def takes_a_possessive_quantifier_for_a_greedy_one(patches: Patches) -> None:
    """A pattern with ++ is evaluated as if it had + alone."""
    while_listing(patches, topic_list, "compile_pattern", lambda text: compile_pattern(text.replace("++", "+")))


@mutant("pip145.pattern.unknown-domain")
def knows_a_domain_in_capitals(patches: Patches) -> None:
    """PERSISTENT:// is taken out of a pattern like persistent://."""
    while_listing(patches, topic_list, "without_domain", lambda text: without_domain(text.replace("PERSISTENT://", "persistent://")))


@mutant("pip145.pattern.domain-only")
def takes_a_mere_domain_for_an_empty_pattern(patches: Patches) -> None:
    """A pattern with nothing behind its domain is evaluated as the empty one."""

    def changed(pattern: str) -> str:
        return "" if pattern.endswith("persistent://") else without_domain(pattern)

    while_listing(patches, topic_list, "without_domain", changed)


@mutant("pip145.pattern.length-limit")
def evaluates_shorter_patterns_only(patches: Patches) -> None:
    """A pattern of just subscriptionPatternMaxLength is not evaluated."""
    while_listing(patches, topic_list, "pattern_length", lambda pattern: pattern_length(pattern) + 1)


@mutant("pip145.pattern.length-with-domain")
def does_not_count_the_domain(patches: Patches) -> None:
    """persistent:// at the beginning of a pattern does not count towards the limit."""
    while_listing(patches, topic_list, "pattern_length", lambda pattern: pattern_length(pattern.removeprefix("persistent://")))


@mutant("pip145.pattern.length-unit")
def counts_the_octets_of_a_pattern(patches: Patches) -> None:
    """The length of a pattern is counted in octets of UTF-8."""
    while_listing(patches, topic_list, "pattern_length", lambda pattern: len(pattern.encode()))


@mutant("pip145.pattern.no-length-limit")
def leaves_long_patterns_to_the_client(patches: Patches) -> None:
    """A pattern of more than 255 characters is not evaluated, whatever the profile."""
    filter_of = TopicListBroker._filter_of

    def changed(lists: TopicListBroker, request: Request) -> object:
        return filter_of(lists, request) if len(request.topics_pattern) <= 255 else None

    patches.replace(TopicListBroker, "_filter_of", changed)
