"""How commands end when a target can't be used."""

from __future__ import annotations

from typing import NoReturn

from conformance.console import stop
from conformance.exit_codes import EXIT_COULD_NOT_RUN, EXIT_USAGE
from conformance.targets import TargetError, WrongUsage


def stop_by(error: TargetError) -> NoReturn:
    """Print what is wrong with a target, and end: as wrong usage if the user has to correct the command."""
    stop(EXIT_USAGE if isinstance(error, WrongUsage) else EXIT_COULD_NOT_RUN, str(error))
