"""Data structures behind the rules: an index of patterns, a set of topics with its hash, dictionaries of dictionaries."""
