"""A small suite and logs of it, made by hand: what the tests of the reports stand on."""

import datetime

from conformance.engine import frames, log
from conformance.engine import model as m
from conformance.judging.results import read_log
from conformance.report.model import build_report
from conformance.suite import Suite
from refimpl.proposals.topic_list import PROPOSAL

TODAY = datetime.date(2026, 11, 21)
HOSTILE = "</script><script>alert(1)</script><b onclick='x'>&amp;\x1b[31m\x00\u202e\ud83d"
TEXT = PROPOSAL.address

WATCH = {
    "format": 1,
    "proposal": "pip-145",
    "source": {"title": "PIP-145: topic list watchers"},
    "clauses": [
        {
            "id": "pip145.watch.success",
            "level": "MUST",
            "basis": "indicative",
            "side": "broker",
            "text": "A watch request is answered with the list and its hash.",
            "section": "Notifications",
            "says": "A watcher is answered with what is there, hash <included>.",
            "effect": "A client cannot tell whether its list is complete.",
        },
        {
            "id": "pip145.watch.update",
            "level": "MUST",
            "basis": "indicative",
            "side": "broker",
            "text": "A new topic is announced.",
            "depends_on": ["pip145.watch.success"],
        },
        {"id": "pip145.watch.order", "level": "SHOULD", "basis": "keyword", "side": "broker", "text": "Lists are sorted."},
        {"id": "pip145.watch.rate", "level": "MAY", "basis": "keyword", "side": "broker", "text": "Updates may be joined."},
        {"id": "pip145.watch.settings", "level": "MUST", "basis": "observed", "side": "broker", "text": "A disabled watcher is refused."},
        {"id": "pip145.watch.nobody", "level": "MUST", "basis": "observed", "side": "broker", "text": "Tested by nothing <yet>."},
        {
            "id": "pip145.watch.for-ever",
            "level": "MUST",
            "basis": "indicative",
            "side": "broker",
            "text": "A watch is retried for ever.",
            "excluded": "Needs more than an hour of <wall clock>.",
        },
    ],
}
CORE = {
    "format": 1,
    "proposal": "core",
    "source": {"title": "Apache Pulsar binary protocol"},
    "clauses": [{"id": "core.ping.answered", "level": "MUST", "basis": "keyword", "side": "broker", "text": "PING is answered by PONG."}],
}
FENCE = {"format": 1, "id": "lib/fence-ping", "title": "fence", "steps": [{"client": {"ping": {}}}, {"broker": {"pong": {}}}]}
HANDSHAKE = {
    "format": 1,
    "id": "lib/handshake",
    "title": "handshake",
    "steps": [
        {"open": "$at"},
        {"client": {"connect": {"client_version": "x"}}},
        {"broker": {"connected": {"server_version": {"$any": True}}}},
    ],
}
WATCH_STEPS = [
    {"use": "lib/handshake"},
    {
        "client": {
            "watchTopicList": {
                "request_id": {"$bind": "r", "example": 1},
                "watcher_id": {"$bind": "w", "example": 7},
                "namespace": "$ns",
                "topics_pattern": "persistent://${ns}/t-.*",
            }
        }
    },
    {
        "broker": {"watchTopicListSuccess": {"request_id": "$r", "watcher_id": "$w", "topic": [], "topics_hash": "00000000"}},
        "clause": "pip145.watch.success",
    },
    {"admin": {"create_topic": "persistent://${ns}/t-1"}},
    {"broker": {"watchTopicUpdate": {"watcher_id": "$w", "new_topics": ["persistent://${ns}/t-1"]}}, "clause": "pip145.watch.update"},
    {"observe": {"watcher": "$w"}},
]


def case(name, clauses, steps, **more):
    return m.Transcript.model_validate(
        {"format": 1, "id": name, "title": f"About {name}", "tests": ["broker"], "clauses": clauses, "steps": steps, "end": "none", **more}
    )


def suite():
    both = ["pip145.watch.success", "pip145.watch.update"]
    cases = [
        case("core/ping", ["core.ping.answered"], [{"open": "c"}, {"client": {"ping": {}}}, {"broker": {"pong": {}}}]),
        case("pip145/create", both, WATCH_STEPS, vars={"ns": {"$fresh": "namespace"}}),
        case(
            "pip145/order",
            ["pip145.watch.order"],
            [{"open": "c"}, {"client": {"ping": {}}}, {"broker": {"pong": {}}, "clause": "pip145.watch.order"}],
            matrix={"n": [1, 2]},
        ),
        case(
            "pip145/trials",
            ["pip145.watch.rate"],
            [{"open": "c"}, {"client": {"ping": {}}}, {"broker": {"pong": {}}, "clause": "pip145.watch.rate"}],
            trials={"count": 3},
        ),
        case(
            "pip145/settings",
            ["pip145.watch.settings"],
            [{"open": "c"}],
            target_config={"enableBrokerSideSubscriptionPatternEvaluation": "no"},
        ),
    ]
    return Suite(
        [m.Register.model_validate(WATCH), m.Register.model_validate(CORE)],
        {one["id"]: m.Fragment.model_validate(one) for one in (FENCE, HANDSHAKE)},
        {},
        {one.id: one for one in cases},
        "digest",
    )


