"""The proxy: stands between any client and any broker, and passes on what they say.

lane       one direction of a connection: which bytes are a frame, and what becomes of it
relay      one connection: the client's side, the broker's side, and how fast both may be
proxy      the addresses that clients are given, and all connections
addresses  the answers that say where a topic is served, changed so that clients stay on the proxy
watching   what follows the conversations: a listing, a recording, the tests

A frame that nobody wants to see and nothing changes is passed on as it comes, of which only the type is looked at.
"""

from conformance.proxy.proxy import Proxy, proxying
from conformance.proxy.watching import Direction, Passed, Watcher

__all__ = ["Direction", "Passed", "Proxy", "Watcher", "proxying"]
