"""The admin paths of the reference, and those that it refuses, are those of a real broker."""

from __future__ import annotations

import re
import urllib.error
import urllib.request

import pytest

from conformance.targets import Endpoint
from refimpl.broker.rest import ROUTES
from refimpl.broker.unsupported import UNSUPPORTED

pytestmark = pytest.mark.interop

LATER = re.compile(r"/admin/v2/(scalable|segments)/|.*/scalableTopicAutoScalePolicy")
"""Paths that 5.0.0-M1 has and 4.2.4 has not."""


def allowed(url: str) -> set[str]:
    """Ask a broker which methods a path takes; nothing is called."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="OPTIONS"), timeout=60) as answer:
            return set(answer.headers.get("Allow", "").replace(" ", "").split(","))
    except urllib.error.HTTPError as error:
        with error:
            return set()


@pytest.mark.parametrize("broker", [pytest.param("real", marks=pytest.mark.real)], indirect=True)
def test_each_path_is_one_of_pulsar(broker: Endpoint) -> None:
    paths: dict[str, set[str]] = {}
    for one in (*ROUTES, *UNSUPPORTED):
        if not LATER.match(one.template):
            paths.setdefault(one.template.replace("{domain}", "persistent"), set()).add(one.method)
    missing = {}
    for template, methods in paths.items():
        left = methods - allowed(broker.admin_url + re.sub(r"{.*?}", "x", template))
        if left:
            missing[template] = left
    assert len(paths) > 250
    assert missing == {}
