"""The admin operations. Each operation of Pulsar's admin interface is a method of `Admin`; rest.py gives it its path.

Topics are given by full name, namespaces as "tenant/namespace". Errors have the HTTP status observed on Apache Pulsar 4.2.4.
"""

from __future__ import annotations

from refimpl.broker.admin.cluster import ClusterAdmin
from refimpl.broker.admin.namespaces import NamespaceAdmin
from refimpl.broker.admin.schemas import SchemaAdmin
from refimpl.broker.admin.subscriptions import SubscriptionAdmin
from refimpl.broker.admin.topics import TopicAdmin

__all__ = ["Admin"]


class Admin(ClusterAdmin, NamespaceAdmin, TopicAdmin, SchemaAdmin, SubscriptionAdmin):
    """All operations.

    Raises:
        AdminRefused: In every method: the status and the reason.
    """
