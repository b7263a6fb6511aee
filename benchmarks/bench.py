"""`make bench`: figures are medians; those with a peer are taken alternately with it in one run, and given as ratios.

suite        codec, engine, judging of all recordings, a whole run on a real broker
rules        the hash of a changing set, patterns, messages through the broker without sockets
batches      uniform batches against ordinary ones
filters      decisions of message filters, and the bytes that they save
partitions   a changed number of partitions on its way to those who watch it
scalable     a watch over scalable topics, also beside Apache Pulsar 5.0.0-M1
attacks      a well-behaved client beside each attack on the reference broker
proxy        what the proxy adds to a frame, and how much it carries
corpus       the filters of the Spark side, beside a pipeline without Spark
peers        the reference broker beside a real one
"""

import argparse
import asyncio
from pathlib import Path

import attacks
import batches
import corpus
import filters
import partitions
import peers
import proxy
import rules
import scalable
import suite as of_suite

from conformance.running import recorder
from conformance.suite import load_suite

PARTS = ("suite", "rules", "batches", "filters", "partitions", "scalable", "attacks", "proxy", "corpus", "peers")


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="what to measure; everything if not given")
    parser.add_argument("--target", default="apache-pulsar@4.2.4", help="the real broker, and whose recordings to use")
    parser.add_argument("--no-run", action="store_true", help="leave out what needs a real broker")
    parser.add_argument("--large", action="store_true", help="the part corpus: 50 million rows, too")
    parser.add_argument("--plot", type=Path, help="the part corpus: draw time against rows into this SVG")
    parser.add_argument("--rounds", type=int, default=3, help="whole runs")
    arguments = parser.parse_args()
    parts = arguments.parts or PARTS
    suite, version = load_suite(), arguments.target.rpartition("@")[2]
    if "suite" in parts:
        run = recorder.load_target(arguments.target)
        if run is None:
            raise SystemExit(f"there are no recordings of {arguments.target}: make recordings TARGET={arguments.target}")
        of_suite.codec(run)
        of_suite.engine(suite, run)
        of_suite.judging(suite)
        if not arguments.no_run:
            asyncio.run(of_suite.whole_run(suite, version, arguments.rounds))
    if "rules" in parts:
        rules.hash_of_a_changing_set()
        rules.patterns()
        rules.messages()
    if "batches" in parts:
        batches.batching()
    if "filters" in parts:
        filters.decisions()
        filters.saved_bytes()
    if "peers" in parts and not arguments.no_run:
        asyncio.run(peers.measure(version, suite))
    if "partitions" in parts:
        asyncio.run(partitions.measure(None if arguments.no_run else version))
    if "scalable" in parts:
        scalable.alone()
        if not arguments.no_run:
            asyncio.run(scalable.beside())
    if "attacks" in parts:
        asyncio.run(attacks.measure(None if arguments.no_run else version))
    if "proxy" in parts:
        asyncio.run(proxy.measure())
    if "corpus" in parts:
        corpus.measure(arguments.large, arguments.plot)


if __name__ == "__main__":
    main()
