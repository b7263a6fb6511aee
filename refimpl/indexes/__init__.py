"""Fast data structures behind the rules: an index of patterns, and a set of topics with its hash."""
