"""What notebooks show things with: right, safe in HTML, and the same every time."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from conformance.notebooks import Recorded, attempt, frame, framed, hexdump, plots, said, sequence, states, table
from refimpl.wire import WireError, command, decode_frame, encode_frame, line_notation

PING = encode_frame(command("ping"))


def svg_of(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(html[html.index("<svg") : html.index("</svg>") + 6])


def test_a_table_sets_numbers_to_the_right_and_escapes_text() -> None:
    shown = table(["name", "n"], [("<b>", 5), ("x", 12_345)], code=["name"])
    assert shown.text == "name       n\n----  ------\n<b>        5\nx     12,345"
    assert "<code>&lt;b&gt;</code>" in shown.html
    assert shown.html.count('<td class="n">') == 2


def test_a_table_says_yes_and_no() -> None:
    assert table(["a"], [(True,), (False,)]).text.splitlines()[2:] == ["yes", "no"]


def test_every_byte_of_a_frame_is_shown_with_its_meaning() -> None:
    shown = frame(PING, "PING")
    assert "00 00 00 09" in shown.html
    assert 'class="k-size"' in shown.html
    assert "type = PING (18)" in shown.text


def test_a_defect_has_a_tint_of_its_own() -> None:
    assert 'class="k-bad"' in frame(framed(PING[8:], command_size=9)).html


def test_long_frames_and_long_values_are_cut() -> None:
    topics = [f"persistent://public/default/{'<t>' * 50}{number}" for number in range(100)]
    shown = frame(encode_frame(command("getTopicsOfNamespaceResponse", request_id=1, topics=topics)))
    assert "more lines" in shown.text
    assert "<t>" not in shown.html
    assert len(shown.html) < 40_000


def test_bytes_explained_by_the_caller() -> None:
    shown = hexdump([(b"\x0e\x01", "the mark"), (bytes(4), "the checksum")], "checksum")
    assert shown.text == "checksum\n0000  0e01      the mark\n0002  00000000  the checksum"


@pytest.mark.parametrize(("total", "size"), [(None, None), (7, None), (None, 3), (0, 0)])
def test_framed_writes_the_sizes_it_is_given(total: int | None, size: int | None) -> None:
    made = framed(PING[8:], b"rest", total_size=total, command_size=size)
    assert int.from_bytes(made[:4], "big") == (13 if total is None else total)
    assert int.from_bytes(made[4:8], "big") == (5 if size is None else size)
    assert made[8:] == PING[8:] + b"rest"


def test_attempt_tells_results_and_reasons() -> None:
    assert attempt(decode_frame, PING) == "PING{}"
    assert attempt(lambda: [decode_frame(PING)]) == "[PING{}]"
    assert attempt(decode_frame, PING[:6]) == "refused, at byte 6: the frame is cut: 6 of 13 bytes"
    assert attempt(int, "x\n").startswith("refused, invalid literal")


def test_attempt_lets_other_errors_through() -> None:
    with pytest.raises(TypeError):
        attempt(decode_frame)


def test_a_sequence_names_both_sides() -> None:
    shown = sequence([said("out", PING, t=0.5), said("in", encode_frame(command("pong")))], title="<x>", client="old", broker="new")
    texts = [element.text for element in svg_of(shown.html).iter("{http://www.w3.org/2000/svg}text")]
    assert "old" in texts
    assert "new" in texts
    assert "PONG{}" in shown.text
    assert "&lt;x&gt;" in shown.html


def test_states_are_drawn_from_a_table() -> None:
    events = [
        ("idle", "open", "busy"),
        ("busy", "tick", "busy"),
        ("busy", "close", "idle"),
        ("idle", "end", "over"),
        ("busy", "end", "over"),
    ]
    shown = states(events, title="life")
    svg = svg_of(shown.html)
    space = "{http://www.w3.org/2000/svg}"
    assert len(list(svg.iter(f"{space}rect"))) == 3
    assert [element.text for element in svg.iter(f"{space}text")].count("↻ tick") == 1
    width = float(svg.attrib["width"])
    assert all(0 < float(element.attrib["x"]) < width for element in svg.iter(f"{space}text"))
    assert shown.text.splitlines()[1].split() == ["state", "event", "next"]


PLOTS = {
    "lines": lambda: plots.lines({"a": [(1, 10), (100, 3)], "b & c": [(1, 2)]}, x="size (bytes)", y="time (s)", title="a < b", log="xy"),
    "bars": lambda: plots.bars({"SEND": 36, "PING": 13}, x="bytes", title="sizes"),
    "log bars": lambda: plots.bars({"SEND": 36, "PING": 1}, x="bytes", log=True),
}


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_is_the_same_every_time(name: str) -> None:
    assert PLOTS[name]() == PLOTS[name]()


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_takes_the_colour_of_the_page_and_loads_nothing(name: str) -> None:
    shown = PLOTS[name]()
    svg_of(shown.html)
    assert "currentColor" in shown.html
    assert "#010203" not in shown.html
    assert "matplotlib" not in shown.html
    assert "http" not in shown.html.replace("http://www.w3.org/", "")
    assert "*{" not in shown.html


def test_a_plot_has_its_axes_labelled() -> None:
    shown = PLOTS["lines"]()
    texts = [element.text for element in svg_of(shown.html).iter("{http://www.w3.org/2000/svg}text")]
    assert {"size (bytes)", "time (s)", "a < b", "b & c", "100"} <= set(texts)
    assert shown.text.splitlines()[1].split() == ["line", "size", "(bytes)", "time", "(s)"]


def test_ids_of_a_plot_are_those_that_are_referred_to() -> None:
    html = PLOTS["lines"]().html
    ids = {element.attrib["id"] for element in svg_of(html).iter() if "id" in element.attrib}
    assert ids
    assert all(f"#{name}" in html for name in ids)


def test_recorded_releases_come_oldest_first() -> None:
    assert Recorded.releases() == ["2.10.5", "2.11.0", "3.0.7", "4.0.0", "4.2.4", "5.0.0-M1"]


def test_recorded_frames_are_found_by_type_case_and_number() -> None:
    real = Recorded()
    first = real.frame("SEND", "core/send/receipts")
    assert decode_frame(first).command.send.sequence_id == 0
    assert real.message("SEND", "core/send/receipts", 1).sequence_id == 1
    with pytest.raises(LookupError, match="no SEND number 0"):
        real.frame("SEND", "core/handshake/connected")


def test_recorded_frames_can_be_those_of_one_side() -> None:
    kinds = {line_notation(one.command).partition("{")[0] for one in Recorded().frames("core/handshake/connected", "broker")}
    assert kinds == {"CONNECTED", "PONG", "PARTITIONED_METADATA_RESPONSE"}
    assert not list(Recorded().frames("core/handshake/connected", without="core/hand*"))


def test_a_recorded_conversation_has_no_times_no_addresses_and_no_fence() -> None:
    rows = Recorded().conversation("core/deliver/content-batch", cell="LZ4")
    assert all(row.t is None for row in rows)
    assert not any("localhost" in row.rest or "default/fence" in row.rest for row in rows)
    assert any("pulsar://broker" in row.rest for row in rows)
    assert {row.at for row in rows} == {"p", "c"}
    assert {row.at for row in Recorded().conversation("core/deliver/content-batch", connections="p")} == {"p"}


def test_a_conversation_that_was_not_recorded_is_named() -> None:
    with pytest.raises(LookupError, match="core/no/such"):
        Recorded().conversation("core/no/such")


def test_reactions_tell_what_was_sent_last_and_what_became_of_the_connection() -> None:
    assert {reaction for _, _, reaction in Recorded().reactions("core/frame/too-large")} == {"ends the connection"}
    ((_, sent, reaction),) = Recorded().reactions("core/frame/trailing-octets")
    assert reaction == "stays"
    assert b"default/fence" not in sent


def test_exchanges_pair_requests_with_their_answers() -> None:
    pairs = set(Recorded().exchanges())
    assert ("PRODUCER", "PRODUCER_SUCCESS") in pairs
    assert ("LOOKUP", "PARTITIONED_METADATA_RESPONSE") not in pairs
    assert all(not request.endswith("_RESPONSE") for request, _ in pairs)


def test_malformed_recordings_are_left_out_of_frames() -> None:
    for one in Recorded().frames("core/frame/*"):
        try:
            decode_frame(one.data)
        except WireError as error:
            pytest.fail(str(error))
