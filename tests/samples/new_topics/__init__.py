"""A sixth proposal, for tests only: a watch that counts new topics.

A client that wants to know how many topics a broker has got since it began to look would have to list them all. What changes on the
wire, where commands stand in that the schema has and no proposal here uses:

    CONNECTED                      feature flag supports_tc_metadata_discovery
    WATCH_TC_ASSIGNMENTS           tell me how many new topics there are, and each change from now on
    WATCH_TC_ASSIGNMENTS_UPDATE    snapshot.parallelism: so many have come since the watch began
    WATCH_TC_ASSIGNMENTS_CLOSE     no more changes; not answered
"""

from refimpl.proposals.declaration import Capability, Command, Proposal
from refimpl.proposals.new_topics.broker import NewTopicsExtension
from refimpl.proposals.new_topics.client import NewTopicsWatch
from refimpl.proposals.new_topics.rules import PROFILES, Profile

__all__ = ["PROPOSAL", "NewTopicsWatch"]

PROPOSAL: Proposal[Profile] = Proposal(
    register="pip9999",
    name="PIP-9999",
    title="a watch that counts new topics",
    address="https://example.org/pip-9999",
    capabilities=(Capability("new-topics-watch", "feature flag supports_tc_metadata_discovery", flag="supports_tc_metadata_discovery"),),
    commands=(
        Command("watchTcAssignments", 79, "client"),
        Command("watchTcAssignmentsUpdate", 80, "broker", addressed_by="watch_id"),
        Command("watchTcAssignmentsClose", 81, "client"),
    ),
    broker=NewTopicsExtension,
    profiles=PROFILES,
)
