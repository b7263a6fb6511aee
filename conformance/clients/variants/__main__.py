"""Run legal variants of the client, all of them or those that are named, and print which cases accuse them."""

import sys

from conformance.clients.variants.run import load_client_variants, try_client_by_name
from conformance.variants.__main__ import run

if __name__ == "__main__":
    sys.exit(run("conformance.clients.variants", sys.argv[1:], load_client_variants(), try_client_by_name))
