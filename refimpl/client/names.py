"""Topic names and broker addresses for the client.

persistent://tenant/namespace/local-name                a topic
persistent://tenant/namespace/local-name-partition-3    one partition of a partitioned topic
local-name                                              short for persistent://public/default/local-name
topic://tenant/namespace/local-name                     a scalable topic
pulsar://host:6650, pulsar+ssl://host:6651              a broker
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PORTS = {"pulsar": 6650, "pulsar+ssl": 6651}
_SERVICE_URL = re.compile(
    r"(?P<scheme>pulsar(?:\+ssl)?)://(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<host>[^\s:/,?#\[\]]+))(?::(?P<port>\d{1,5}))?/?"
)


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a connection.

    Attributes:
        host: The host to connect to.
        port: TCP port.
        tls: Whether to use TLS (pulsar+ssl).
        proxy_to: "host:port" of the broker behind a proxy; None: there is no proxy.
    """

    host: str
    port: int
    tls: bool
    proxy_to: str | None = None

    @property
    def address(self) -> str:
        """Return "host:port"."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        behind = f" (for {self.proxy_to})" if self.proxy_to else ""
        return f"pulsar{'+ssl' if self.tls else ''}://{self.address}{behind}"


def parse_service_url(url: str) -> Target:
    """Parse a service URL.

    Raises:
        ValueError: The URL is invalid.
    """
    found = _SERVICE_URL.fullmatch(url)
    if found is None:
        raise ValueError(f"{url!r} is not of the form pulsar://host:port or pulsar+ssl://host:port")
    port = int(found["port"] or _PORTS[found["scheme"]])
    if not 0 < port < 65536:
        raise ValueError(f"{url!r} has the port {port}, which is not from 1 to 65535")
    return Target(found["v6"] or found["host"], port, found["scheme"] == "pulsar+ssl")


def is_scalable(topic: str) -> bool:
    """Return whether a full name is that of a scalable topic: PR 25648."""
    return topic.startswith("topic://")
