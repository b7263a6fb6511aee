"""The fast structures behind the rules: patterns for one name, sets of topics with their hash."""
