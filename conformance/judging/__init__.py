"""From a log to results: verdicts, known failures, and the differences between two logs."""
