"""The broker's settings, with their names in Pulsar's broker.conf."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

from refimpl.wire.commands import did_you_mean


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """Settings; the attribute `max_message_size` is the key `maxMessageSize`, and so on.

    Attributes:
        cluster_name: The name of the cluster.
        keep_alive_interval_seconds: Seconds between two PINGs; a silent peer is disconnected after two intervals.
        connection_liveness_check_timeout_millis: Milliseconds for the owner of an exclusive subscription to answer a PING.
        max_message_size: Maximum payload size of a SEND, in bytes.
        broker_max_connections: Maximum number of connections; 0: no limit.
        broker_max_connections_per_ip: Maximum number of connections from one address; 0: no limit.
        advertised_address: The host that clients are told; empty: the address that is listened on, or 127.0.0.1 for all addresses.
        broker_service_port_tls: TCP port of the binary protocol over TLS; 0: a free one; empty: none.
        max_http_server_connections: Maximum number of HTTP connections; more wait to be accepted; 0: no limit.
        http_server_idle_timeout: Milliseconds in which an HTTP request must have come, and its answer been read.
        http_max_request_header_size: Maximum size of the head of an HTTP request, in bytes.
        http_max_request_size: Maximum size of the body of an HTTP request, in bytes; -1: that of the broker.
        http_requests_limit_enabled: HTTP requests have a rate.
        http_requests_max_per_second: That rate, for all clients together.
        web_service_port_tls: TCP port of the admin interface over TLS; 0: a free one; empty: none.
        tls_certificate_file_path: PEM file of the broker's certificate, with those in between.
        tls_key_file_path: PEM file of its key.
        max_concurrent_lookup_request: Maximum number of lookup, partition and topic list requests in flight; 0 refuses all.
        subscription_pattern_max_length: Maximum length of a topic pattern, in UTF-16 code units.
        enable_broker_side_subscription_pattern_evaluation: The broker evaluates topic patterns.
        enable_broker_topic_list_watcher: The broker announces topic list watchers.
        enable_notification_for_partition_update: The broker announces and serves partition update watchers.
        notification_for_partition_update_timeout_seconds: Seconds until a partition update without a result is resent.
        allow_auto_topic_creation: Producers and consumers create missing topics.
        allow_auto_topic_creation_type: `non-partitioned` or `partitioned`.
        default_num_partitions: Partition count of automatically created topics.
        acknowledgment_at_batch_index_level_enabled: Messages of a batch can be acknowledged individually.
        max_unacked_messages_per_consumer: Unacknowledged messages with which a shared consumer gets none, until half are left; 0: no limit.
        max_unacked_messages_per_subscription: The same for all consumers of a subscription together.
        broker_deduplication_enabled: A message that is sent again with the same sequence id is stored once.
        scalable_topics_enabled: Clients can watch and look up scalable topics.
        backlog_quota_default_limit_bytes: Bytes that the slowest subscription of a topic may leave unacknowledged; -1: no limit.
        backlog_quota_default_retention_policy: What clients do beyond it: `producer_request_hold` (wait) or `producer_exception`.
        backlog_quota_check_interval_in_seconds: Seconds between two checks, which close the producers of topics beyond the limit.
        message_expiry_check_interval_in_minutes: Minutes between two checks, which acknowledge messages older than a message TTL.
        topic_level_policies_enabled: Topics can have policies of their own.
        system_topic_enabled: Accepted for compatibility and ignored: policies of topics need no system topic here.
        force_delete_namespace_allowed: A namespace can be deleted with its topics.
        force_delete_tenant_allowed: A tenant can be deleted with its namespaces.
        dispatcher_entry_filter_rescheduled_message_delay: Milliseconds before a rescheduled entry is tried again.
        delayed_delivery_enabled: Shared subscriptions keep messages until their deliver_at_time.
        delayed_delivery_tick_time_millis: Milliseconds that such a message may come too early.
        is_delayed_delivery_deliver_at_time_strict: It may not come too early.
        authentication_enabled: CONNECT and admin calls need a token.
        authorization_enabled: The broker checks permissions of roles.
        authentication_providers: Names of providers; the token provider is built in.
        authentication_refresh_check_seconds: Seconds between two looks whether a connection's token has expired; 0: never.
        token_secret_key: `data:;base64,...`: the key that tokens are signed with (HS256).
        super_user_roles: Roles that may do everything, separated by commas.
        broker_client_authentication_plugin: Accepted for compatibility and ignored.
        broker_client_authentication_parameters: Accepted for compatibility and ignored.
    """

    cluster_name: str = "standalone"
    keep_alive_interval_seconds: int = 30
    connection_liveness_check_timeout_millis: int = 5000
    max_message_size: int = 5242880
    broker_max_connections: int = 0
    broker_max_connections_per_ip: int = 0
    advertised_address: str = ""
    broker_service_port_tls: str = ""
    max_http_server_connections: int = 2048
    http_server_idle_timeout: int = 30_000
    http_max_request_header_size: int = 8192
    http_max_request_size: int = -1
    http_requests_limit_enabled: bool = False
    http_requests_max_per_second: float = 100.0
    web_service_port_tls: str = ""
    tls_certificate_file_path: str = ""
    tls_key_file_path: str = ""
    max_concurrent_lookup_request: int = 50000
    subscription_pattern_max_length: int = 50
    enable_broker_side_subscription_pattern_evaluation: bool = True
    enable_broker_topic_list_watcher: bool = True
    enable_notification_for_partition_update: bool = True
    notification_for_partition_update_timeout_seconds: int = 10
    allow_auto_topic_creation: bool = True
    allow_auto_topic_creation_type: str = "non-partitioned"
    default_num_partitions: int = 1
    acknowledgment_at_batch_index_level_enabled: bool = True
    max_unacked_messages_per_consumer: int = 50_000
    max_unacked_messages_per_subscription: int = 200_000
    broker_deduplication_enabled: bool = False
    scalable_topics_enabled: bool = True
    backlog_quota_default_limit_bytes: int = -1
    backlog_quota_default_retention_policy: str = "producer_request_hold"
    backlog_quota_check_interval_in_seconds: int = 60
    message_expiry_check_interval_in_minutes: int = 5
    topic_level_policies_enabled: bool = True
    system_topic_enabled: bool = True
    force_delete_namespace_allowed: bool = True
    force_delete_tenant_allowed: bool = False
    dispatcher_entry_filter_rescheduled_message_delay: int = 1000
    delayed_delivery_enabled: bool = True
    delayed_delivery_tick_time_millis: int = 1000
    is_delayed_delivery_deliver_at_time_strict: bool = False
    authentication_enabled: bool = False
    authorization_enabled: bool = False
    authentication_providers: str = ""
    authentication_refresh_check_seconds: int = 60
    token_secret_key: str = ""
    super_user_roles: str = ""
    broker_client_authentication_plugin: str = ""
    broker_client_authentication_parameters: str = ""

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> Self:
        """Parse settings of a configuration file.

        Args:
            settings: Values as text, by Pulsar's keys; booleans are `true` and `false`.

        Raises:
            ValueError: A key is unknown, or a value is invalid; the message names both.
        """
        values: dict[str, object] = {}
        for key, text in settings.items():
            default = _DEFAULTS.get(key)
            if default is None:
                raise ValueError(f"unknown setting {key!r}{did_you_mean(key, _DEFAULTS)}")
            values[_attribute(key)] = _value(key, text, default)
        return cls(**values)  # type: ignore[arg-type]

    def settings(self) -> dict[str, str]:
        """Return all settings as text, with secrets hidden."""
        found = {}
        for key in _DEFAULTS:
            value = getattr(self, _attribute(key))
            hidden = key in _SECRETS and value
            found[key] = "***" if hidden else str(value).lower() if isinstance(value, bool) else str(value)
        return found


_SECRETS = {"tokenSecretKey", "brokerClientAuthenticationParameters"}
_CHOICES = {
    "allowAutoTopicCreationType": ("non-partitioned", "partitioned"),
    "backlogQuotaDefaultRetentionPolicy": ("producer_request_hold", "producer_exception"),
}
_PORTS = {"brokerServicePortTls", "webServicePortTls"}
_AT_LEAST = {
    "keepAliveIntervalSeconds": 1,
    "httpServerIdleTimeout": 1,
    "httpMaxRequestHeaderSize": 1,
    "httpMaxRequestSize": -1,
    "maxMessageSize": 1,
    "defaultNumPartitions": 1,
    "backlogQuotaDefaultLimitBytes": -1,
    "backlogQuotaCheckIntervalInSeconds": 1,
    "messageExpiryCheckIntervalInMinutes": 1,
    "dispatcherEntryFilterRescheduledMessageDelay": 1,  # with 0, a filter that always reschedules would loop forever
    "notificationForPartitionUpdateTimeoutSeconds": 1,
}


def _key(attribute: str) -> str:
    return re.sub(r"_(\w)", lambda found: found[1].upper(), attribute)


def _attribute(key: str) -> str:
    return re.sub(r"[A-Z]", lambda found: "_" + found[0].lower(), key)


_DEFAULTS = {_key(one.name): one.default for one in fields(Configuration)}


def _value(key: str, text: str, default: object) -> object:
    if isinstance(default, bool):
        if text not in ("true", "false"):
            raise ValueError(f"{key} is true or false, not {text!r}")
        return text == "true"
    if isinstance(default, int):
        least = _AT_LEAST.get(key, 0)
        if not re.fullmatch(r"-?[0-9]{1,10}", text) or int(text) < least:
            raise ValueError(f"{key} is a whole number from {least}, not {text!r}")
        return int(text)
    if isinstance(default, float):
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) or not float(text):
            raise ValueError(f"{key} is a number above 0, not {text!r}")
        return float(text)
    if key in _PORTS and text and not (re.fullmatch(r"[0-9]{1,5}", text) and int(text) < 1 << 16):
        raise ValueError(f"{key} is a port, or nothing, not {text!r}")
    if key == "advertisedAddress" and not re.fullmatch(r"[A-Za-z0-9._-]*", text):
        raise ValueError(f"{key} is a host without a port, or nothing, not {text!r}")
    if key in _CHOICES and text not in _CHOICES[key]:
        raise ValueError(f"{key} is {' or '.join(_CHOICES[key])}, not {text!r}")
    return text
