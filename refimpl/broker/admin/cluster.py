"""The admin operations on the cluster: its name, and its brokers."""

from __future__ import annotations

from typing import Any

from refimpl.broker.admin.part import AdminPart
from refimpl.proposals.refused import AdminRefused


class ClusterAdmin(AdminPart):
    """The operations."""

    def clusters(self) -> list[str]:
        """List the clusters: this one."""
        return [self._cluster]

    def cluster(self, cluster: str) -> dict[str, Any]:
        """Return the addresses of a cluster."""
        if cluster != self._cluster:
            raise AdminRefused(404, "Cluster does not exist")
        leader = self._broker.members.leader
        return {"serviceUrl": leader.admin_url, "brokerServiceUrl": leader.service_url}

    def brokers(self, cluster: str | None = None) -> list[str]:  # noqa: ARG002
        """List the brokers of a cluster, whatever its name: those of this one, by the host and port of their admin interfaces."""
        return [one.broker_id for one in self._broker.members.running]

    def leader_broker(self) -> dict[str, str]:
        """Return the leader of the brokers."""
        leader = self._broker.members.leader
        return {"brokerId": leader.broker_id, "serviceUrl": leader.admin_url}

    def version(self) -> str:
        """Return the version of the broker."""
        return self._broker.server_version

    def health(self, broker_id: str = "") -> str:
        """Return that the broker, or another one of the cluster, is healthy."""
        if broker_id and broker_id not in self.brokers():
            raise AdminRefused(404, f"Broker id '{broker_id}' not found in available brokers.")
        return "ok"

    def check_backlog_quota(self) -> None:
        """Close the producers of all topics beyond their backlog quota."""
        self._broker.backlog_quota.check_all()

    def runtime_configuration(self) -> dict[str, str]:
        """Return the broker's settings."""
        return self._broker.configuration.settings()
