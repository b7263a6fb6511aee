"""A file that is wrong is refused with file, line, place and suggestion, before anything is sent."""

import pickle

import jsonschema
import pytest

from conformance.engine import log, source
from conformance.engine import model as m
from conformance.engine.source import SourceProblem, read_text
from conformance.suite import HOME, load_suite

PARSERS = [name for name in ("CLoader", "PythonLoader") if hasattr(source, name)]
"""Both of PyYAML's parsers; only its own where it was built without libyaml."""


@pytest.fixture(params=PARSERS)
def parser(request, monkeypatch):
    monkeypatch.setattr(source, "Loader", getattr(source, request.param))


def problems(home):
    with pytest.raises(SourceProblem) as caught:
        load_suite(home)
    return caught.value.problems


def test_problems_are_told_across_processes():
    told = pickle.loads(pickle.dumps(SourceProblem(["a.yaml:1: x", "b.yaml:2: y"])))
    assert (told.problems, str(told)) == (["a.yaml:1: x", "b.yaml:2: y"], "a.yaml:1: x\nb.yaml:2: y")


def test_good_suite(add):
    suite = load_suite(add())
    assert list(suite.transcripts) == ["test/ping"]
    assert suite.cases_of["test.pong"] == ["test/ping"]
    assert suite.levels["test.warn"] == "SHOULD"


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        ("title:", "titel:", 3, "unknown key 'titel'; did you mean 'title'?"),
        ("end: none", "within: 20", 12, "unknown key 'within' (known here: ambient, assumes, clauses, control, "),
        ("within: 20", "until: []", 11, "unknown key 'until' (known here: at, broker, clause, client, label, payload, window, within)"),
        ("within: 20", "window: {since: x, max: 1, times: 2}", 11, "unknown key 'times' (known here: max, min, since)"),
        (
            "- broker: {pong: {}}\n    within: 20",
            "- silence: {frames: [{pong: {}}]}\n    window: 1\n    until: []",
            11,
            "unknown key 'window' (known here: at, clause, silence, until)",
        ),
        (
            "- broker: {pong: {}}\n    within: 20",
            "- race:\n      a: [{for: {i: [1]}, do: [{advance: 1, at: c}]}]\n      b: []",
            11,
            "race.a[0].do[0].at: unknown key 'at' (known here: advance)",
        ),
        ("tests: [broker]", "tests: [server]", 4, "tests[0]: Input should be 'client' or 'broker'"),
        ("[test.pong]", "[test.pnog]", 5, "there is no clause test.pnog"),
        ("[test.pong]", "[test.out]", 5, "the clause test.out is excluded: no way"),
        ("id: test/ping", "id: test/other", 2, "the file is transcripts/test/ping.yaml, so the id is test/ping"),
        ("format: 1", "format: 2", 1, "format: Input should be 1"),
        ("{ping: {}}", "{pimg: {}}", 9, "unknown command 'pimg'; did you mean 'ping'?"),
        ("{ping: {}}", "{ping: {}, pong: {}}", 9, "should have at most 1 item"),
        ("client: {ping: {}}", "clinet: {ping: {}}", 9, "not a step: it needs one of client, broker"),
        ("client: {ping: {}}", "client: {ping: {}}\n    broker: {pong: {}}", 9, "names its emitter once"),
        ("{ping: {}}", "{lookupTopic: {topic: 7, request_id: 1}}", 9, "topic is text, not int 7; quote it"),
        ("{ping: {}}", "{lookupTopic: {topic: t, request_id: '1'}}", 9, "request_id is int, not str '1'"),
        ("{ping: {}}", "{lookupTopic: {topc: t, request_id: 1}}", 9, "unknown field 'topc' of CommandLookupTopic; did you mean 'topic'?"),
        ("{pong: {}}", "{error: {error: NotAlowedError}}", 10, "'NotAlowedError' is no ServerError; did you mean 'NotAllowedError'?"),
        ("{pong: {}}", "{error: {request_id: {$gtt: 1}}}", 10, "unknown matcher '$gtt'; did you mean '$gt'?"),
        ("within: 20", "within: 0", 11, "within: Input should be greater than 0"),
        ("within: 20", "clause: test.warn", 11, "test.warn is not among the clauses of test/ping: add it there"),
        ("end: none", "end: nine", 12, "end"),
        ("end: none", "requires: [wings]", 12, "unknown capability wings; known: admin"),
        ("end: none", "requires: ['!topic-list-wach']", 12, "unknown capability topic-list-wach; did you mean 'topic-list-watch'?"),
        ("end: none", "control: test/nothing", 12, "there is no case test/nothing"),
        ("open: c", "use: lib/none", 7, "there is no fragment 'lib/none'"),
        ("open: c", "use: lib/handshake\n    with: {x: 1}", 7, "lib/handshake has no parameter x"),
        ("open: c", "use: lib/handshake\n    with: {protocol_version: $no}", 7, "the variable $no is not set here, and no frame binds it"),
        ("open: c", "admin: {create_tropic: x}", 8, "unknown admin call 'create_tropic'"),
        ("open: c", "admin: {create_topic: {tropic: x}}", 8, "create_topic takes topic; not tropic"),
        ("ambient: []", "ambient: []\nambient: []", 7, "the key 'ambient' is given twice"),
        ("ambient: []", "vars: {n: {$fresh: planet}}", 6, "unknown kind of fresh name 'planet'"),
        ("ambient: []", "vars: {n: $m}", None, "vars: the variable $m is not set here, and no frame binds it"),
        ("steps:", "steps: [", 8, "not YAML"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(parser, add, ping, old, new, line, expected):
    found = problems(add(ping.replace(old, new, 1)))
    assert any(expected in one for one in found), found
    if line is not None:
        assert any(one.startswith(f"transcripts/test/ping.yaml:{line}:") for one in found), found


def test_all_problems_of_all_files_are_named_at_once(add, home, ping):
    add(ping.replace("title:", "titel:"))
    (home / "clauses" / "test.yaml").write_text("format: 1\nproposal: test\nsource: {title: T}\nclauses: []\n")
    found = problems(home)
    assert {one.partition(":")[0] for one in found} == {"transcripts/test/ping.yaml", "clauses/test.yaml"}


def test_clause_may_stand_once_only(add, home):
    add()
    path = home / "clauses" / "test.yaml"
    path.write_text(path.read_text() + "  - {id: test.pong, level: MUST, basis: indicative, side: broker, text: again}\n")
    assert any("the clause test.pong stands already at clauses/test.yaml:5" in one for one in problems(home))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("0123", "0123"),
        ("12:30", "12:30"),
        ("2026-01-01", "2026-01-01"),
        ("true", True),
        ("1.5", 1.5),
        ("00000000", "00000000"),
        ("~", None),
    ],
)
def test_the_smaller_yaml(parser, text, value):
    assert read_text(f"a: {text}", "x").data == {"a": value}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "x:1: the file is empty"),
        ("a: 1\nb: {c: 1,\n  c: 2}", "x:3: the key 'c' is given twice"),
        ("a: 1\n'a': 2", "x:2: the key 'a' is given twice"),
        ("a: 1\n? [b]\n: c", "x:2: a key is text, not a list or a mapping"),
        ("a: 1\nb: !thing x", "x:2: not YAML: could not determine a constructor for the tag '!thing'"),
        ("a: 1\nb: *c", "x:2: not YAML: found undefined alias"),
        ("a: &b [*b]", "x:1: nested too deep, or an alias stands inside of what it names"),
        ("a: ü\nb: c\nd: \x01", "x:3: not YAML: "),
        ("a: 1\n---\nb: 2", "x:2: not YAML: but found another document"),
    ],
)
def test_what_is_no_smaller_yaml(parser, text, expected):
    with pytest.raises(SourceProblem) as caught:
        read_text(text, "x")
    assert caught.value.problems[0].startswith(expected)


