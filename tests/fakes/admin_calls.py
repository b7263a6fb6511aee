"""Calls of the admin interface without HTTP."""

from __future__ import annotations

import json
from urllib.parse import parse_qsl

from refimpl.broker import Broker
from refimpl.broker.rest import handle
from refimpl.proposals.administration import AdminRequest


def ask(broker: Broker, method: str, path: str, body: object = None, token: str | None = None, raw: bytes | None = None):
    place, _, query = path.partition("?")
    data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
    answer = handle(broker, AdminRequest(method, place, dict(parse_qsl(query)), data, token), broker.now)
    is_json = answer.content_type == "application/json" and answer.body
    return answer.status, json.loads(answer.body) if is_json else answer.body
