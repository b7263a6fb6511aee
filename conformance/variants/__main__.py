"""Run legal variants, all of them or those that are named, and print which cases accuse them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence

from conformance.variants.model import Variant
from conformance.variants.run import Trial, load_variants, try_all, try_by_name


def main(arguments: Sequence[str]) -> int:
    """Return the exit code: 0 if no case accuses a variant, 1 if one does, 2 for an unknown name."""
    return run("conformance.variants", arguments, load_variants(), try_by_name)


def run(program: str, arguments: Sequence[str], variants: Mapping[str, Variant], judge: Callable[..., Trial]) -> int:
    """Run variants of brokers, or of clients; see `main`."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a variant; none: all")
    parser.add_argument("--select", action="append", default=[], metavar="GLOB", help="only these cases")
    parser.add_argument("--verbose", action="store_true", help="show the diagnosis of each accusation")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in variants]
    if unknown:
        print(f"no such variant: {', '.join(unknown)}", file=sys.stderr)
        return 2
    accused = 0
    for trial in try_all(options.names or variants, options.select, judge=judge):
        accused += bool(trial.accusations)
        print(_text(trial, verbose=options.verbose), flush=True)
    print(f"{len(options.names or variants)} variants, {accused} accused")
    return 1 if accused else 0


def _text(trial: Trial, *, verbose: bool) -> str:
    lines = [f"{trial.variant}: {', '.join(f'{number} {verdict}' for verdict, number in sorted(trial.counts.items()))}"]
    for one in trial.accusations:
        cell = ",".join(f"{name}={value}" for name, value in one.cell.items())
        lines.append(f"  {one.verdict} {one.case}{f'[{cell}]' if cell else ''}: {one.summary}")
        if verbose:
            lines += [f"    {line}" for line in one.diagnosis.splitlines()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
