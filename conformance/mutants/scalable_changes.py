"""Faults of PR 25648: diffs, layouts, and what administrators change."""

from conformance.mutants.model import in_place_of, on_outgoing, on_request
from conformance.mutants.scalable import Update
from refimpl.broker.admin import Admin
from refimpl.indexes.topics_hash import TopicSet
from refimpl.names import namespace_of
from refimpl.proposals.scalable_topics.admin import ScalableTopicsAdmin
from refimpl.proposals.scalable_topics.broker import ScalableTopicsBroker, ScalableTopicsExtension
from refimpl.proposals.scalable_topics.layout import LayoutBroker, first_layout, parse_segment_topic
from refimpl.proposals.scalable_topics.rules import FoldedChanges, fits, topic_of_path
from refimpl.wire.pulsar_api_pb2 import (
    CommandScalableTopicClose,
    CommandScalableTopicUpdate,
    NotAllowedError,
    ScalableTopicsDiff,
)

# What is told of a change


@in_place_of(TopicSet.add, clause="pr25648.diff.flips-only")
def tells_every_change_of_a_selected_topic(add, topics, topic):
    """A topic whose properties change and that is still selected is told as added again."""
    add(topics, topic)
    return True


@in_place_of(ScalableTopicsBroker.notified, clause="pr25648.diff.filtered")
def tells_new_topics_whatever_the_filters(notified, watches, path, now):
    """A change is told to all watches over the namespace, whatever their filters are."""
    notified(watches, path, now)
    topic = topic_of_path(path)
    for selection in watches._selections.get(namespace_of(topic), {}).values():
        for session in selection.sessions:
            session.changed(topic, watches._properties_of(topic) is not None)
            watches._armed.setdefault(session, now + 0.05)


@on_request("subscribe", clause="pr25648.diff.direct-children")
def takes_a_subscription_for_a_change(carry_out, session, request):
    """A topic is told as added again when somebody subscribes to one of its segments."""
    carry_out()
    topic, _ = parse_segment_topic(request.topic) or ("", None)
    for other, watches in session.broker.extension(ScalableTopicsExtension).watches._sessions.items() if topic else ():
        for watch_id in watches:
            other.send(Update(watch_id=watch_id, diff=ScalableTopicsDiff(added=[topic])))


@in_place_of(ScalableTopicsBroker.tick, clause="pr25648.diff.every-watch")
def tells_one_connection(tick, watches, now):
    """A change is told to one of those who watch."""
    return tick(watches, now)[:1]


@in_place_of(ScalableTopicsBroker.notified, clause="pr25648.diff.window-fixed")
def slides_its_window(notified, watches, path, now):
    """Each further change prolongs the windows."""
    notified(watches, path, now)
    for session in list(watches._armed):
        watches._armed.pop(session)
        watches._armed[session] = now + 0.05


@on_outgoing(Update, clause="pr25648.diff.one-frame")
def tells_removals_and_additions_apart(session, update):
    """What was removed and what was added within a window are told in two frames."""
    if update.diff.removed and update.diff.added:
        session.send(Update(watch_id=update.watch_id, diff=ScalableTopicsDiff(removed=update.diff.removed)))
        update.diff.ClearField("removed")


@in_place_of(FoldedChanges.add, clause="pr25648.diff.net-effect")
def forgets_that_a_topic_came_back(add, changes, topic):
    """A topic that is deleted and created again within a window is told as removed."""
    if topic not in changes._removed:
        add(changes, topic)


@in_place_of(FoldedChanges.remove, clause="pr25648.diff.cancels-out")
def tells_the_end_of_a_topic_that_nobody_saw(remove, changes, topic):
    """A topic that is created and deleted within a window is told as removed."""
    changes._added.pop(topic, None)
    changes._removed[topic] = None


@in_place_of(FoldedChanges.add, clause="pr25648.diff.both")
def tells_the_last_change_alone(add, changes, topic):
    """A topic that is deleted and created again within a window is told as added."""
    changes._removed.pop(topic, None)
    changes._added[topic] = None


# What a topic is made of


@in_place_of(first_layout, clause="pr25648.layout.covers-hashes")
def leaves_the_rest_to_nobody(layout, topic, segments=1, created_at_ms=0):
    """Where the hashes can't be shared equally those at the end belong to no segment."""
    found = layout(topic, segments, created_at_ms)
    width = 65536 // segments
    parts = tuple(type(one)(one.number, one.start, one.start + width - 1, created_at_ms) for one in found.segments)
    return type(found)(topic, parts)


