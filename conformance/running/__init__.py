"""From a target and cases to a log: what is sent, what came, and what a target can do."""
