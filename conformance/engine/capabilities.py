"""The capabilities that cases may require of a target: those of any broker, and those that each proposal declares."""

from __future__ import annotations

from types import MappingProxyType

from refimpl.proposals import PROPOSALS
from refimpl.proposals.declaration import Capability

CORE = (
    Capability("admin", "the target has an admin URL that answers"),
    Capability("config", "the suite starts the target, so a case can choose its settings"),
    Capability("connected-flags", "CONNECTED carries feature flags"),
    Capability(
        "metadata-without-creation",
        "feature flag supports_get_partitioned_metadata_without_auto_creation",
        flag="supports_get_partitioned_metadata_without_auto_creation",
    ),
    Capability("auto-creation", "a producer or consumer creates its topic"),
)
_PROPOSED = tuple((capability, proposal.name) for proposal in PROPOSALS for capability in proposal.capabilities)
_ALL = (*CORE, *(capability for capability, _ in _PROPOSED))

CAPABILITIES = MappingProxyType(
    {one.name: one.meaning for one in CORE}
    | {one.name: f"{'declared: ' if one.declared and not one.flag else ''}{one.meaning} ({name})" for one, name in _PROPOSED}
)
"""The closed list of capabilities, and how each is probed."""
FLAGS = MappingProxyType({one.name: one.flag for one in _ALL if one.flag})
"""The feature flags in CONNECTED that tell capabilities."""
DECLARED = frozenset(one.name for one in _ALL if one.declared)
"""Capabilities that a target may have although nothing on the wire tells: it has one if its file or `--claim` says so."""
CLAIMABLE = tuple(name for name in CAPABILITIES if name not in ("admin", "config"))
"""Capabilities that a target may declare: those that are its own."""