FREE = {"admin", "broker", "client", "frame", "frames", "matrix", "payload", "vars", "with"}
"""Keys of a transcript whose values have keys of their own, of which the schema knows nothing."""


def shapes(value):
    """Yield the keys of each object in a transcript that the schema describes."""
    if isinstance(value, dict):
        yield frozenset(value)
        for key, inner in value.items():
            if key not in FREE:
                yield from shapes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from shapes(inner)


@pytest.fixture(scope="module")
def typical():
    """All files but most of the transcripts: of those, the first one with each combination of keys."""
    chosen, seen = [], set()
    for path in sorted(HOME.rglob("*.yaml")):
        data = read_text(path.read_text(encoding="utf-8"), path.name).data
        found = {*shapes(data)} if path.is_relative_to(HOME / "transcripts") else {path}
        if not found <= seen:
            seen |= found
            chosen.append(path)
    assert len(chosen) > 300
    return chosen


@pytest.mark.skipif(len(PARSERS) < 2, reason="PyYAML was built without libyaml")
def test_both_parsers_read_files_alike(monkeypatch, typical):
    read = []
    for parser in PARSERS:
        monkeypatch.setattr(source, "Loader", getattr(source, parser))
        read.append([source.read_source(path) for path in typical])
    assert read[0] == read[1]


def test_files_of_the_suite_fit_the_published_schema(typical):
    validators = {
        name: jsonschema.Draft202012Validator(kind.model_json_schema())
        for name, kind in {"clauses": m.Register, "lib": m.Fragment, "settings": m.Settings, "": m.Transcript}.items()
    }
    for path in (one for one in typical if one.relative_to(HOME).parts[0] in ("clauses", "transcripts")):
        kind = "clauses" if path.parent.name == "clauses" else path.relative_to(HOME / "transcripts").parts[0]
        validator = validators.get(kind, validators[""])
        assert [error.message for error in validator.iter_errors(read_text(path.read_text(), path.name).data)] == [], path.name
    jsonschema.Draft202012Validator.check_schema(log.json_schema())
