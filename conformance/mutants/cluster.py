"""Brokers of a cluster that do not know what the others do. The cases run on several brokers of the reference."""

from conformance.mutants.model import in_place_of, on_incoming, on_outgoing
from refimpl.broker import Broker, Session
from refimpl.broker.admin import Admin
from refimpl.broker.credentials import close_unauthorized
from refimpl.broker.members import Directions, Members
from refimpl.broker.policies import Policies
from refimpl.indexes.topics_hash import topics_hash
from refimpl.names import namespace_of, partitioned_topic_name
from refimpl.wire.pulsar_api_pb2 import (
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandGetSchemaResponse,
    CommandGetTopicsOfNamespaceResponse,
    CommandLookupTopic,
    CommandMessage,
    CommandPartitionUpdate,
    CommandWatchScalableTopicsUpdate,
    CommandWatchTopicUpdate,
)


def _owns(session: Session, topic: str) -> bool:
    return session.broker.members.owner_of(namespace_of(topic), topic) == session.member


@in_place_of(Members.look_up, clause="core.cluster.owner-named")
def names_itself(look_up, members, asked, namespace, topic, *, authoritative):
    """A broker that is not the leader says that each topic is served by itself."""
    if asked == members.leader:
        return look_up(members, asked, namespace, topic, authoritative=authoritative)
    return Directions(asked, redirect=False, authoritative=True)


@in_place_of(Members.look_up, clause="core.cluster.owner-named")
def redirects_without_authority(look_up, members, asked, namespace, topic, *, authoritative):
    """The leader does not say that who it sends a client to is to take the topic: that one sends the client back."""
    return look_up(members, asked, namespace, topic, authoritative=authoritative)._replace(authoritative=False)


@in_place_of(Admin.lookup, clause="core.cluster.owner-named")
def names_the_leader_over_http(lookup, admin, topic, *, listener=None):
    """A look-up over HTTP names the leader of the cluster, whoever owns the topic."""
    return {**lookup(admin, topic, listener=listener), "brokerUrl": admin._broker.members.leader.service_url}


@on_incoming(CommandLookupTopic, clause="core.cluster.owner-named")
def takes_a_partition_for_its_topic(_, request):
    """LOOKUP of a partition names the broker of the partitioned topic."""
    request.topic = partitioned_topic_name(request.topic)


@in_place_of(Session.check_owner, clause="core.cluster.owner-only")
def serves_every_topic(check_owner, session, name):
    """Each broker takes producers and consumers of any topic."""


@on_outgoing(CommandGetTopicsOfNamespaceResponse, clause=("core.cluster.names-everywhere", "pip145.list.any-broker"))
def lists_its_own_topics(session, answer):
    """A broker lists the topics that it owns itself."""
    answer.topics[:] = [topic for topic in answer.topics if _owns(session, topic)]


@on_outgoing(CommandGetTopicsOfNamespaceResponse, clause="pip145.list.any-broker")
def hashes_with_its_own_name(session, answer):
    """The hash of a list differs from broker to broker."""
    if answer.HasField("topics_hash") and session.member != session.broker.members.leader:
        answer.topics_hash = topics_hash([answer.topics_hash, session.member.service_url])


@in_place_of(Admin.unload_topic, clause="core.cluster.admin-anywhere")
def unloads_the_partitions_of_the_leader(unload_topic, admin, topic):
    """An unload of a partitioned topic passes over the partitions that other brokers than the leader own."""
    members, parts = admin._broker.members, admin._parts(topic)
    for name in [part.full for part in parts if members.owner_of(part.namespace, part.full) == members.leader] if parts else [topic]:
        unload_topic(admin, name)


@in_place_of(close_unauthorized, clause="core.auth.revoked")
def lets_revoked_roles_go_on_at_other_brokers(close, broker, namespace):
    """When a role loses a permission, only its clients at the leader of the cluster are closed."""
    names = [one.name.full for one in broker.loaded_topics() if one.name.namespace == namespace]
    if all(broker.members.owner_of(namespace, name) == broker.members.leader for name in names):
        close(broker, namespace)


@in_place_of(Broker.service_urls, clause="pr25648.layout.brokers")
def segments_are_all_the_leader_s(service_urls, broker, topic):
    """A layout names the leader of the cluster for each segment, whoever owns it."""
    return broker.members.leader.service_url, broker.members.leader.service_url_tls


@on_outgoing(CommandCloseConsumer, clause="core.cluster.moved-closed")
def moves_without_telling_consumers(session, close):
    """CLOSE_CONSUMER is not sent when a namespace moves."""
    return False


