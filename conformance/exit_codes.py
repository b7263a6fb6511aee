"""What a process of the suite comes to."""

(
    EXIT_CONFORMANT,
    EXIT_NOT_CONFORMANT,
    EXIT_USAGE,
    EXIT_COULD_NOT_RUN,
    EXIT_STALE_BASELINE,
    EXIT_INCONCLUSIVE,
    EXIT_CRASHED,
) = range(7)
