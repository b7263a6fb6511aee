"""From a target and cases to a log: what is sent, what is received, and what a target can do."""