def frame(name, **fields):
    return frames.build_frame({name: fields}).hex()


class TrialLogWriter:
    """Writes the records of one conversation."""

    def __init__(self, case, trial=0, cell=None, fresh=None, start=1.0):
        shown = f"[{','.join(f'{k}={v}' for k, v in cell.items())}]" if cell else ""
        self.key = f"{case}{shown}#{trial}"
        self.t = start
        self.n = 0
        self.records = [log.TrialStarted(key=self.key, case=case, cell=cell or {}, trial=trial, actions="", fresh=fresh or {}, t=start)]

    def add(self, kind, **fields):
        self.t = round(self.t + 0.01, 3)
        self.records.append(kind(key=self.key, n=self.n, t=self.t, **fields))
        self.n += 1
        return self

    def action(self, step, what, data=None, status=None, body=None, **fields):
        size = len(data) // 2 if data else None
        self.add(log.Begin, step=step, what=what, data=data, size=size, **fields)
        return self.add(log.End, step=step, status=status, body=body)

    def open(self, step="0.0.0", at="c"):
        return self.action(step, "open", at=at)

    def send(self, step, name, at="c", **fields):
        return self.action(step, "send", frame(name, **fields), at=at)

    def hear(self, name, at="c", **fields):
        return self.add(log.Frame, at=at, data=frame(name, **fields))

    def end(self, problem=None):
        self.records.append(log.Finished(key=self.key, t=round(self.t + 0.01, 3), problem=problem))
        return self.records


def ping(case, trial=0, cell=None, answer="pong", start=1.0):
    trial_log = TrialLogWriter(case, trial, cell, start=start).open().send("0.0.1", "ping")
    if answer is None:
        return trial_log.add(log.Deadline).end()
    return trial_log.hear(answer[0], **answer[1]).end() if isinstance(answer, tuple) else trial_log.hear(answer).end()


def watch(*, good=True, message=HOSTILE, announced="t-1"):
    ns = "public/pc-1"
    trial_log = TrialLogWriter("pip145/create", fresh={"ns": ns}).open().send("0.0.1", "connect", client_version="x")
    trial_log.hear("connected", server_version="Broker <b>1</b>")
    trial_log.send("1.0.0", "watchTopicList", request_id=1, watcher_id=7, namespace=ns, topics_pattern=f"persistent://{ns}/t-.*")
    if not good:
        return trial_log.hear("error", request_id=1, error="MetadataError", message=message.encode(errors="replace").decode()).end()
    trial_log.hear("watchTopicListSuccess", request_id=1, watcher_id=7, topics_hash="00000000")
    trial_log.add(log.Begin, step="2.0.0", what="admin", detail={"create_topic": f"persistent://{ns}/t-1"})
    trial_log.hear("watchTopicUpdate", watcher_id=7, new_topics=[f"persistent://{ns}/{announced}"], topics_hash="833f71b0")
    return trial_log.add(log.End, step="2.0.0", status=204).end()


def header(target="some-broker@1.0", version="Broker <b>1</b>", **more):
    return log.Header(
        suite="0.1.0",
        transcripts="digest",
        target=target,
        service_url="pulsar://127.0.0.1:6650",
        server_version=version,
        capabilities={"admin": True, "config": False, "topic-list-filter": True, "topic-list-watch": True},
        started="2026-11-21T10:00:00+00:00",
        **more,
    )


SKIPPED = [log.Skipped(case="pip145/settings", verdict="UNTESTABLE", reason="needs settings of its own")]


def good_records():
    records = [*ping("core/ping"), *watch()]
    records += [record for n in (1, 2) for record in ping("pip145/order", cell={"n": n})]
    records += [record for trial in range(3) for record in ping("pip145/trials", trial)]
    return [*records, *SKIPPED]


def bad_records():
    records = [*ping("core/ping"), *watch(good=False)]
    records += [*ping("pip145/order", cell={"n": 1}, answer=None), *ping("pip145/order", cell={"n": 2})]
    for trial in range(3):
        answer = ("error", {"request_id": 1, "error": "UnknownError", "message": "second"}) if trial == 1 else "pong"
        records += ping("pip145/trials", trial, answer=answer)
    return [*records, *SKIPPED]


def run(records, *, complete=True, stopped=None, footer=True, **more):
    end = [log.Footer(complete=complete, stopped=stopped, seconds=12.5)] if footer else []
    return read_log([header(**more), *records, *end], "sample")


def baseline(*entries):
    return m.Baseline.model_validate({"format": 1, "target": "some-broker@1.0", "entries": list(entries)})


KNOWN = {
    "case": "pip145/create",
    "clause": "pip145.watch.success",
    "diagnosis": "came, which nothing expects here",
    "reason": "Fixed in <2.0>",
}


def report(records=None, *, known=(), strict=False, **how):
    return build_report(suite(), run(good_records() if records is None else records, **how), baseline(*known), TODAY, strict=strict)
