"""Brokers that take policies for what they are not, or carry out an administrator's call on more or less than it names."""

from dataclasses import replace

from conformance.mutants.model import in_place_of, on_incoming, on_request
from refimpl.broker import Broker, bundles
from refimpl.broker.admin import Admin
from refimpl.broker.backlog_quota import BacklogQuota, _is_exceeded
from refimpl.broker.consuming import disconnect_consumers
from refimpl.broker.deduplication import is_duplicate
from refimpl.broker.policies import AUTO_CREATION, AUTO_UPDATE, COMPATIBILITY, DEDUPLICATION, TTL, VALIDATION, Policies
from refimpl.broker.schemas import Schemas, _fits
from refimpl.broker.subscription import Subscription
from refimpl.broker.topic import Topic
from refimpl.broker.upkeep import Upkeep
from refimpl.names import DOMAINS, partition_name
from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import (
    CommandSubscribe,
    IncompatibleSchema,
    ProducerBlockedQuotaExceededException,
    Schema,
)


def values(policies, policy):
    """Return what all namespaces have for a policy."""
    return [one.policies[policy.key] for one in policies._broker.store.namespaces.values() if policy.key in one.policies]


# Namespaces


@in_place_of(Policies.of, clause="core.policy.deduplication")
def takes_deduplication_for_a_matter_of_the_broker(of, policies, name, policy):
    """If one namespace deduplicates, all do."""
    return any(values(policies, policy)) or of(policies, name, policy) if policy is DEDUPLICATION else of(policies, name, policy)


@in_place_of(Policies.deduplicates, clause="core.policy.deduplication")
def asks_once_whether_a_topic_deduplicates(deduplicates, policies, name):
    """Whether a topic deduplicates is asked once, however often it is loaded."""
    return policies.__dict__.setdefault("asked_by_faults", {}).setdefault(name.full, deduplicates(policies, name))


@in_place_of(Policies.of, clause="core.policy.deduplication")
def gives_the_policy_to_the_first_topic_only(of, policies, name, policy):
    """The deduplication of a namespace holds for the first of its topics that is used."""
    if policy is not DEDUPLICATION:
        return of(policies, name, policy)
    first = policies.__dict__.setdefault("first_by_faults", {}).setdefault(name.namespace, name.full)
    return of(policies, name, policy) if first == name.full else None


@in_place_of(Policies.auto_creation, clause="core.policy.auto-creation")
def forbids_creation_everywhere(creation, policies, name):
    """If one namespace forbids automatic creation, all do."""
    forbidden = any(not one.get("allowAutoTopicCreation") for one in values(policies, AUTO_CREATION))
    return None if forbidden else creation(policies, name)


@on_request("subscribe", clause="core.policy.auto-creation")
def creates_for_consumers_what_is_forbidden(carry_out, session, request):
    """Only producers are kept from creating topics; SUBSCRIBE creates them against the policy."""
    broker, name = session.broker, session.broker.topic_name(request.topic)
    if request.force_topic_creation and name.namespace in broker.store.namespaces and not broker.exists(name):
        broker.create_topic(name)
    carry_out()


@in_place_of(Broker.topic_to_use, clause="core.policy.auto-creation")
def refuses_a_topic_that_it_has_created(topic_to_use, broker, name, *, create):
    """PRODUCER is refused by the policy, and the topic is there all the same."""
    try:
        return topic_to_use(broker, name, create=create)
    except Refused:
        if create and broker.policies.of(name, AUTO_CREATION) == {"allowAutoTopicCreation": False}:
            broker.create_topic(name)
        raise


@in_place_of(Policies.auto_creation, clause="core.policy.auto-creation-type")
def gives_all_namespaces_one_number_of_partitions(creation, policies, name):
    """New topics get the number of partitions that was set last in the first namespace that has one."""
    own = creation(policies, name)
    counts = [one["defaultNumPartitions"] for one in values(policies, AUTO_CREATION) if one.get("defaultNumPartitions")]
    return counts[0] if own and counts else own


@on_request("partitionMetadata", clause="core.policy.auto-creation-type")
def divides_the_topics_that_are_there(carry_out, session, request):
    """PARTITIONED_METADATA gives partitions to a topic that exists without."""
    broker, name = session.broker, session.broker.topic_name(request.topic)
    if name.namespace in broker.store.namespaces and broker.exists(name):
        broker.create_by_default(name)
    carry_out()


@in_place_of(_fits, clause="core.policy.schema-compatibility")
def takes_forwards_for_backwards(fits, old, new, strategy):
    """A strategy BACKWARD is read as FORWARD, and the other way round."""
    names = {"BACKWARD": "FORWARD", "FORWARD": "BACKWARD"}
    return fits(old, new, names.get(strategy, strategy))


