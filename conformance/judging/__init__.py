"""From a log to results: verdicts, known failures, and what two logs differ in."""
