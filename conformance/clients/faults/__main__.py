"""Run faulty clients, all of them or those that are named, and print which cases find them."""

import sys

from conformance.clients.faults.find import find_all, load_faults


def main(names: list[str]) -> int:
    """Return the exit code: 0 if a case finds each clause that a fault breaks, 1 if not, 2 for an unknown name."""
    faults = load_faults()
    unknown = [name for name in names if name not in faults]
    if unknown:
        print(f"no such fault: {', '.join(unknown)}", file=sys.stderr)
        return 2
    missed = 0
    for one in find_all(names or faults):
        missed += bool(one.missed)
        lives = f"; missed: {', '.join(one.missed)}" if one.missed else ""
        print(f"{' '.join(faults[one.fault].clauses)} {one.fault}: found by {', '.join(one.found_by) or 'nothing'}{lives}", flush=True)
    print(f"{len(names or faults)} faulty clients, {missed} not found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
