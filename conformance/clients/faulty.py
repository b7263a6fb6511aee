"""The driver of the reference client with a fault in it: python -m conformance.clients.faulty NAME.

Its lines are those of any driver, so that it can be judged from outside: `pulsar-conformance run client:./my-faulty-driver`.
"""

import asyncio
import sys

from conformance.clients.faults.find import load_faults
from conformance.drivers import reference


def main(names: list[str]) -> int:
    """Serve requests until the input ends; return the exit code: 2 for an unknown name."""
    faults = load_faults()
    if len(names) != 1 or names[0] not in faults:
        print(f"usage: python -m conformance.clients.faulty NAME\nfaults: {', '.join(sorted(faults))}", file=sys.stderr)
        return 2
    with faults[names[0]].applied():
        asyncio.run(reference.main())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
