"""PIP-191: batches whose messages agree in the properties that an entry filter reads.

An entry filter on the broker reads the header of an entry. The properties of batched messages are inside the batch, where the
filter can't see them without decoding the batch. With this proposal the producer selects properties and values
(`restrictSameValuesInBatchProperties`). Only messages that agree in them share a batch, and the header of the batch repeats them:

    message                  field           of an entry      content
    MessageMetadata          4 properties    batch            the extracted set, which all its messages have in common
                             4 properties    single message   all properties of the message, as without the proposal
    SingleMessageMetadata    1 properties    batch            all properties of the message, as without the proposal

There is no new command, field or feature flag: every broker stores such an entry, and every client reads it. The price is that
nothing in an entry shows whether its producer used the setting. Other clients differ in what they write into the header of a batch:
Java, Python and C++ clients write no properties, Go clients write those of the first message.

    message --> extracted set: the properties and values that the setting allows
                    same set as the open batch       --> the message joins the batch
                    another set                      --> the batch is sent, and the message opens a new one

`rules` has the rules, `client` the producer's side (`UniformBatcher`), and `broker` an entry filter that reads the header. All are
synchronous and do no I/O. Source: the text of PIP-191, which was never merged; this project settles what it leaves open. Where there
are two readings, a `UniformBatchesProfile` selects one.
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
    FilterContext,
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
    "FilterContext",
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
    capabilities=(
        Capability(
            "property-entry-filter", "subscription properties switch the PropertyEntryFilter on", declared=True, part="entry filters"
        ),
    ),
    commands=(),
    broker=UniformBatchesExtension,
    profiles=PROFILES,
)