@in_place_of(Policies.of, clause="core.policy.schema-compatibility")
def has_one_strategy_for_all_schemas(of, policies, name, policy):
    """The strategy of compatibility is that of the namespace that set one first."""
    return next(iter(values(policies, policy)), None) if policy is COMPATIBILITY else of(policies, name, policy)


@in_place_of(Schemas._check_fits, clause="core.policy.schema-compatibility")
def compares_with_the_newest_schema(check, schemas, versions, schema, strategy):
    """All strategies compare a schema with the newest one of the topic."""
    check(schemas, versions[-1:], schema, strategy)


@in_place_of(Policies.of, clause="core.policy.schema-update")
def freezes_the_schemas_of_all(of, policies, name, policy):
    """If producers of one namespace may not change schemas, those of others may not either."""
    return all(values(policies, policy)) if policy is AUTO_UPDATE else of(policies, name, policy)


@in_place_of(Schemas.add, clause="core.policy.schema-update")
def takes_the_first_schema_of_a_topic(add, schemas, name, schema, **by):
    """A topic without a schema takes one from a producer, although the namespace forbids it."""
    return add(schemas, name, schema, by_admin=by.get("by_admin") or not schemas.versions(name))


@in_place_of(Schemas.check_without, clause="core.policy.schema-validation")
def wants_a_schema_where_there_is_none(check, schemas, name):
    """Where schemas are enforced, a producer without one is refused on each topic."""
    if schemas._policies.of(name, VALIDATION):
        raise Refused(IncompatibleSchema, "A schema is needed")


@in_place_of(Policies.of, clause="core.policy.schema-validation")
def enforces_schemas_everywhere(of, policies, name, policy):
    """If one namespace enforces schemas, all do."""
    return any(values(policies, policy)) if policy is VALIDATION else of(policies, name, policy)


@in_place_of(Policies.of, clause="core.policy.topic-first")
def puts_the_namespace_first(of, policies, name, policy):
    """A policy of a topic counts only where its namespace has none."""
    own = policies._broker.store.namespaces[name.namespace].policies.get(policy.key)
    return of(policies, name, policy) if own is None else own


@in_place_of(Policies.of, clause="core.policy.topic-first")
def gives_the_policy_of_a_topic_to_its_neighbours(of, policies, name, policy):
    """A policy of a topic counts for all topics of its namespace."""
    found = policies._broker.store.namespaces[name.namespace].topic_policies.values()
    return next((one[policy.key] for one in found if policy.key in one), of(policies, name, policy))


@in_place_of(Broker.forget, clause="core.policy.deleted-topic")
def deleted_topics_leave_their_policies(forget, broker, name):
    """A topic that is created again has the policies of the deleted one."""
    policies = broker.namespace(name).topic_policies
    kept = policies.get(name.full)
    forget(broker, name)
    if kept is not None:
        policies[name.full] = kept


@in_place_of(Admin.delete_partitioned_topic, clause="core.policy.deleted-topic")
def deleted_partitions_leave_the_policies_of_their_topic(delete, admin, topic, *, force=False):
    """A partitioned topic that is created again has the policies of the deleted one."""
    name = admin._name(topic)
    policies = admin._namespace(name.namespace).topic_policies
    kept = policies.get(name.full)
    delete(admin, topic, force=force)
    if kept is not None:
        policies[name.full] = kept


@in_place_of(Broker.forget, clause="core.policy.deleted-topic")
def deleted_topics_take_the_policies_of_both_domains(forget, broker, name):
    """The deletion of a topic deletes the policies of the topic of its name in the other domain, too."""
    forget(broker, name)
    for domain in DOMAINS:
        broker.namespace(name).topic_policies.pop(f"{domain}://{name.full.partition('://')[2]}", None)


@in_place_of(Broker.forget, clause="core.policy.deleted-topic")
def deleted_topics_take_the_policies_of_their_neighbours(forget, broker, name):
    """The deletion of a topic deletes the policies of all topics of its namespace."""
    forget(broker, name)
    broker.namespace(name).topic_policies.clear()


@in_place_of(_is_exceeded, clause="core.policy.backlog-quota")
def measures_the_fastest_subscription(exceeded, topic, limit):
    """A backlog quota is about the subscription that has read most."""
    begin = max((one.cursor.mark_delete for one in topic.subscriptions.values()), default=0)
    return limit > 0 and sum(len(entry.data) for entry in topic.entries) > limit and begin < topic.entries.end


@in_place_of(_is_exceeded, clause="core.policy.backlog-quota")
def measures_all_that_is_stored(exceeded, topic, limit):
    """A backlog quota is about what a topic stores, acknowledged or not."""
    return limit > 0 and sum(len(entry.data) for entry in topic.entries) > limit