@in_place_of(Broker.unload, clause="core.cluster.moved-keeps")
def moves_without_acknowledgements(unload, broker, name):
    """What single acknowledgements were for is not known to the next owner."""
    topic = broker.loaded(name.full)
    unload(broker, name)
    for cursor in topic.stored.cursors.values() if topic else ():
        cursor.reset(cursor.mark_delete)


@in_place_of(Broker.unload, clause="core.cluster.moved-keeps")
def moves_without_sequence_ids(unload, broker, name):
    """The next owner knows neither the sequence ids of producers nor their epoch."""
    topic = broker.loaded(name.full)
    unload(broker, name)
    if topic is not None:
        topic.stored.sequences.clear()
        topic.stored.epoch = None


@in_place_of(Broker.unload, clause="core.cluster.moved-keeps")
def moves_without_parts_of_batches(unload, broker, name):
    """The next owner does not know which messages of a batch were acknowledged."""
    topic = broker.loaded(name.full)
    unload(broker, name)
    for cursor in topic.stored.cursors.values() if topic else ():
        cursor.open_messages.clear()


@in_place_of(Members.release, clause="core.cluster.moved-keeps")
def moves_without_older_schemas(release, members, namespace, bundle):
    """The next owner knows the newest schema of a topic only, and counts its versions from 0."""
    schemas = members._store.namespaces[namespace].schemas
    schemas |= {topic: versions[-1:] for topic, versions in schemas.items()}
    return release(members, namespace, bundle)


@in_place_of(Members.release, clause="core.cluster.moved-keeps")
def moves_without_topic_policies(release, members, namespace, bundle):
    """The next owner does not know the policies of single topics."""
    members._store.namespaces[namespace].topic_policies.clear()
    return release(members, namespace, bundle)


@in_place_of(Policies.of, clause="core.cluster.admin-anywhere")
def knows_topic_policies_at_the_leader_only(of, policies, name, policy):
    """A policy of a topic is kept by the leader, and does not count for topics that another broker owns."""
    members, namespace = policies._broker.members, policies._broker.store.namespaces.get(name.namespace)
    if namespace is not None and members.owner_of(name.namespace, name.full) != members.leader:
        return namespace.policies.get(policy.key)
    return of(policies, name, policy)


@on_outgoing(CommandGetSchemaResponse, clause="core.cluster.names-everywhere")
def counts_schemas_by_itself(session, answer):
    """Each broker has versions of its own for the schemas of a topic."""
    if answer.HasField("schema_version") and session.member != session.broker.members.leader:
        answer.schema_version = (int.from_bytes(answer.schema_version, "big") + 1).to_bytes(8, "big")


@on_outgoing(CommandCloseProducer, clause="core.cluster.moved-closed")
def names_the_admin_address_of_the_next_owner(session, close):
    """CLOSE_PRODUCER names the broker to go to by the address of its admin interface."""
    others = [one for one in session.broker.members.running if one != session.member]
    if others:
        close.assignedBrokerServiceUrl = others[0].admin_url


@on_outgoing(CommandMessage, clause="core.cluster.moved-keeps")
def counts_a_backlog_as_redelivered(session, message):
    """Whoever is not the leader takes all that it delivers for delivered before."""
    if session.member != session.broker.members.leader:
        message.redelivery_count += 1


@on_outgoing(CommandWatchTopicUpdate, clause="pip145.watch.any-broker")
def tells_watchers_of_its_own_topics(session, update):
    """Watchers are told of the topics that their broker owns."""
    return all(_owns(session, topic) for topic in (*update.new_topics, *update.deleted_topics))


@on_outgoing(CommandPartitionUpdate, clause="pip247.watch.any-broker")
def tells_of_partitions_of_its_own(session, update):
    """Watchers of partition counts are told of topics whose first partition their broker owns."""
    return all(_owns(session, f"{one.topic}-partition-0") for one in update.topic_with_partition)


@on_outgoing(CommandWatchScalableTopicsUpdate, clause="pr25648.watch.any-broker")
def tells_of_scalable_topics_of_its_own(session, update):
    """Watches are told of the scalable topics that their broker owns."""
    return all(_owns(session, topic) for topic in (*update.diff.added, *update.diff.removed))


@in_place_of(Broker.terminate, clause="core.terminate.partitions")
def ends_the_partitions_of_the_leader_only(terminate, broker, topic):
    """Of a partitioned topic only the partitions of the leader are terminated."""
    name = topic.name
    if name.partition < 0 or broker.members.owner_of(name.namespace, name.full) == broker.members.leader:
        terminate(broker, topic)
