r"""How the names of synthetic topics are put together, class by class, and how frequent each class is.

A name is `domain://tenant/namespace/` and then `before` + word + `joint` + number + `behind`; the number makes it unique. Eight rows in a
row, from one whose id is a multiple of 8, are of one class; the rows of class `partition` are the eight partitions of one topic.

    plain            orders-17
    partition        orders-2-partition-0 to orders-2-partition-7
    near-miss        nearly something else: a partition (`-partition-01`, a newline behind the number), a domain in upper case,
                     a system topic, a name that another one continues, a comma, a second ://
    unicode          characters beyond ASCII of the basic plane: among them those that fold to ASCII letters (Kelvin sign, long s) or seem
                     to (dotless i), and digits that are not ASCII
    astral           characters beyond the basic plane, and those of the basic plane that sort before them by code point but behind them by
                     UTF-16 code units
    line-separator   \n, \r, \r\n, \v, \f, U+0085, U+2028 and U+2029, inside and at the end
    system           the broker's own topics, which lists leave out
    non-persistent   plain names of the other domain
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

GROUP = 8
"""Rows of one class in a row; also the partitions of a partitioned topic."""

WORDS: Sequence[str] = (
    "orders",
    "payments",
    "clicks",
    "order",
    "audit",
    "metrics",
    "orders.eu",
    "sensor_data",
    "Orders",
    "kafka-bridge",
    "tasks",
    "inventory",
    "sink",
    "user-events",
    "risk",
    "dead.letters",
)
"""What topics are called, the frequent ones first."""

KINDS: Sequence[str] = ("plain", "partition", "near-miss", "unicode", "astral", "line-separator", "system", "non-persistent")
"""The classes of names, as the column `kind` has them."""

MIXES: Mapping[str, Sequence[float]] = MappingProxyType(
    {
        "usual": (0.62, 0.30, 0.005, 0.012, 0.002, 0.001, 0.02, 0.04),
        "ascii": (0.60, 0.30, 0.04, 0.0, 0.0, 0.0, 0.02, 0.04),
        "adversarial": (0.10, 0.15, 0.25, 0.15, 0.10, 0.12, 0.08, 0.05),
    }
)
"""The share of each class, in the order of `KINDS`."""


@dataclass(frozen=True)
class Form:
    """How names of one shape are put together.

    Attributes:
        kind: Their class.
        before: Text before the word.
        behind: Text after the number.
        joint: Text between word and number.
        domain: The topic domain.
        namespace: Instead of one that is drawn.
        has_word: Whether there is a word.
    """

    kind: str
    before: str = ""
    behind: str = ""
    joint: str = "-"
    domain: str = "persistent"
    namespace: str | None = None
    has_word: bool = True


def _behind(kind: str, *texts: str) -> list[Form]:
    return [Form(kind, behind=text) for text in texts]


def _before(kind: str, *texts: str) -> list[Form]:
    return [Form(kind, before=text) for text in texts]


_COORDINATOR = "transaction_coordinator_assign-partition-"
FORMS: Sequence[Form] = (
    Form("plain"),
    *_behind("partition", *(f"-partition-{number}" for number in range(GROUP))),
    *_behind(
        "near-miss", "-partition-01", "-partition-", "-partition--1", "-partition-3\n", "-partition-3x", "-Partition-3", "-partition-1.0"
    ),
    *_behind("near-miss", "-partition-+3", "-partition- 3", "-partition-1_0", "-partition-0x1", "-partition-00", "-partition-10"),
    *_behind("near-miss", "-partition-3-partition-4", "-partition-0/x", "-partition-99999999999999999999", ",x", "://x", "+", "%2F"),
    *_before("near-miss", "__", "a,", "persistent://", "x__change_events", "partition-0-"),
    Form("near-miss", domain="PERSISTENT"),
    Form("near-miss", domain="xnon-persistent"),
    Form("near-miss", namespace="TENANT-0/NS-0"),
    Form("near-miss", before="long-" * 60),
    Form("near-miss", "__change_event", has_word=False),
    Form("near-miss", "__change_events", has_word=False),
    Form("near-miss", "__transaction_pending_ack", has_word=False),
    Form("near-miss", "__transaction_log_", joint="", has_word=False),
    *_before(
        "unicode",
        "größe-",
        "Κέλσιος-",
        "日本-",
        "\u212a-",
        "ta\u017f\u212as-",
        "r\u0131sk-",
        "R\u0130SK-",
        "stra\u1e9ee-",
        "\u212bngström-",
    ),
    *_before("unicode", "\ufb01le-", "\u01c5-", "e\u0301-", "\u200d-", "\ufeff-"),
    *_behind("unicode", *(f"-partition-{number}" for number in ("1\u0663", "2\uff13", "1\u00b2", "\u0661\u0660", "1\u09e71"))),
    *_behind("unicode", "-partition-\u0663", "-partition-\uff13", "-\u212a", "k\u017f", "É", "é"),
    *_before("astral", "😀-", "\U0001d4aa-", "\U00010400-", "\U00010428-", "\U000e0041-", "\U0010ffff-", "\uff5e-", "\ue000-", "\ufffd-"),
    *_behind("astral", "-🇪🇺", "\U00010000", "-partition-\U0001d7d9", "-partition-1\U0001d7d9"),
    *_before("line-separator", "a\nb-", "a\rb-", "a\r\nb-", "a\u0085b-", "a\u2028b-", "a\u2029b-", "a\x0bb-", "a\x0cb-", "\n"),
    *_behind("line-separator", "\n", "\r", "\r\n", "\u0085", "\u2028", "\u2029", "\x0b", "-partition-1\r", "\n\n"),
    Form("system", "__change_events-partition", has_word=False),
    Form("system", "__transaction_buffer_snapshot-partition", has_word=False),
    Form("system", "__transaction_buffer_snapshot_segments-partition", has_word=False),
    Form("system", "__transaction_buffer_snapshot_indexes-partition", has_word=False),
    Form("system", "__change_events-partition", domain="non-persistent", has_word=False),
    Form("system", behind="__transaction_pending_ack"),
    Form("system", behind="__transaction_pending_ack-partition-2"),
    Form("system", _COORDINATOR, joint="", namespace="pulsar/system", has_word=False),
    Form("system", "__transaction_log_", joint="", namespace="pulsar/system", has_word=False),
    Form("non-persistent", domain="non-persistent"),
)
"""All forms; those of one class stand together."""


@dataclass(frozen=True)
class Property:
    """A property that topics may have.

    Attributes:
        key: Its key.
        values: Its values, the frequent ones first.
        share: How many topics have it.
    """

    key: str
    values: Sequence[str]
    share: float


PROPERTIES: Sequence[Property] = (
    Property("region", ("eu-west", "us-east", "us-west", "eu-north", "ap-south", "ap-east", "sa-east", "af-south", "EU-WEST"), 0.9),
    Property("team", tuple(f"team-{number}" for number in range(60)), 0.8),
    Property("tier", ("gold", "silver", "bronze", ""), 0.7),
    Property("label", ("a=b", "", " gold", "größe", "gr\u00f6\u00dfe\u0301", "\u212a", "K", "k", "😀", "x,y", "\n"), 0.1),
    Property("Region", ("eu-west", "us-east"), 0.02),
)
"""The properties of topics, in the order in which their maps have them."""
