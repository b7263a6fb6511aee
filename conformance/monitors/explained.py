"""What monitors are known to find in the recordings of this suite, and why: `explained.yaml`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Explanation:
    """Why monitors find something.

    Attributes:
        case: The cases in whose conversations they do, a glob.
        clause: What is broken there.
        reason: Why, in a sentence.
        link: The page about it.
    """

    case: str
    clause: str
    reason: str
    link: str

    def covers(self, conversation: str, clause: str) -> bool:
        """Tell whether it is about a breach; the name of a conversation begins with its case and a `#`."""
        return clause == self.clause and fnmatchcase(conversation.partition("#")[0], self.case)


@cache
def explanations() -> Sequence[Explanation]:
    """Return all of them."""
    text = Path(__file__).with_name("explained.yaml").read_text(encoding="utf-8")
    return [Explanation(**one) for one in yaml.safe_load(text)]


def is_explained(conversation: str, clause: str) -> bool:
    """Tell whether a breach in a recording is known."""
    return any(one.covers(conversation, clause) for one in explanations())
