"""Brokers that answer requests for the topics of a namespace wrongly: other topics, another hash, another reading of the pattern."""

import re
from bisect import insort
from urllib.parse import unquote

import re2

from conformance.mutants.model import in_place_of, on_incoming, on_outgoing, on_request
from refimpl.broker import Broker
from refimpl.broker.admin import Admin
from refimpl.broker.authorization import ACTIONS
from refimpl.indexes.topic_patterns import TopicsPattern, compile_pattern
from refimpl.indexes.topics_hash import topics_hash
from refimpl.names import is_system_topic, partitioned_topic_name
from refimpl.proposals.refused import Refused
from refimpl.proposals.topic_list.broker import TopicListBroker
from refimpl.proposals.topic_list.rules import matched_name, pattern_length, visible_topics, without_domain
from refimpl.store import StoredNamespace
from refimpl.wire.checksum import crc32c
from refimpl.wire.pulsar_api_pb2 import (
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandWatchTopicList,
    InvalidTopicName,
)
from refimpl.wire.scan import scan
from refimpl.wire.schema import descriptor_of

Request = CommandGetTopicsOfNamespace
Answer = CommandGetTopicsOfNamespaceResponse

# What is listed


@in_place_of(visible_topics, clause=("pip145.list.filter", "pip145.watch.success-lists-matching"))
def does_not_filter(visible, topics, pattern=None):
    """A pattern is not looked at: a list has all topics of the namespace."""
    return visible(topics)


@in_place_of(TopicListBroker.get_topics, clause="pip145.list.filtered-flag")
def says_unfiltered_where_nothing_was_left_out(get_topics, lists, request, topics):
    """A list for a pattern that fits all topics says filtered=false."""
    present = list(topics)
    answer = get_topics(lists, request, present)
    answer.filtered &= len(answer.topics) < len(present)
    return answer


@in_place_of(TopicListBroker.get_topics, clause="pip145.list.changed-with-list")
def takes_an_empty_list_for_no_change(get_topics, lists, request, topics):
    """An empty list says changed=false."""
    answer = get_topics(lists, request, topics)
    answer.changed &= bool(answer.topics)
    return answer


@in_place_of(TopicListBroker.get_topics, clause="pip145.list.large")
def cuts_lists_off_at_64_kib(get_topics, lists, request, topics):
    """A list holds as many names as 64 KiB have room for."""
    answer = get_topics(lists, request, topics)
    while answer.ByteSize() > 64 * 1024:
        answer.topics.pop()
    return answer


@in_place_of(Broker.persistent_topics, clause="pip145.list.own-namespace")
def lists_the_topics_of_a_tenant(persistent_topics, broker, namespace):
    """The topics of a namespace are all of its tenant; the pattern says which of them."""
    tenant = namespace.partition("/")[0]
    return [name for one in broker.store.namespaces if one.startswith(f"{tenant}/") for name in persistent_topics(broker, one)]


@in_place_of(Broker.create_partitions, clause="pip145.list.reflects-creation")
def adds_partitions_without_a_topic_each(create_partitions, broker, name, partitions):
    """When a partitioned topic grows, its new partitions are not listed before somebody uses them."""
    broker.namespace(name).partitioned[name.full] = partitions
    broker.partitions_changed(name.full)


@in_place_of(Broker.delete_topic, clause="pip145.list.reflects-deletion")
def goes_on_listing_a_deleted_topic(delete_topic, broker, name):
    """A topic that was deleted stays in the lists."""
    stored = broker.namespace(name).topics.get(name.full)
    delete_topic(broker, name)
    if stored is not None:
        within = broker.namespace(name)
        within.topics[name.full] = stored
        insort(within.names, name.full)


@in_place_of(visible_topics, clause="pip145.list.name-decoding")
def decodes_names_once_more(visible, topics, pattern=None):
    """What follows a percent sign in a name is decoded before the name is listed: t%41 becomes tA."""
    return [unquote(topic) for topic in visible(topics, pattern)]


