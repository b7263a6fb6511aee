"""Clauses that are tested without a mutant, and why."""

from collections.abc import Mapping

WITHOUT: Mapping[str, str] = {}
"""Reason by clause id."""
