"""PIP-191: batches whose messages agree in the properties that an entry filter looks at.

An entry filter at the broker sees the header of an entry. If the entry is a batch, the properties of its messages stand inside,
where a filter can't see them without taking the batch apart. The proposal lets the producer choose properties and values
(`restrictSameValuesInBatchProperties`): only messages that agree in them share a batch, and its header repeats them.

    MessageMetadata.properties          of a batch: the extracted set, which each of its messages has
    SingleMessageMetadata.properties    all properties of the message, as ever

No command, field or feature flag is new: any broker stores such an entry, any client reads it. That is also the weakness:
nothing in an entry says that its producer used the setting. Stock Java, Python and C++ clients leave the header of a batch
without properties, stock Go clients put those of the first message there, and all of them put all properties of an unbatched
message there.

    property and value allowed?     --> extracted set --> same as in the open batch?  yes: joins it
                                                                                      no: the batch goes out, a new one begins

The rules stand in `rules`. The producer's side is `UniformBatcher`, in `client`. The broker's is an entry filter that reads the header,
in `broker`. Both are synchronous, without input and output. Sources: the text of PIP-191, which was never merged; what it leaves
open is settled here, and where there are two readings a `UniformBatchesProfile` says which is followed.
"""

from refimpl.proposals.declaration import Capability, Proposal
from refimpl.proposals.extension import EntryVerdict
from refimpl.proposals.uniform_batches.broker import (
    BUILT_IN,
    ENTRY_POINT_GROUP,
    MISSING,
    PREFIX,
    RESCHEDULE_DELAY,
    EntryFilter,
    EntryFilterFactory,
    FilterCounts,
    PropertyEntryFilter,
    SubscriptionEntryFilters,
    UniformBatchesExtension,
    filters_of,
    with_entry_points,
)
from refimpl.proposals.uniform_batches.client import Batch, BatchCounts, Reason, UniformBatcher, write_header
from refimpl.proposals.uniform_batches.rules import (
    AS_WRITTEN,
    DEFAULT,
    PROFILES,
    Allowed,
    Extracted,
    UniformBatchesProfile,
    allowed_values,
    check_combination,
    extracted_set,
    header_bytes,
)

__all__ = [
    "AS_WRITTEN",
    "BUILT_IN",
    "DEFAULT",
    "ENTRY_POINT_GROUP",
    "MISSING",
    "PREFIX",
    "PROFILES",
    "PROPOSAL",
    "RESCHEDULE_DELAY",
    "Allowed",
    "Batch",
    "BatchCounts",
    "EntryFilter",
    "EntryFilterFactory",
    "EntryVerdict",
    "Extracted",
    "FilterCounts",
    "PropertyEntryFilter",
    "Reason",
    "SubscriptionEntryFilters",
    "UniformBatcher",
    "UniformBatchesExtension",
    "UniformBatchesProfile",
    "allowed_values",
    "check_combination",
    "extracted_set",
    "filters_of",
    "header_bytes",
    "with_entry_points",
    "write_header",
]

PROPOSAL: Proposal[UniformBatchesProfile] = Proposal(
    register="pip191",
    name="PIP-191",
    title="batches of equal property values, for entry filters",
    address="https://github.com/apache/pulsar/issues/16680",
    capabilities=(Capability("property-entry-filter", "subscription properties switch the PropertyEntryFilter on", declared=True),),
    commands=(),
    broker=UniformBatchesExtension,
    profiles=PROFILES,
)
