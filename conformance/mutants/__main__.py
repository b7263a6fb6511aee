"""Run mutants: all of them against all cases, or those that are named."""

import sys

from conformance.mutants.kill import kill_all, load_mutants, matrix, problems, write_matrix
from conformance.suite import load_suite


def main(names: list[str]) -> int:
    """Return the exit code: 0 if each mutant is killed by its own cases and by no stranger, 1 otherwise."""
    mutants = load_mutants()
    unknown = [name for name in names if name not in mutants]
    if unknown:
        print(f"no such mutant: {', '.join(unknown)}", file=sys.stderr)
        return 2
    suite = load_suite()
    killings = kill_all(names or mutants, everything=True)
    for one in killings:
        print(f"{one.mutant} ({mutants[one.mutant].clause}): killed by {', '.join(one.killed_by) or 'nothing'}")
    wrong = [line for line in problems(suite, killings) if not names or any(line.startswith(name) for name in names)]
    if not names:
        write_matrix(matrix(killings))
    print("\n".join(wrong) or f"{len(killings)} mutants, each killed by its own cases and by no other")
    return 1 if wrong else 0


sys.exit(main(sys.argv[1:]))
