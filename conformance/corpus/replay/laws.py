"""The laws of replays: what each watcher knows at the end, and what it was told on the way."""

from __future__ import annotations

from conformance.corpus.laws import Law


def _of_watcher(name: str, text: str) -> Law:
    """Return a law that a replay judges by itself, in `Tally.laws`."""
    return Law(name, text, f"laws['{name}'] IS NOT NULL", f"NOT laws['{name}']")


LAWS = (
    _of_watcher("listing", "At the end each watcher knows just what the listing has."),
    _of_watcher("hash", "The hash of the set to which all diffs were applied is the hash of the listing."),
    _of_watcher("versions-grow", "The versions of a watcher's updates are 1, 2, 3 and so on, and each has its result."),
    _of_watcher("never-empty", "No diff is empty."),
    _of_watcher("reference", "With the window that the proposal has, frames and times are those of the reference's own broker."),
)
"""Laws of the rows of `replayed`."""
