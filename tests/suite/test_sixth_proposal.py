"""A sixth proposal is its package, its messages, a register, cases, and one line in one list.

A copy of the project gets just that, from tests/samples/new_topics, and does with it what it does with the others.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.engine.parts import RELEASES
from conformance.running import recorder
from conformance.suite import HOME
from refimpl.proposals import PROPOSALS

ROOT = HOME.parent
SAMPLE = ROOT / "tests" / "samples" / "new_topics"
NAME = "new_topics"
CASE = "pip9999/watch/told"


def listed(text: str) -> str:
    """Add the proposal to the list, and import it as the others are."""
    lines = text.splitlines(keepends=True)
    (start,) = (number for number, line in enumerate(lines) if line.startswith("PROPOSALS"))
    (imported,) = (number for number, line in enumerate(lines) if line.startswith("from refimpl.proposals import "))
    lines.insert(start + 1, f"    {NAME}.PROPOSAL,\n")
    lines[imported] = lines[imported].replace(" import ", f" import {NAME}, ")
    return "".join(lines)


@pytest.fixture(scope="module", name="home")
def project_with_a_sixth_proposal(tmp_path_factory):
    home = tmp_path_factory.mktemp("project")
    caches = shutil.ignore_patterns("__pycache__", "recordings")
    for package in ("conformance", "refimpl"):
        shutil.copytree(ROOT / package, home / package, ignore=caches)
    (home / "conformance" / "recordings").symlink_to(recorder.HOME)
    shutil.copytree(ROOT / "docs" / "registers", home / "docs" / "registers")
    shutil.copytree(SAMPLE, home / "refimpl" / "proposals" / NAME, ignore=shutil.ignore_patterns("__pycache__", "*.yaml", "talk.py"))
    proposals = home / "refimpl" / "proposals" / "__init__.py"
    proposals.write_text(listed(proposals.read_text(encoding="utf-8")), encoding="utf-8")
    case = home / "conformance" / "transcripts" / f"{CASE}.yaml"
    case.parent.mkdir(parents=True)
    shutil.copy(SAMPLE / "told.yaml", case)
    shutil.copy(SAMPLE / "register.yaml", home / "conformance" / "clauses" / "pip9999.yaml")
    return home


def python(home: Path, *arguments: str) -> str:
    """Run Python on the copy and return what it prints."""
    environment = os.environ | {"PYTHONPATH": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, *arguments], check=False, cwd=home, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def suite(home: Path, *arguments: str) -> str:
    return python(home, "-m", "conformance.cli", *arguments)


def test_the_broker_serves_it_the_probe_finds_it_and_its_case_passes(home):
    text = suite(home, "run", "in-process", "--select", CASE, "--report", str(home / "reports"))
    assert "conformant in the selected cases" in text
    records = [json.loads(line) for line in (home / "reports" / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    assert records[0]["capabilities"]["new-topics-watch"] is True
    (result,) = (one for one in records if one["record"] == "result")
    assert (result["verdict"], set(result["clauses"].values())) == ("PASS", {"PASS"})


def test_a_broker_that_does_it_wrong_fails(home):
    broker = home / "refimpl" / "proposals" / NAME / "broker.py"
    right = broker.read_text(encoding="utf-8")
    try:
        broker.write_text(right.replace("+= 1", "+= 2"), encoding="utf-8")
        with pytest.raises(AssertionError, match="parallelism"):
            suite(home, "run", "in-process", "--select", CASE, "--report", str(home / "wrong"))
    finally:
        broker.write_text(right, encoding="utf-8")


def test_a_client_keeps_its_watch_by_the_driver_of_all_watches(home):
    assert python(home, str(SAMPLE / "talk.py")).split() == ["0", "1", "2"]


def test_it_is_explained_with_its_address_and_what_releases_do_about_it_is_read_from_recordings_from_before_it(home):
    text = suite(home, "explain", "pip9999.watch.told")
    assert "https://example.org/pip-9999" in text
    assert "the target has no new-topics-watch (needed: feature flag supports_tc_metadata_discovery (PIP-9999))" in text
    shown = dict.fromkeys(RELEASES, "NOT-APPLICABLE") | {"5.0.0-M1": "UNTESTABLE"}  # which has the flag, so its recording is owed
    assert re.findall(r"apache-pulsar@(\S+): (\S+)", text) == list(shown.items())
    assert "pip9999/watch/told: UNTESTABLE, not recorded yet" in text


def test_its_profile_is_chosen_on_the_command_line_and_shown_on_the_page_of_divergences(home):
    shown = """
from pathlib import Path
from conformance.site.registers import DIVERGENCES, register_pages
from conformance.site.sources import load_sources
from conformance.targets.serve import profiles_with
from refimpl.proposals.new_topics import PROPOSAL