@on_incoming(Request, clause="pip145.list.mode-persistent")
def takes_persistent_for_all(_, request):
    """Mode PERSISTENT, if it is written out, counts as ALL."""
    if request.HasField("mode") and request.mode == Request.PERSISTENT:
        request.mode = Request.ALL


@on_incoming(Request, clause="pip145.list.mode-default")
def lists_everything_without_a_mode(_, request):
    """Without a mode, non-persistent topics are listed too."""
    request.mode = request.mode if request.HasField("mode") else Request.ALL


@on_incoming(Request, clause="pip145.list.mode-non-persistent")
def takes_non_persistent_for_all(_, request):
    """Mode NON_PERSISTENT counts as ALL."""
    request.mode = Request.ALL if request.mode == Request.NON_PERSISTENT else request.mode


@in_place_of(Broker.non_persistent_topics, clause="pip145.list.left-non-persistent")
def lists_non_persistent_topics_as_long_as_they_are_loaded(topics, broker, namespace, *, in_use=False):
    """A non-persistent topic stays in the list when everybody has left it."""
    return topics(broker, namespace)


@in_place_of(is_system_topic, clause="pip145.list.system-hidden")
def hides_no_system_topics(is_system, topic):
    """System topics are listed."""
    return False


@in_place_of(is_system_topic, clause=("pip145.list.underscore-listed", "pip145.watch.underscore-announced"))
def hides_all_names_that_begin_with_two_underscores(is_system, topic):
    """A topic whose name begins with two underscores is not listed."""
    return topic.rpartition("/")[2].startswith("__")


@on_request("getTopicsOfNamespace", clause="pip145.list.not-created")
def creates_the_namespace_that_is_asked_for(carry_out, session, request):
    """A namespace that does not exist is created when its list is asked for."""
    carry_out()
    session.broker.store.namespaces.setdefault(request.namespace, StoredNamespace())


@in_place_of(Broker.may_list, clause="pip145.list.authorized-roles")
def lists_for_super_users_only(may_list, broker, connection, namespace):
    """A role that has a permission in the namespace, but is no super-user, is refused."""
    return broker.authorization.is_super_user(connection.role)


@in_place_of(Broker.may_list, clause=("pip145.list.unauthorized", "pip145.watch.unauthorized", "pr25648.error.unauthorized"))
def lists_for_every_permission(may_list, broker, connection, namespace):
    """A role may list a namespace with any permission in it, one for functions included."""
    return broker.authorization.allows(connection.role, namespace, *ACTIONS)


# Patterns


@in_place_of(TopicsPattern.matches, clause="pip145.pattern.full-match")
def searches_for_a_pattern(matches, pattern, name):
    """A pattern fits a name that begins with something it fits."""
    return re2.match(pattern.text, name) is not None


@in_place_of(matched_name, clause="pip145.pattern.partitioned-name")
def compares_a_partition_by_its_own_name(matched, topic):
    """A pattern is compared with the name of a partition, -partition-N included."""
    return topic.partition("://")[2]


@in_place_of(matched_name, clause="pip145.pattern.partitioned-name")
def takes_partitions_for_persistent(matched, topic):
    """A pattern is compared with the whole name of a non-persistent partition, -partition-N included."""
    return matched(topic) if topic.startswith("persistent://") else topic.partition("://")[2]


@in_place_of(partitioned_topic_name, clause="pip145.pattern.ordinary-suffix")
def reads_leading_zeros_as_a_partition(partitioned, topic):
    """A name that ends in -partition-01 is compared without that."""
    return re.sub(r"-partition-[0-9]+\Z", "", topic)


@in_place_of(compile_pattern, clause="pip145.pattern.common-syntax")
def knows_no_escapes_but_those_of_punctuation(compiled, text, known_prefix=""):
    r"""A pattern with an escape such as \d or \x74 is refused as an invalid one."""
    if re.search(r"\\[dwsxbDWSB]", text):
        raise ValueError("unknown escape")
    return compiled(text, known_prefix)


