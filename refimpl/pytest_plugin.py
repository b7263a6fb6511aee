"""Fixtures for the tests of clients; pytest finds them once this project is installed.

def test_my_client(pulsar_broker, pulsar_namespace):
    client = MyClient(pulsar_broker.service_url)
    producer = client.create_producer(f"persistent://{pulsar_namespace}/orders")
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from refimpl.net.embedded import EmbeddedBroker

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def pulsar_broker_config() -> Mapping[str, str]:
    """Return the settings of `pulsar_broker`, by their names in Pulsar's broker.conf; override it to change them."""
    return {}


@pytest.fixture(scope="session")
def pulsar_broker(pulsar_broker_config: Mapping[str, str]) -> Iterator[EmbeddedBroker]:
    """Run a broker for all tests, with `service_url`, `admin_url`, `faults`, `stop` and `start`."""
    from refimpl.net.embedded import EmbeddedBroker  # noqa: PLC0415 (pytest loads this module in every project of the environment)

    with EmbeddedBroker({"forceDeleteNamespaceAllowed": "true", **pulsar_broker_config}) as broker:
        yield broker


@pytest.fixture
def pulsar_namespace(pulsar_broker: EmbeddedBroker) -> Iterator[str]:
    """Make a namespace of `pulsar_broker` for one test, and delete it with all its topics afterwards.

    The broker runs, and has no faults, when the test begins, whatever the test before has done.
    """
    from refimpl.proposals.refused import AdminRefused  # noqa: PLC0415

    namespace = f"public/test-{next(_NUMBERS)}"
    _restore(pulsar_broker)
    pulsar_broker.call(lambda broker: broker.admin.create_namespace(namespace))
    yield namespace
    _restore(pulsar_broker)
    with suppress(AdminRefused):  # the test may have deleted it
        pulsar_broker.call(lambda broker: broker.admin.delete_namespace(namespace, force=True))


def _restore(broker: EmbeddedBroker) -> None:
    broker.faults.clear()
    if not broker.running:
        broker.start()