@in_place_of(BacklogQuota._quota, clause="core.policy.backlog-quota")
def refuses_with_one_code(quota, quotas, topic):
    """Producers are refused with one code, whatever the policy."""
    limit, _ = quota(quotas, topic)
    return limit, ProducerBlockedQuotaExceededException


@in_place_of(BacklogQuota.check_all, clause="core.policy.backlog-quota-closes")
def closes_no_producers_that_are_there(check, quotas):
    """A backlog quota keeps new producers out, and lets those that are there go on."""


@in_place_of(BacklogQuota.check_all, clause="core.policy.backlog-quota-closes")
def closes_all_producers_of_the_namespace(check, quotas):
    """If one topic is beyond its quota, the producers of all topics of its namespace are closed."""
    topics = quotas._broker.loaded_topics()
    beyond = {topic.name.namespace for topic in topics if _is_exceeded(topic, quotas._quota(topic)[0])}
    for topic in topics:
        if topic.name.namespace in beyond:
            quotas._broker.close_producers(topic)


@in_place_of(Upkeep._expire, clause="core.policy.message-ttl")
def expires_in_the_first_subscription(expire, upkeep):
    """The time to live of a namespace counts for the first subscription of each topic."""
    for topic in upkeep._broker.loaded_topics():
        seconds = upkeep._broker.policies.of(topic.name, TTL)
        for subscription in list(topic.subscriptions.values())[:1] if seconds else ():
            upkeep.expire(subscription, seconds)


@in_place_of(Policies.of, clause="core.policy.message-ttl")
def expires_in_all_namespaces(of, policies, name, policy):
    """The longest time to live of a namespace counts for all."""
    return max(values(policies, policy), default=None) if policy is TTL else of(policies, name, policy)


# Calls on subscriptions, partitions and bundles


@in_place_of(Admin.expire_old_messages, clause="core.admin.expire")
def expires_in_all_subscriptions(expire, admin, topic, subscription, seconds):
    """What expires in a subscription expires in all subscriptions of the topic."""
    for found in admin._topic(topic).subscriptions.values():
        admin._broker.upkeep.expire(found, seconds)


@in_place_of(Upkeep.expire, clause=("core.admin.expire", "core.policy.message-ttl"))
def expires_whatever_is_there(expire, upkeep, subscription, seconds):
    """Once the first message has expired, all have."""
    entries, first = subscription.topic.entries, next(subscription.unacknowledged(), None)
    if first is not None and entries[first].publish_time < (upkeep._broker.time_of_day - seconds) * 1000:
        subscription.skip(None)
    return True


@in_place_of(Upkeep.expire, clause="core.admin.expire")
def expires_only_what_nobody_holds(expire, upkeep, subscription, seconds):
    """A message that a consumer holds does not expire, nor does any behind it."""
    return any(consumer.pending for consumer in subscription.consumers) or expire(upkeep, subscription, seconds)


@in_place_of(Admin.reset_cursor, clause="core.admin.reset-to-message")
def resets_behind_the_message(reset, admin, topic, subscription, position, *, batch_index=-1, excluded=False):
    """A subscription that is reset to a message begins behind it."""
    reset(admin, topic, subscription, position, batch_index=batch_index, excluded=True)


@in_place_of(Admin.reset_cursor, clause="core.admin.reset-to-message")
def resets_all_subscriptions(reset, admin, topic, subscription, position, *, batch_index=-1, excluded=False):
    """All subscriptions of a topic are reset."""
    for name in list(admin._topic(topic).subscriptions):
        reset(admin, topic, name, position, batch_index=batch_index, excluded=excluded)


@in_place_of(disconnect_consumers, clause=("core.admin.reset-to-message", "core.admin.reset"))
def closes_one_consumer_that_is_reset(disconnect, subscription):
    """Consumers leave without CLOSE_CONSUMER where their subscription is moved."""
    for consumer in list(subscription.consumers):
        consumer.session.drop_consumer(consumer)


@in_place_of(Admin.reset_cursor_to_time, clause="core.admin.all-partitions")
def resets_the_first_partition(reset, admin, topic, subscription, timestamp):
    """Of a partitioned topic, the subscription of the first partition is reset."""
    parts = admin._parts(topic)
    reset(admin, parts[0].full if parts else topic, subscription, timestamp)


@in_place_of(Subscription.reset, clause="core.admin.reset-to-message")
def moves_subscriptions_only_back(reset, subscription, index):
    """A subscription is reset backwards only."""
    reset(subscription, min(index, subscription.cursor.mark_delete))