assert profiles_with("default", ["first=1"])[PROPOSAL].first == 1
(page,) = (page.text for page in register_pages(load_sources(recordings=Path("none"))) if page.path == DIVERGENCES)
print(page[page.index("### first {"):].split("###")[1])
"""
    text = python(home, "-c", shown)
    assert "PIP-9999. Where counting begins." in text
    assert "- default: `0`" in text


# No other module names a proposal, but those below: each by itself, so that a new one needs a reason too.

EXCEPTIONS = {
    "conformance/clients/faults/batches.py": "PIP-191: faults of producers",
    "conformance/clients/faults/core.py": "all but PIP-191: faults that take one flag for another",
    "conformance/clients/faults/core_crossings.py": "PIP-191 and PR 7629: faults that show where two things meet",
    "conformance/clients/faults/counts.py": "PIP-247: faults of clients that watch partitions",
    "conformance/clients/faults/filters.py": "PR 7629: faults of consumers with a filter",
    "conformance/clients/faults/later.py": "the watches of three proposals: faults that show after a reconnect",
    "conformance/clients/faults/loose_ends.py": "PIP-247: faults that show when a question for partitions is cut off",
    "conformance/clients/faults/second_steps.py": "PIP-145, PIP-247, PIP-191: faults that show in a second step",
    "conformance/clients/faults/meanwhile.py": "the watches of three proposals: faults that show while something else is under way",
    "conformance/clients/faults/rounds.py": "all but PIP-145: faults that show in a second round",
    "conformance/clients/faults/second_look.py": "PR 7629 and PR 25648: faults that show with a second broker, a second diff, or no answer",
    "conformance/clients/faults/topic_lists.py": "PIP-145: faults of consumers of a pattern",
    "conformance/clients/faults/watch_crossings.py": "all but PR 7629: faults of watches that show while something else is under way",
    "conformance/clients/manual.py": "PIP-145 and PR 25648: what the wire shows when a user of a client has done a step",
    "conformance/drivers/reference.py": "PR 7629: an application, which subscribes with a filter",
    "conformance/clients/variants/watching.py": "PIP-145: other right ways to watch and to poll",
    "conformance/corpus/batching/laws.py": "PIP-191: the reasons for which a batch goes out are counted",
    "conformance/corpus/batching/sent.py": "PIP-191: batches and entry filters by the reference's own code",
    "conformance/corpus/batching/settings.py": "PIP-191: what a producer and a subscription may be set to",
    "conformance/corpus/captured.py": "PR 25648: captures name scalable topics too, in a form of their own",
    "conformance/corpus/delivering/reference.py": "PR 7629 and PIP-191: filters over entries by the reference's own code",
    "conformance/corpus/filtering/patterns.py": "PIP-145: how a pattern is read and how long it may be",
    "conformance/corpus/filtering/reference.py": "PIP-145, PR 25648 and PR 7629: the rules by the reference's own code",
    "conformance/corpus/inputs/names.py": "PR 25648: names of scalable topics, too",
    "conformance/corpus/promotion.py": "PIP-145: cases about patterns are made of rare rows",
    "conformance/corpus/replay/partitions.py": "PIP-247: a watcher with the reference's own broker and client",
    "conformance/corpus/replay/scalable.py": "PR 25648: a watcher with the reference's own broker and client",
    "conformance/corpus/replay/spread.py": "PIP-247 and PR 25648: which of them each way of learning of changes belongs to",
    "conformance/explore/actions.py": "all five: what actors do with their commands",
    "conformance/explore/client_actions.py": "all but PR 25648: what a broker may do to a client, and what a user does",
    "conformance/explore/client_stories.py": "PIP-145 and PR 7629: what topics do under a pattern, and consumers with a filter",
    "conformance/explore/concurrent.py": "PIP-145, PIP-247 and PR 25648: what watchers were told",
    "conformance/explore/conditions.py": "PR 25648: known defects are told by the commands in which they show",
    "conformance/explore/said.py": "PIP-145, PIP-247 and PR 25648: what a watcher knows",
    "conformance/monitors/handshake.py": "all five: clauses of which command needs which flag",
    "conformance/monitors/requests.py": "all but PR 7629 and PIP-191: which answer belongs to which request",
    "conformance/monitors/watching.py": "PIP-145, PIP-247 and PR 25648: hashes and ids of what watchers are told",
    "conformance/mutants/common.py": "all five: faults that are one mistake in several proposals",
    "conformance/mutants/entries.py": "PIP-191: faults of batches and entry filters",
    "conformance/mutants/filter_kinds.py": "PR 7629: faults of the built-in filters",
    "conformance/mutants/filters.py": "PR 7629: faults of subscriptions with a filter",
    "conformance/mutants/late.py": "PIP-145, PIP-247 and PR 25648: faults of time",
    "conformance/mutants/lists.py": "PIP-145: faults of lists",
    "conformance/mutants/partition_updates.py": "PIP-247: faults of updates, one of them when a watcher of topic lists closes",
    "conformance/mutants/partitions.py": "PIP-247: faults of watchers",
    "conformance/mutants/scalable.py": "PR 25648: faults of watches",
    "conformance/mutants/scalable_changes.py": "PR 25648: faults of diffs",
    "conformance/mutants/watch_updates.py": "PIP-145: faults of updates",
    "conformance/mutants/watches.py": "PIP-145: faults of watchers",
    "conformance/notebooks/batches.py": "PIP-191: what its notebook shows",
    "conformance/notebooks/filtering.py": "PR 7629: what its notebook shows",
    "conformance/notebooks/partition_updates.py": "PIP-247: what its notebook shows",
    "conformance/notebooks/scalable_topics.py": "PR 25648: what its notebook shows",
    "conformance/notebooks/steps.py": "all five: what to implement, in order",
    "conformance/notebooks/topic_lists.py": "PIP-145: what its notebook shows",
    "conformance/proxy/addresses.py": "PR 25648: addresses in layouts, which lead past a proxy",
    "conformance/running/probe.py": "PIP-145 and PR 25648: some of their capabilities are no flag, so it asks for a list and a layout",
    "conformance/running/usual.py": "PIP-145: what a longest pattern that is not the usual one leaves untold",
    "conformance/targets/reference.py": "PR 25648: the reference declares that it looks up layouts, so that a broken look-up fails",
    "conformance/transcribing/causes.py": "PIP-145: what causes an update",
    "conformance/transcribing/cited.py": "PIP-145: clauses that a list and an update are cited for",
    "conformance/transcribing/named.py": "PIP-145: names of topics in lists and updates",
    "conformance/transcribing/requests.py": "PIP-145: which answer belongs to which request",
    "conformance/transcribing/written.py": "PIP-145: what a case with its commands needs",
    "refimpl/client/__init__.py": "what applications may give to a consumer: a policy for message filters",
    "refimpl/client/client.py": "what applications call: subscriptions to patterns and namespaces, scalable topics",
    "refimpl/client/consumer.py": "a consumer with a message filter",
    "refimpl/client/entry.py": "a batch that a producer makes",
    "refimpl/client/filtering.py": "a consumer that filters by itself",
    "refimpl/client/options.py": "what applications choose for a producer and a consumer",
    "refimpl/client/partition_watcher.py": "producers and consumers of all partitions of a topic, which may get more",
    "refimpl/client/pattern_consumer.py": "a consumer of all topics of a pattern",
    "refimpl/client/producer.py": "a producer whose batches keep to a setting",
    "refimpl/client/producer_stats.py": "what it counts about its batches",
    "refimpl/client/scalable_consumer.py": "consumers of scalable topics",
    "refimpl/client/scalable_producer.py": "a producer to a scalable topic",
    "refimpl/client/segment_lookup.py": "where the segments of a scalable topic are",
    "refimpl/net/client.py": "the same client over sockets, for applications",
    "refimpl/net/embedded.py": "what applications may give to a broker: entry filters",
    "refimpl/net/serving.py": "entry filters and message filters of installed distributions",
    "conformance/variants/allowances.py": "PR 25648: diffs that are split, joined or late",
    "conformance/variants/choices.py": "PR 25648: other ids and codes of its own commands",
    "conformance/variants/told.py": "PIP-145 and PIP-247: lists without a hash, versions of what is sent again",
}
"""Modules that name a proposal by their nature: mostly what applications call, and what is about one proposal's rules."""


