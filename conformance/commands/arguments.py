"""Arguments of commands: each is checked before anything heavy is loaded. What can't be meant ends the command, with what to do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from conformance import names
from conformance.console import check_choice, stop
from conformance.exit_codes import EXIT_USAGE
from conformance.options import Reach, Tls, given

if TYPE_CHECKING:
    from conformance.clients.known import ClientTarget
    from conformance.targets import Target


def check_profile(value: str) -> str:
    """Return the name of a profile, old names turned into new ones."""
    from refimpl.proposals.profiles import PROFILES, profile_name

    name = profile_name(value)
    check_choice("--profile", name, tuple(PROFILES))
    return name


def check_claims(claims: Sequence[str]) -> None:
    """End with a suggestion if one is no capability that a broker may be said to have."""
    from conformance.engine.capabilities import CLAIMABLE

    for claim in claims:
        if claim not in CLAIMABLE:
            hint = names.did_you_mean(claim, CLAIMABLE)
            stop(EXIT_USAGE, f"--claim: there is no capability {claim!r}{hint} (known: {', '.join(CLAIMABLE)})")


def check_manual(claims: Sequence[str], jobs: int | None, *, record: bool) -> None:
    """End unless a person can do what these options of `run` say."""
    from conformance.engine.capabilities import CLIENT_CAPABILITIES

    for claim in claims:
        check_choice("--claim of a client", claim, tuple(CLIENT_CAPABILITIES))
    if record:
        stop(EXIT_USAGE, "--record needs a driver: what a person does is not the same the next time")
    if jobs not in (None, 1):
        stop(EXIT_USAGE, "a person does one thing at a time: leave out --jobs")
    if not sys.stdin.isatty():
        stop(EXIT_USAGE, "client:manual needs a terminal: it asks a person; for a program, write a driver (docs/drivers.md)")


def check_globs(patterns: Sequence[str]) -> None:
    """End if one can't select anything."""
    problem = names.glob_problem(patterns)
    if problem is not None:
        stop(EXIT_USAGE, problem)


def check_id(kind: str, name: str, known: Sequence[str], listing: str) -> None:
    """End with a suggestion if there is no such case or clause."""
    if name in known:
        return
    meant = names.glob_meant(name, known)
    if meant is None:
        hint = f": `{listing}` shows them"
    else:
        hint = f"; did you mean {meant!r}?" if meant in known else f": `{listing} --select '{meant}'` shows those that begin so"
    stop(EXIT_USAGE, f"there is no {kind} {name}{hint}")


def target_of(text: str, reach: Reach, tls: Tls) -> Target:
    """Return the target that a user means."""
    from conformance.targets import TargetError, parse_target

    try:
        return parse_target(text, **given(reach, tls))
    except TargetError as error:
        stop(EXIT_USAGE, str(error))


def client_of(text: str, *, for_brokers: bool = False, in_process: bool = False) -> ClientTarget:
    """Return the client that a user means; `for_brokers` tells whether there are options that only brokers have."""
    from conformance.clients.known import IN_PROCESS, parse_client
    from conformance.targets import TargetError

    if for_brokers:
        stop(EXIT_USAGE, f"{text} is a client: options about addresses, tokens and claims are for brokers")
    try:
        return IN_PROCESS if in_process and text == IN_PROCESS.name else parse_client(text)
    except TargetError as error:
        stop(EXIT_USAGE, str(error))
