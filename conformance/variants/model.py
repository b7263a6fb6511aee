"""What a legal variant is: the reference broker, right in every clause, that uses a freedom otherwise than the reference does.

A variant is a function named by what it does; it changes the broker, or the link to it, by patches, as mutants do:

    @variant("pip145.list.order")
    def lists_topics_backwards(patches):
        \"\"\"A list of topics comes in another order.\"\"\"
        patches.outgoing(CommandGetTopicsOfNamespaceResponse, lambda _, answer: answer.topics.reverse())

Its docstring says what is free, its arguments which clause or which open question (docs/registers) leaves it free. No case may
fail against it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from conformance.mutants.model import Patches, patched


@dataclass(frozen=True)
class Variant:
    """A right broker, or client, that is not like the reference.

    Attributes:
        name: Named by what it does.
        freedom: What it does, in a sentence.
        left_free_by: Ids of clauses, or of entries of `docs/registers`, that leave it free.
        not_kept: Clauses of level SHOULD that it does not keep, so that cases may warn of them.
        cases: Globs for the cases that can notice it; none: all.
        late: Whether it is late, so that conversations may be INCONCLUSIVE.
        apply: Makes the peer different.
    """

    name: str
    freedom: str
    left_free_by: tuple[str, ...]
    not_kept: frozenset[str]
    cases: tuple[str, ...]
    late: bool
    apply: Callable[[Patches], None]

    def applied(self) -> AbstractContextManager[None]:
        """Make the peer of this process different for the length of a block."""
        return patched(self.apply)


def together(variants: Sequence[Variant]) -> Variant:
    """Return the peer that uses the freedoms of several variants at once: it is right as each of them is."""

    def apply(patches: Patches) -> None:
        for one in variants:
            one.apply(patches)

    return Variant(
        name=" + ".join(one.name for one in variants),
        freedom=" ".join(one.freedom for one in variants),
        left_free_by=tuple(dict.fromkeys(source for one in variants for source in one.left_free_by)),
        not_kept=frozenset().union(*(one.not_kept for one in variants)),
        cases=tuple(dict.fromkeys(glob for one in variants for glob in one.cases)) if all(one.cases for one in variants) else (),
        late=any(one.late for one in variants),
        apply=apply,
    )


MESSAGES = ("core/*", "pip191/*", "pr7629/*", "transcribed/*")
"""The cases in which messages are sent: globs for variants that nothing else can notice."""

VARIANTS: dict[str, Variant] = {}
"""All variants by name, once the modules that hold them are imported."""


Register = Callable[..., Callable[[Callable[[Patches], None]], Callable[[Patches], None]]]


def registering(variants: dict[str, Variant]) -> Register:
    """Return what registers functions as variants of one peer.

    Args:
        variants: Gets them, by name.
    """

    def variant(
        *left_free_by: str, not_kept: tuple[str, ...] = (), cases: tuple[str, ...] = (), late: bool = False
    ) -> Callable[[Callable[[Patches], None]], Callable[[Patches], None]]:
        """Register a function as a variant; see `Variant` for the arguments.

        Raises:
            ValueError: Its name is taken, or it does not say what it does, or what leaves it free.
        """

        def register(apply: Callable[[Patches], None]) -> Callable[[Patches], None]:
            name = apply.__name__
            if name in variants:
                raise ValueError(f"variant {name}: the name is taken")
            if not apply.__doc__ or not left_free_by:
                raise ValueError(f"variant {name}: it does not say {'what leaves it free' if apply.__doc__ else 'what it does'}")
            variants[name] = Variant(name, " ".join(apply.__doc__.split()), left_free_by, frozenset(not_kept), cases, late, apply)
            return apply

        return register

    return variant


variant = registering(VARIANTS)
