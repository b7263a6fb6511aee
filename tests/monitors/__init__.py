"""Monitors: what keeps a clause, what breaks it, and what is never accused."""
