"""Conformance suite: clauses say what must hold, transcripts show it on the wire, the engine judges what was seen."""

__version__ = "0.1.0"