def packages() -> list[Path]:
    return [path for path in (ROOT / "refimpl" / "proposals").iterdir() if (path / "rules.py").is_file()]


def own_words() -> frozenset[str]:
    """Return what only a proposal calls so: its package, register, commands, flags and capabilities."""
    words = {path.name for path in packages()}
    for proposal in PROPOSALS:
        words |= {proposal.register, *proposal.flags, *(command.name for command in proposal.commands)}
        words |= {capability.name for capability in proposal.capabilities}
    return frozenset(words)


def words_of(path: Path) -> Iterator[str]:
    """Yield the modules, names of fields and whole texts that a module says."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                yield from (word for name in names for word in f"{module}.{name.name}".split("."))
            case ast.Import(names=names):
                yield from (word for name in names for word in name.name.split("."))
            case ast.Attribute(attr=word) | ast.keyword(arg=str(word)) | ast.Constant(value=str(word)):
                yield word


def naming() -> dict[str, set[str]]:
    """Return for each module outside the packages of the proposals what it names of them."""
    own, inside = own_words(), [*packages(), ROOT / "refimpl" / "proposals" / "__init__.py"]
    files = [path for name in ("conformance", "refimpl") for path in (ROOT / name).rglob("*.py")]
    outside = [path for path in files if not path.name.endswith("_pb2.py") and not any(path.is_relative_to(home) for home in inside)]
    found = {path.relative_to(ROOT).as_posix(): own & set(words_of(path)) for path in outside}
    return {module: words for module, words in found.items() if words}


def test_there_are_as_many_packages_as_proposals():
    assert len(packages()) == len(PROPOSALS)


def test_no_other_module_names_a_proposal():
    found = naming()
    assert {module: sorted(words) for module, words in found.items() if module not in EXCEPTIONS} == {}, "give it a reason, or no such name"
    assert sorted(EXCEPTIONS.keys() - found.keys()) == [], "take them out"
