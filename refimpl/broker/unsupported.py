"""Admin paths of Apache Pulsar that this broker does not have: they are refused, not unknown.

The paths are those of 4.2.4 and 5.0.0-M1.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus

from refimpl.proposals.administration import AdminPath
from refimpl.proposals.refused import AdminRefused

_STATUS = {
    "transactions": HTTPStatus.SERVICE_UNAVAILABLE,
    "packages": HTTPStatus.SERVICE_UNAVAILABLE,
    **dict.fromkeys(("functions", "sink", "sinks", "source", "sources", "worker", "worker-stats"), HTTPStatus.CONFLICT),
}
"""What Apache Pulsar answers where a feature is switched off, by the third segment of the path; 405 for all others."""


def unsupported(what: str, area: str = "") -> AdminRefused:
    """Return the refusal of something that Pulsar has and this broker has not."""
    return AdminRefused(_STATUS.get(area, HTTPStatus.METHOD_NOT_ALLOWED), f"{what} is not supported by this broker")


_PATHS: Mapping[str, str] = {
    "/admin/v2": """
        GET: resourcegroups
        GET POST: resource-quotas
    """,
    "/admin/v2/bookies": """
        DELETE GET POST: racks-info/{bookie}
        GET: all racks-info
    """,
    "/admin/v2/broker-stats": """
        GET: allocator-stats/{allocator} bookieops broker-resource-availability/{tenant}/{namespace} load-report mbeans metrics topics
    """,
    "/admin/v2/brokers": """
        DELETE: configuration/{configName}
        GET: configuration configuration/values internal-configuration {clusterName}/{brokerId}/ownedNamespaces
        POST: configuration/{configName}/{configValue} shutdown
    """,
    "/admin/v2/clusters/{cluster}": """
        DELETE GET POST: failureDomains/{domainName} namespaceIsolationPolicies/{policyName}
        DELETE POST PUT: -
        GET: failureDomains namespaceIsolationPolicies namespaceIsolationPolicies/brokers namespaceIsolationPolicies/brokers/{broker}
        GET POST: migrate peers
    """,
    "/admin/v2/functions": """
        GET: connectors download {tenant}/{namespace}
        POST: upload
    """,
    "/admin/v2/functions/{tenant}/{namespace}/{name}": """
        DELETE GET POST PUT: -
        GET: state/{key} status {instance}/status
        POST: restart stop trigger {instance}/restart {instance}/stop
    """,
    "/admin/v2/metadata": """
        GET: migration/status
        POST: migration/start
    """,
    "/admin/v2/namespaces": """
        GET: {cluster}/antiAffinity/{group}
        POST: grantPermissionsOnTopics revokePermissionsOnTopics
    """,
    "/admin/v2/namespaces/{tenant}/{namespace}": """
        DELETE: permissions/{subscription}/{role} removeOffloadPolicies
        DELETE GET: property/{key} resourcegroup
        DELETE GET POST: allowedTopicPropertyKeysForMetrics antiAffinity autoSubscriptionCreation delayedDelivery dispatchRate
            dispatcherPauseOnAckStatePersistent entryFilters inactiveTopicPolicies maxConsumersPerSubscription maxConsumersPerTopic
            maxProducersPerTopic maxSubscriptionsPerTopic maxTopicsPerNamespace maxUnackedMessagesPerConsumer
            maxUnackedMessagesPerSubscription persistence persistence/bookieAffinity publishRate replicatorDispatchRate
            scalableTopicAutoScalePolicy subscribeRate subscriptionDispatchRate subscriptionExpirationTime subscriptionTypesEnabled
        DELETE GET PUT: compactionThreshold offloadDeletionLagMs properties
        GET: permissions/subscription scanOffloadedLedgers
        GET POST: allowedClusters deduplicationSnapshotInterval encryptionRequired offloadPolicies subscriptionAuthMode
        GET PUT: offloadThreshold offloadThresholdInSeconds schemaAutoUpdateCompatibilityStrategy
        POST: migration permissions/subscription/{subscription} resourcegroup/{resourcegroup} unsubscribe/{subscription}
        PUT: property/{key}/{value}
    """,
    "/admin/v2/namespaces/{tenant}/{namespace}/{bundle}": """
        DELETE: -
        GET: topicHashPositions
        POST: clearBacklog clearBacklog/{subscription} unsubscribe/{subscription}
        PUT: split
    """,
    "/admin/v2/non-persistent": """
        GET: {tenant}/{namespace}/{bundle}
    """,
    "/admin/v2/resource-quotas": """
        DELETE GET POST: {tenant}/{namespace}/{bundle}
    """,
    "/admin/v2/resourcegroups": """
        DELETE GET PUT: {resourcegroup}
    """,
    "/admin/v2/scalable/{tenant}/{namespace}/{topic}": """
        DELETE GET POST: autoScalePolicy
        DELETE PUT: subscriptions/{subscription}
        GET: stats
        POST: merge/{segmentId1}/{segmentId2} migrate split/{segmentId} subscriptions/{subscription}/seek
            subscriptions/{subscription}/skip-all
    """,
    "/admin/v2/schemas/{tenant}/{namespace}/{topic}": """
        GET: metadata
        POST: compatibility version
    """,
    "/admin/v2/segments/{tenant}/{namespace}/{topic}/{descriptor}": """
        DELETE PUT: - subscription/{subscription}
        GET: subscription/{subscription}/backlog
        POST: subscription/{subscription}/seek subscription/{subscription}/skip-all terminate
    """,
    "/admin/v2/worker": """
        GET: assignments cluster cluster/leader cluster/leader/ready connectors
        GET PUT: drain leader/drain
        PUT: rebalance
    """,
    "/admin/v2/worker-stats": """
        GET: functionsmetrics metrics
    """,
    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}": """
        DELETE: policies
        DELETE GET POST: autoSubscriptionCreation compactionThreshold deduplicationSnapshotInterval delayedDelivery dispatchRate
            dispatcherPauseOnAckStatePersistent entryFilters inactiveTopicPolicies maxConsumers maxConsumersPerSubscription maxMessageSize
            maxProducers maxSubscriptionsPerTopic maxUnackedMessagesOnConsumer maxUnackedMessagesOnSubscription offloadPolicies
            persistence publishRate replication replicatorDispatchRate subscribeRate subscriptionDispatchRate subscriptionExpirationTime
            subscriptionTypesEnabled {subscription}/dispatchRate
        DELETE GET PUT: shadowTopics
        DELETE POST: permissions/{role}
        GET: backlog getMessageIdByIndex permissions
        GET PUT: offload
        PUT: backlogSize compaction
    """,
    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/subscription/{subscription}": """
        GET POST: replicatedSubscriptionStatus
        POST: analyzeBacklog
        PUT: properties
    """,
    "/admin/v3/functions": """
        GET: builtins connectors download {tenant}/{namespace}
        POST: builtins/reload upload
        PUT: leader/{tenant}/{namespace}/{name}
    """,
    "/admin/v3/functions/{tenant}/{namespace}/{name}": """
        DELETE GET POST PUT: -
        GET: download stats status {instance}/stats {instance}/status
        GET POST: state/{key}
        POST: restart start stop trigger {instance}/restart {instance}/start {instance}/stop
    """,
    "/admin/v3/packages/{type}/{tenant}/{namespace}": """
        DELETE GET POST: {packageName}/{version}
        GET: - {packageName}
        GET PUT: {packageName}/{version}/metadata
    """,
    "/admin/v3/sink /admin/v3/sinks": """
        GET: builtinsinks builtinsinks/{name}/configdefinition {tenant}/{namespace}
        POST: reloadBuiltInSinks
    """,
    "/admin/v3/source /admin/v3/sources": """
        GET: builtinsources builtinsources/{name}/configdefinition {tenant}/{namespace}
        POST: reloadBuiltInSources
    """,
    " ".join(f"/admin/v3/{kind}/{{tenant}}/{{namespace}}/{{name}}" for kind in ("sink", "sinks", "source", "sources")): """
        DELETE GET POST PUT: -
        GET: status {instance}/status
        POST: restart start stop {instance}/restart {instance}/start {instance}/stop
    """,
    "/admin/v3/transactions": """
        GET: coordinatorInternalStats/{coordinatorId} coordinatorStats coordinators
            pendingAckInternalStats/{tenant}/{namespace}/{topic}/{subscription}
            pendingAckStats/{tenant}/{namespace}/{topic}/{subscription}
            positionStatsInPendingAck/{tenant}/{namespace}/{topic}/{subscription}/{ledgerId}/{entryId} slowTransactions/{timeout}
            transactionBufferInternalStats/{tenant}/{namespace}/{topic} transactionBufferStats/{tenant}/{namespace}/{topic}
            transactionInBufferStats/{tenant}/{namespace}/{topic}/{mostSigBits}/{leastSigBits}
            transactionInPendingAckStats/{tenant}/{namespace}/{topic}/{subscription}/{mostSigBits}/{leastSigBits}
            transactionMetadata/{mostSigBits}/{leastSigBits}
        POST: abortTransaction/{mostSigBits}/{leastSigBits} transactionCoordinator/replicas
    """,
    "/topics/{domain}/{tenant}/{namespace}/{topic}": """
        POST: - partitions/{partition}
    """,
}
"""What follows each path, by the methods that it takes; a hyphen: nothing."""
_ROW = re.compile(r"([A-Z ]+): ([^:]+)(?=\n|\Z)")


def _paths() -> Iterator[AdminPath]:
    for begins, rows in _PATHS.items():
        for row in _ROW.finditer(rows):
            for begin, method, rest in itertools.product(begins.split(), row[1].split(), row[2].split()):
                yield AdminPath(method, begin if rest == "-" else f"{begin}/{rest}")


UNSUPPORTED = tuple(_paths())
"""All of these paths."""
