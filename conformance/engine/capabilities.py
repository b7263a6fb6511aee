"""The capabilities that cases may require of a target: those of any broker, and those that each proposal declares."""

from __future__ import annotations

from types import MappingProxyType

from refimpl.proposals import PROPOSALS
from refimpl.proposals.declaration import Capability

CORE = (
    Capability("admin", "an admin URL that answers, given with --admin-url"),
    Capability("config", "the suite starts the target, so a case can choose its settings"),
    Capability("connected-flags", "CONNECTED carries feature flags"),
    Capability(
        "metadata-without-creation",
        "feature flag supports_get_partitioned_metadata_without_auto_creation",
        flag="supports_get_partitioned_metadata_without_auto_creation",
    ),
    Capability("auto-creation", "a producer or consumer creates its topic, and its subscription: no setting that is listed says otherwise"),
    Capability("key-shared", "SUBSCRIBE of the type Key_Shared is not refused as unsupported"),
    Capability("waiting-producers", "PRODUCER with WaitForExclusive is not refused as unsupported"),
    Capability("delayed-delivery", "the admin interface lists the setting delayedDeliveryEnabled as true"),
    Capability("cluster", "the admin interface lists several brokers"),
    Capability("admin-elsewhere", "another broker that the admin interface lists answers admin calls, on a host of the target"),
    Capability("without-credentials", "no token and no certificate is shown, so that nothing has to be checked before CONNECTED"),
    Capability("direct", "no proxy stands between the suite and the broker: look-ups name none, or a broker that CONNECT names is ignored"),
)
_PROPOSED = tuple((capability, proposal.name) for proposal in PROPOSALS for capability in proposal.capabilities)
_ALL = (*CORE, *(capability for capability, _ in _PROPOSED))

CAPABILITIES = MappingProxyType(
    {one.name: one.meaning for one in CORE}
    | {one.name: f"{one.meaning}{', as declared' if one.declared and not one.flag else ''} ({name})" for one, name in _PROPOSED}
)
"""The closed list of capabilities, and how each is probed."""
_OF_CLIENTS = (
    ("pattern-consumers", "the client subscribes to the topics that a pattern selects", None),
    ("pattern-hash", "the client sends its pattern and the hash of its topics when it asks for a list", "PIP-145"),
    ("pattern-watch", "the client watches the topics that a pattern selects", "PIP-145"),
    ("pattern-reconcile", "the client repeats its watch request to check its topics", "PIP-145"),
    ("partition-polling", "the client looks from time to time whether its topics have more partitions", None),
    ("partition-notifications", "the client watches the partitions of its topics", "PIP-247"),
    ("namespace-consumers", "the client subscribes to the scalable topics of a namespace", "PR 25648"),
    ("message-filters", "the client subscribes with a message filter", "PR 7629"),
    ("own-filtering", "a client with a message filter can filter by itself where the broker does not", "PR 7629"),
    ("chunks", "the client puts the chunks of a message together", None),
    ("without-flags", "the client uses brokers that set no feature flag", None),
    ("uniform-batches", "the producer makes batches of equal property values", "PIP-191"),
)
CLIENT_CAPABILITIES = MappingProxyType({name: f"{meaning} ({by})" if by else meaning for name, meaning, by in _OF_CLIENTS})
"""What a client may be able to do: its driver says so."""
CLAIMED_BY_CLIENTS = MappingProxyType({name: by for name, _, by in _OF_CLIENTS if by})
"""Capabilities with which a client claims a proposal, by the proposal's usual name."""
MEANINGS = MappingProxyType({**CAPABILITIES, **CLIENT_CAPABILITIES})
"""All names that a case may require."""
FLAGS = MappingProxyType({one.name: one.flag for one in _ALL if one.flag})
"""The feature flags in CONNECTED that tell capabilities."""
DECLARED = frozenset(one.name for one in _ALL if one.declared)
"""Capabilities that a target may have although nothing on the wire tells: it has one if its file or `--claim` says so."""
CLAIMABLE = tuple(name for name in CAPABILITIES if name not in ("admin", "config", "without-credentials", "direct"))
"""Capabilities that a target may declare: those that are its own."""