@in_place_of(compile_pattern, clause="pip145.pattern.quoted-name")
def reads_what_is_quoted_as_a_pattern(compiled, text, known_prefix=""):
    r"""What stands between \Q and \E is not taken literally: a dot in it is any character."""
    return compiled(text.replace(r"\Q", "").replace(r"\E", ""), known_prefix)


@in_place_of(compile_pattern, clause="pip145.pattern.case-sensitive")
def ignores_case(compiled, text, known_prefix=""):
    """A letter of a pattern fits both cases of it."""
    return compiled(f"(?i){text}")


@in_place_of(TopicsPattern.matches, clause="pip145.pattern.unicode")
def lets_a_dot_stand_for_a_byte(matches, pattern, name):
    """Pattern and name are compared byte by byte, in UTF-8."""
    return re2.fullmatch(pattern.text.encode().decode("latin-1"), name.encode().decode("latin-1")) is not None


@on_incoming(Request, clause="pip145.pattern.empty")
def takes_an_empty_pattern_for_none(_, request):
    """A request with an empty pattern gets the whole list, with filtered=false."""
    if not request.topics_pattern:
        request.ClearField("topics_pattern")


@in_place_of(compile_pattern, clause="pip145.pattern.look-around-refused")
def takes_a_possessive_quantifier_for_a_greedy_one(compiled, text, known_prefix=""):
    """A pattern with ++ is evaluated as if it had + alone."""
    return compiled(text.replace("++", "+"), known_prefix)


@in_place_of(compile_pattern, clause="pip145.pattern.invalid")
def takes_an_invalid_pattern_for_a_name(compiled, text, known_prefix=""):
    """A pattern that is no regular expression is taken literally."""
    try:
        return compiled(text, known_prefix)
    except ValueError:
        return compiled(re.escape(text), known_prefix)


@in_place_of(without_domain, clause=("pip145.pattern.unknown-domain", "pip145.watch.domain-unsupported"))
def takes_any_domain_out_of_a_pattern(without, pattern):
    """Whatever stands before :// is taken out of a pattern."""
    return pattern.partition("://")[2] or without(pattern)


@in_place_of(without_domain, clause="pip145.pattern.domain-only")
def takes_a_mere_domain_for_an_empty_pattern(without, pattern):
    """A pattern with nothing behind its domain is evaluated as the empty one."""
    return "" if pattern.endswith("persistent://") else without(pattern)


@in_place_of(pattern_length, clause="pip145.pattern.length-limit")
def evaluates_shorter_patterns_only(length, pattern):
    """A pattern of just subscriptionPatternMaxLength is not evaluated."""
    return length(pattern) + 1


@in_place_of(pattern_length, clause="pip145.pattern.length-with-domain")
def does_not_count_the_domain(length, pattern):
    """The domain of a pattern does not count towards the limit."""
    return length(pattern.partition("://")[2] or pattern)


@in_place_of(pattern_length, clause=("pip145.pattern.length-unit", "pip145.watch.pattern-too-long"))
def counts_the_bytes_of_a_pattern(length, pattern):
    """The length of a pattern is counted in bytes of UTF-8."""
    return len(pattern.encode())


@in_place_of(TopicListBroker.get_topics, clause="pip145.pattern.no-length-limit")
def limits_patterns_in_spite_of_the_text(get_topics, lists, request, topics):
    """A pattern of more than 50 characters is not evaluated, whatever the profile."""
    if len(request.topics_pattern) > 50:
        request.ClearField("topics_pattern")
    return get_topics(lists, request, topics)


# Hashes


@in_place_of(topics_hash, clause="pip145.hash.utf16-order")
def sorts_by_code_points(_, topics):
    """For the hash of a list, names are sorted by their code points."""
    return crc32c(",".join(sorted(topics)).encode()).to_bytes(4, "little").hex()


