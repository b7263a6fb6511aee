"""Brokers that find topics and their partitions wrongly, or mix requests up."""

from conformance.mutants.model import in_place_of, mutant, on_incoming, on_request
from refimpl.broker import Broker, Session
from refimpl.broker.admin import Admin
from refimpl.broker.names import parse_topic
from refimpl.broker.schemas import Schemas, version_bytes
from refimpl.broker.subscription import Subscription
from refimpl.broker.topic import NonPersistentTopic
from refimpl.names import partition_name
from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import (
    CommandGetSchema,
    CommandPartitionedTopicMetadata,
    CommandReachedEndOfTopic,
    InvalidTopicName,
    MessageIdData,
)

_LARGEST_SIGNED = (1 << 63) - 1


@in_place_of(Schemas.forget, clause="core.schema.deleted")
def keeps_schemas_for_ever(forget, schemas, name):
    """The schemas of a topic outlast its deletion."""


@in_place_of(Broker.delete_topic, clause="core.schema.partition-deleted")
def deletes_the_schema_with_each_partition(delete_topic, broker, name):
    """The schema of a partitioned topic goes with the first of its partitions that is deleted."""
    delete_topic(broker, name)
    broker.schemas.forget(name)


@in_place_of(Schemas.add, clause="core.schema.get-or-create")
def gives_a_schema_a_version_each_time(add, schemas, name, schema, **by):
    """A schema that a topic has already gets a further version."""
    add(schemas, name, schema, **by)
    versions = schemas.versions(name)
    versions.append(schema)
    return version_bytes(len(versions) - 1)


@on_incoming(CommandGetSchema, clause="core.schema.of-version")
def returns_the_newest_schema_for_every_version(_, request):
    """GET_SCHEMA returns the newest schema, whichever version it asks for."""
    request.ClearField("schema_version")


@in_place_of(Admin.grant_permission, clause="core.auth.replaced")
def adds_permissions(grant_permission, admin, namespace, role, actions):
    """What a role is granted is added to what it may do already."""
    grant_permission(admin, namespace, role, {*admin.permissions(namespace).get(role, ()), *actions})


@in_place_of(Session.refuse, clause="core.request.error-keeps-connection")
def drops_all_producers_for_a_refusal(refuse, session, request, refused):
    """A request that is refused takes all producers off the connection."""
    refuse(session, request, refused)
    for producer in list(session.producers.values()):
        session.drop_producer(producer)


@in_place_of(Broker.handler, clause="core.request.ids-per-family")
def takes_equal_ids_for_the_same_request(handler, broker, command):
    """A request with the request_id of the connection's request before is not answered, whatever it asks for."""
    found = handler(broker, command)

    def carry_out(session, request, frame):
        before = session.__dict__.get("last_by_faults")
        session.__dict__["last_by_faults"] = getattr(request, "request_id", None)
        if before is None or before != getattr(request, "request_id", None):
            found(session, request, frame)

    return found and carry_out


@on_request("lookupTopic", clause="core.lookup.creates-nothing")
def creates_what_is_looked_up(carry_out, session, request):
    """LOOKUP of a topic that does not exist creates it."""
    carry_out()
    name = session.broker.topic_name(request.topic)
    if name.persistent and not session.broker.exists(name) and not session.broker.partitions(name):
        session.broker.create_topic(name)


@on_request("lookupTopic", clause="core.lookup.pattern-as-topic")
def takes_no_pattern_for_a_topic_name(carry_out, session, request):
    """LOOKUP of a local name with characters of a regular expression is refused with InvalidTopicName."""
    if set(".*()[]|") & set(request.topic.rpartition("/")[2]):
        raise Refused(InvalidTopicName, "Invalid topic name")
    carry_out()


@in_place_of(parse_topic, clause="core.lookup.short-name")
def reads_full_names_only(parse, text):
    """A bare topic name is refused with InvalidTopicName."""
    if "://" not in text:
        raise Refused(InvalidTopicName, "Invalid topic name")
    return parse(text)


@on_request("partitionMetadata", clause="core.partitions.missing-is-zero")
def creates_the_topic_whose_partitions_are_asked_for(carry_out, session, request):
    """PARTITIONED_METADATA creates a missing topic also where topics are created without partitions."""
    broker, name = session.broker, session.broker.topic_name(request.topic)
    carry_out()
    if request.metadata_auto_creation_enabled and not broker.partitions(name) and not broker.exists(name):
        broker.create_topic(name)


@in_place_of(Broker.partitions, clause="core.partitions.growth-visible")
def remembers_the_partition_count_it_has_told(partitions, broker, name):
    """The number of partitions of a topic is read once."""
    known = broker.__dict__.setdefault("counts_by_faults", {})
    if count := partitions(broker, name):
        known.setdefault(name.full, count)
    return known.get(name.full, count) if count else 0


@mutant("core.partitions.deleted")
def keeps_the_partition_count_of_a_deleted_topic(patches):
    """The number of partitions of a topic outlives the topic."""
    known = {}
    create, count = Broker.create_partitions, Broker.partitions

    def created(broker, name, partitions):
        known[name.full] = partitions
        create(broker, name, partitions)

    patches.replace(Broker, "create_partitions", created)
    patches.replace(Broker, "partitions", lambda broker, name: count(broker, name) or known.get(name.full, 0))


