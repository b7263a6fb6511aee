"""Run mutants, all of them or those that are named, and write their rows of the kill matrix."""

import sys

from conformance.mutants.kill import kill_all, load_mutants, publish


def main(names: list[str]) -> int:
    """Return the exit code: 0 if each mutant is killed by a case of each of its clauses, 1 if not, 2 for an unknown name."""
    mutants = load_mutants()
    unknown = [name for name in names if name not in mutants]
    if unknown:
        print(f"no such mutant: {', '.join(unknown)}", file=sys.stderr)
        return 2
    killings = []
    for one in kill_all(names or mutants, register=True):
        killings.append(one)
        others = f"; {len(one.unrelated_failures)} other cases fail, too" if one.unrelated_failures else ""
        print(
            f"{' '.join(mutants[one.mutant].clauses)} {one.mutant}: killed by {', '.join(one.killed_by) or 'nothing'}{others}", flush=True
        )
    publish(killings)
    living = [f"{one.mutant} ({', '.join(one.missed)})" for one in killings if one.missed]
    print(f"{len(killings)} mutants, {len(killings) - len(living)} killed" + (f"; alive: {', '.join(living)}" if living else ""))
    return 1 if living else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