@on_outgoing(CommandScalableTopicUpdate, clause="pr25648.layout.brokers")
def names_the_broker_of_the_first_segment_only(_, update):
    """Only the first segment has an entry in segment_brokers."""
    del update.dag.segment_brokers[1:]


@in_place_of(ScalableTopicsExtension.segment, clause="pr25648.layout.segment-name")
def serves_the_first_segment_only(segment, scalable, name):
    """Segments with a number above 0 are unknown to PRODUCER and SUBSCRIBE."""
    return segment(scalable, name) if name.endswith("-0") else None


@in_place_of(ScalableTopicsExtension.segment, clause="pr25648.layout.segment-unknown")
def creates_any_segment(segment, scalable, name):
    """PRODUCER and SUBSCRIBE create segments that their topic does not have."""
    return segment(scalable, name) or scalable.host.store.new_topic()


@in_place_of(LayoutBroker.lookup, clause="pr25648.layout.session-lost")
def keeps_a_session_id_for_the_first_connection(lookup, layouts, connection, request):
    """A session_id for a topic belongs to the connection that used it first, and is refused to all others."""
    owners = layouts.__dict__.setdefault("owners_by_faults", {})
    if owners.setdefault((request.topic, request.session_id), connection) is not connection:
        return CommandScalableTopicUpdate(session_id=request.session_id, error=NotAllowedError, message="The session id is in use")
    return lookup(layouts, connection, request)


@in_place_of(LayoutBroker.close, clause="pr25648.layout.close-silent")
def goes_on_telling_a_closed_look_up(close, layouts, connection, request):
    """A look-up that is closed is told of a new layout all the same."""


@in_place_of(ScalableTopicsAdmin.scalable_topics, clause="pr25648.admin.list")
def lists_topics_with_any_of_the_properties(listed, admin, namespace, filters=()):
    """A list by several properties has the topics with one of them."""
    some = [listed(admin, namespace, [one]) for one in filters] or [listed(admin, namespace)]
    return sorted({topic for topics in some for topic in topics})


@in_place_of(Admin.topics, clause="pr25648.admin.invisible")
def lists_scalable_topics_with_the_ordinary_ones(topics, admin, namespace, domain, **options):
    """The list of persistent topics has the scalable topics."""
    scalable = admin._broker.extension(ScalableTopicsExtension).topics_of(namespace)
    return topics(admin, namespace, domain, **options) + [topic.replace("topic://", "persistent://") for topic in scalable]


@in_place_of(ScalableTopicsExtension.create, clause="pr25648.admin.create")
def keeps_the_properties_of_a_namesake(create, scalable, topic, properties, segments):
    """A topic that is created again has the properties of the deleted one too."""
    kept = scalable.__dict__.setdefault("properties_by_faults", {}).setdefault(topic, {})
    kept.update(properties)
    create(scalable, topic, kept, segments)


@in_place_of(ScalableTopicsExtension.delete_topics, clause="pr25648.diff.net-effect")
def deletes_a_namespace_without_a_word(_, scalable, namespace):
    """Watches are not told of the scalable topics that are deleted with their namespace."""
    for topic in scalable.topics_of(namespace):
        del scalable._records[namespace][topic]


@on_request("watchScalableTopicsClose", clause="pr25648.watch.several")
def closes_the_look_up_with_the_number_of_a_watch(carry_out, session, request):
    """The close of a watch ends the look-up with its number too."""
    session.broker.extension(ScalableTopicsExtension).layouts.close(session, CommandScalableTopicClose(session_id=request.watch_id))
    carry_out()


@in_place_of(fits, clause="pr25648.filter.exact")
def compares_properties_in_one_line(_, properties, filters):
    """Properties are compared in one line of text, such as `a=1,b=2`."""
    line = ",".join(f"{key}={value}" for key, value in sorted(properties.items())).split(",")
    return all(f"{key}={value}" in line for key, value in filters.items())


@in_place_of(ScalableTopicsAdmin.create_scalable_topic, clause="pr25648.admin.create")
def overwrites_the_properties_before_it_refuses(create, admin, topic, properties=None, *, segments=1):
    """The creation of a topic that exists is refused, and its properties are replaced."""
    record = admin._scalable.record(topic)
    if record is not None:
        record.properties = dict(properties or {})
    create(admin, topic, properties, segments=segments)


@in_place_of(ScalableTopicsExtension._unload, clause="pr25648.layout.clients-closed")
def closes_the_clients_of_names_that_begin_alike(unload, scalable, topic):
    """With the clients of a topic those of others whose names begin with its name are closed."""
    for other in scalable.topics_of(namespace_of(topic)):
        if other.startswith(topic):
            unload(scalable, other)