@on_incoming(CommandPartitionedTopicMetadata, clause="core.flags.metadata-without-creation")
def creates_topics_that_nobody_wants(_, request):
    """PARTITIONED_METADATA counts as if metadata_auto_creation_enabled were true."""
    request.metadata_auto_creation_enabled = True


@in_place_of(Admin.unload_topic, clause="core.push.unloaded-together")
def unloads_the_first_partition_only(unload, admin, topic):
    """The unloading of a topic with partitions closes the clients of the first one."""
    partitions = admin.partitioned_metadata(topic)["partitions"]
    unload(admin, partition_name(topic, 0) if partitions else topic)


@in_place_of(Broker.unload, clause="core.push.unloaded-together")
def leaves_non_persistent_topics_when_it_unloads(unload, broker, name):
    """Clients of topics that are not persistent stay."""
    if name.domain == "persistent":
        unload(broker, name)


@in_place_of(Broker.unload, clause="core.push.unloaded-keeps")
def forgets_schemas_when_it_unloads(unload, broker, name):
    """A topic that is unloaded loses its schemas."""
    unload(broker, name)
    broker.schemas.forget(name)


@in_place_of(Admin.subscriptions, clause="core.admin.all-partitions")
def lists_the_subscriptions_of_the_first_partition(subscriptions, admin, topic):
    """The subscriptions of a topic with partitions are those of the first one."""
    partitions = admin.partitioned_metadata(topic)["partitions"]
    return subscriptions(admin, partition_name(topic, 0) if partitions else topic)


@in_place_of(Admin.skip_messages, clause="core.admin.all-partitions")
def skips_messages_of_the_first_partition(skip, admin, topic, subscription, count):
    """All messages of a subscription of a topic with partitions are skipped on the first one only."""
    partitions = admin.partitioned_metadata(topic)["partitions"]
    skip(admin, partition_name(topic, 0) if partitions else topic, subscription, count)


@in_place_of(Broker.close_producers, clause=("core.terminate.producers-closed", "core.terminate.takes-nothing"))
def closes_no_producers_of_a_terminated_topic(close, broker, topic):
    """The producers of a terminated topic are not told, and go on sending."""
    if not topic.stored.terminated:
        close(broker, topic)


@in_place_of(Broker.unload, clause="core.terminate.producers-refused")
def forgets_with_an_unload_that_a_topic_is_terminated(unload, broker, name):
    """A terminated topic takes messages again after an unload."""
    topic = broker.loaded(name.full)
    unload(broker, name)
    if topic is not None:
        topic.stored.terminated = False


@in_place_of(Broker.terminate, clause="core.terminate.delivers")
def drops_what_a_terminated_topic_has(terminate, broker, topic):
    """The messages of a terminated topic are skipped."""
    terminate(broker, topic)
    for subscription in topic.subscriptions.values():
        subscription.skip(None)


@in_place_of(Subscription.tell_end, clause="core.terminate.end-told")
def tells_nobody_of_the_end(tell, subscription):
    """A topic is terminated, and consumers wait for more."""


@in_place_of(Subscription.tell_end, clause="core.terminate.end-not-early")
def tells_of_the_end_when_all_is_sent(tell, subscription):
    """Consumers are told of the end of a topic when they have got everything, whether they have acknowledged it or not."""
    if subscription.topic.stored.terminated and subscription._read >= len(subscription.topic.entries):
        for consumer in subscription.consumers:
            consumer.session.send(CommandReachedEndOfTopic(consumer_id=consumer.consumer_id))


@in_place_of(Admin.reset_cursor_to_time, clause="core.admin.reset")
def resets_behind_the_message_of_that_time(reset, admin, topic, subscription, timestamp):
    """A subscription that is reset to the time of a message begins behind it."""
    reset(admin, topic, subscription, timestamp + 1)


@in_place_of(Admin.truncate_topic, clause="core.admin.truncate")
def truncates_the_first_subscription_only(truncate, admin, topic):
    """Truncating a topic concerns one of its subscriptions."""
    for found in admin._topics(topic):
        next(iter(found.subscriptions.values())).skip(None)


@in_place_of(NonPersistentTopic.message_id, clause="core.deliver.partition-index")
def leaves_the_partition_out_of_ids_that_nothing_stands_for(_, topic, index):
    """The id of a message of a non-persistent topic has no index of a partition."""
    return MessageIdData(ledgerId=0, entryId=index)


@on_request("ack", clause="core.terminate.end-told")
def tells_who_acknowledges_the_last_message(carry_out, session, request):
    """Of the consumers of a subscription, the one that acknowledges the last message of a terminated topic is told of its end."""
    consumer = session.consumers.get(request.consumer_id)
    others = [one for one in consumer.subscription.consumers if one is not consumer and not one.knows_end] if consumer else []
    for one in others:
        one.knows_end = True
    carry_out()
    for one in others:
        one.knows_end = False


@in_place_of(Broker.create_partitions, clause="core.partitions.properties-of-new")
def makes_subscriptions_of_new_partitions_anew(create, broker, name, partitions):
    """The subscriptions of a new partition lack the properties of those of the first one."""
    present = set(broker.namespace(name).topics)
    create(broker, name, partitions)
    for topic in broker.loaded_topics():
        if topic.name.partitioned == name.full and topic.name.full not in present:
            for one in topic.subscriptions.values():
                one.cursor.properties.clear()