@in_place_of(topics_hash, clause="pip145.hash.value")
def hashes_names_in_lower_case(hashed, topics):
    """The names are hashed in lower case."""
    return hashed(topic.lower() for topic in topics)


@in_place_of(TopicListBroker.get_topics, clause="pip145.hash.list-order-free")
def puts_a_comma_between_two_modes_also_where_one_is_empty(get_topics, lists, request, topics):
    """For mode ALL the names of both domains are hashed with a comma between, also if there are none of one."""
    answer = get_topics(lists, request, topics)
    answer.topics_hash = topics_hash(["", *answer.topics]) if request.mode == Request.ALL else answer.topics_hash
    return answer


@on_outgoing(Answer, clause="pip145.hash.always")
def hashes_filtered_lists_only(_, answer):
    """A list that is not filtered has no hash."""
    if not answer.filtered:
        answer.ClearField("topics_hash")


@in_place_of(TopicListBroker.get_topics, clause="pip145.hash.of-matching")
def hashes_the_whole_namespace(get_topics, lists, request, topics):
    """The hash of a filtered list is that of all topics of the namespace."""
    present = list(topics)
    answer = get_topics(lists, request, present)
    answer.topics_hash = topics_hash(topic for topic in present if not is_system_topic(topic))
    answer.changed = answer.topics_hash != request.topics_hash
    return answer


@in_place_of(TopicListBroker.get_topics, clause="pip145.hash.stale")
def takes_any_hash_for_the_right_one(get_topics, lists, request, topics):
    """A request with a hash is told that nothing has changed."""
    answer = get_topics(lists, request, topics)
    if request.HasField("topics_hash"):
        answer.changed = False
        answer.ClearField("topics")
    return answer


@on_incoming(CommandWatchTopicList, clause="pip145.hash.interchangeable")
def trusts_hashes_of_watches_only(session, request):
    """A watch without a watcher is answered with all topics, whatever hash it has."""
    request.ClearField("topics_hash")


# Namespaces


@in_place_of(Broker.persistent_topics, clause="core.list.own-namespace")
def lists_namespaces_that_begin_alike(persistent_topics, broker, namespace):
    """A list has also the topics of namespaces whose names begin with that of the one asked for."""
    return [topic for name in broker.store.namespaces if name.startswith(namespace) for topic in persistent_topics(broker, name)]


@in_place_of(Broker.non_persistent_topics, clause="core.list.own-namespace")
def lists_namespaces_by_their_local_names(non_persistent_topics, broker, namespace, **options):
    """A list has the non-persistent topics of the namespaces of this name in all tenants."""
    local = namespace.partition("/")[2]
    namespaces = [name for name in broker.store.namespaces if name.partition("/")[2] == local]
    return [topic for name in namespaces for topic in non_persistent_topics(broker, name, **options)]


# Switched off, and older clients


@in_place_of(TopicListBroker.get_topics, clause="pip145.compat.switch-off-no-error")
def compiles_patterns_though_switched_off(get_topics, lists, request, topics):
    """A pattern that does not compile is refused also where it is not evaluated."""
    try:
        compile_pattern(request.topics_pattern)
    except ValueError:
        raise Refused(InvalidTopicName, "Invalid topics pattern") from None
    return get_topics(lists, request, topics)


@in_place_of(Admin.topics, clause="pip145.compat.http-list")
def lists_partitioned_topics_once_over_http(topics, admin, namespace, domain, **options):
    """The admin interface lists a partitioned topic by its own name instead of its partitions."""
    return list(dict.fromkeys(map(partitioned_topic_name, topics(admin, namespace, domain, **options))))


@on_incoming(Request, clause="pip145.list.mode-unknown")
def takes_an_unknown_mode_for_all(_, request):
    """A mode that the broker does not know counts as ALL."""
    present = {piece.field.name for piece in scan(descriptor_of(request), request.SerializeToString()) if piece.field}
    if "mode" in present and not request.HasField("mode"):
        request.mode = Request.ALL