@in_place_of(Admin.terminate_partitioned_topic, clause="core.terminate.partitions")
def terminates_the_first_partition(terminate, admin, topic):
    """The end of a partitioned topic is that of its first partition."""
    return {0: admin.terminate_topic(partition_name(topic, 0))}


@in_place_of(Admin.terminate_partitioned_topic, clause="core.terminate.partitions")
def terminates_partitions_that_have_messages(terminate, admin, topic):
    """A partition without messages goes on."""
    return {part.partition: admin.terminate_topic(part.full) for part in admin._parts(topic) if len(admin._topic(part.full).entries)}


@in_place_of(Admin.unload_bundle, clause="core.push.bundle-unloaded")
def unloads_the_namespace_of_a_bundle(unload, admin, namespace, bundle, *, destination=None):
    """A bundle is unloaded with all others of its namespace."""
    admin.unload_namespace(namespace)


@in_place_of(bundles.bundle_of, clause="core.push.bundle-unloaded")
def hashes_names_otherwise(bundle_of, topic, boundaries):
    """The bundle of a topic comes from its name without the domain, read from behind."""
    return bundle_of(topic.partition("://")[2][::-1], boundaries)


# Chunks and schemas


@in_place_of(is_duplicate, clause="core.dedup.chunks-again")
def looks_at_no_chunks(duplicate, producer, request, metadata):
    """Chunks are never duplicates."""
    return False if metadata.num_chunks_from_msg else duplicate(producer, request, metadata)


@in_place_of(is_duplicate, clause="core.dedup.chunks-again")
def stores_each_chunk_once(duplicate, producer, request, metadata):
    """A chunk that came before is a duplicate, also if its message was never complete."""
    seen = producer.topic.__dict__.setdefault("seen_by_faults", set())
    this = producer.name, request.sequence_id, metadata.chunk_id
    if metadata.num_chunks_from_msg and this in seen:
        return True
    seen.add(this)
    return duplicate(producer, request, metadata)


@in_place_of(Schemas.check_joins, clause="core.schema.auto-consume")
def takes_any_for_a_schema(check, schemas, topic, schema):
    """A schema of type AutoConsume has to fit that of the topic."""
    newest = schemas.newest(topic.name)
    if schema.type == Schema.AutoConsume and (newest is None or newest.type != schema.type):
        raise Refused(IncompatibleSchema, "Incompatible schema")
    check(schemas, topic, schema)


@on_incoming(CommandSubscribe, clause="core.schema.auto-consume")
def wants_a_schema_of_consumers(session, request):
    """A consumer without a schema is refused on a topic that has one."""
    if not request.HasField("schema") and session.broker.schemas.newest(session.broker.topic_name(request.topic)) is not None:
        session.refuse(request, Refused(IncompatibleSchema, "A schema is needed"))
        return False
    return True


@in_place_of(Topic.used_without_schema, clause="core.schema.busy-without")
def lets_the_first_schema_of_a_consumer_in(used, topic):
    """The first consumer with a schema decides what a topic holds, whoever writes to it."""
    return False


@in_place_of(Topic.used_without_schema, clause="core.schema.busy-without")
def overlooks_messages_that_producers_left(used, topic):
    """Once its producers have gone, a topic takes the schema of a consumer, with the messages that it has."""
    return bool(topic.producers)


@in_place_of(Schemas.add, clause="core.schema.get-or-create")
def takes_no_schema_later(add, schemas, name, schema, **by):
    """A topic that began without a schema takes none from a producer."""
    topic = schemas._policies._broker.loaded(name.full)
    if topic is not None and topic.producers and schemas.newest(name) is None:
        raise Refused(IncompatibleSchema, "The topic has no schema")
    return add(schemas, name, schema, **by)


@in_place_of(Policies.of, clause="core.policy.of-partitions")
def looks_for_policies_by_the_name_of_the_partition(of, policies, name, policy):
    """A policy of a partitioned topic is not found for its partitions."""
    return of(policies, replace(name, partitioned=name.full), policy)


@in_place_of(Broker.delete_topic, clause="core.policy.of-partitions")
def deletes_policies_with_each_partition(delete_topic, broker, name):
    """The policies of a partitioned topic go with the first of its partitions that is deleted."""
    delete_topic(broker, name)
    broker.namespace(name).topic_policies.pop(name.partitioned, None)


# Filters


@in_place_of(Topic.subscribe, clause="pr7629.deliver.matching-only")
def begins_with_the_last_message(subscribe, topic, name, index, **options):
    """A subscription that begins at the end of the topic begins with its last message."""
    filtered = options.get("filters") is not None and name not in topic.subscriptions
    return subscribe(topic, name, max(index - filtered, topic.entries.first), **options)
