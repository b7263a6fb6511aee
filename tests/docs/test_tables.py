"""Tables on narrow screens: long names can break, and rows say which column a cell belongs to."""

import pytest

from conformance.site.families import FAMILIES
from conformance.site.tables import breakable, readable


def a_table(heads, *rows):
    head = "".join(f"<th>{one}</th>" for one in heads)
    body = "".join("<tr>" + "".join(f"<td>{one}</td>" for one in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


@pytest.mark.parametrize(
    ("html", "shown"),
    [
        ("a.b/c", "a.b/c"),
        ("<code>pip145.watch.unicode</code>", "<code>pip145.<wbr>watch.<wbr>unicode</code>"),
        ("enableBrokerSideEvaluation=false", "enable<wbr>Broker<wbr>Side<wbr>Evaluation=<wbr>false"),
        ('<a href="../a/very/long/address.html">it</a>', '<a href="../a/very/long/address.html">it</a>'),
        ("some words and &quot;a.b&quot; here", "some words and &quot;a.b&quot; here"),
        ("https://example.org/", "https://<wbr>example.<wbr>org/"),
    ],
)
def test_long_names_break_at_their_joints(html, shown):
    assert breakable(html) == shown


def test_a_row_of_a_wide_table_names_its_columns():
    wide = readable(a_table(["client", "a &amp; b", "how", "why"], ["Go", "<b>x</b>", "", "because it is so"]))
    assert wide.startswith("<table data-rows>")
    assert '<td>Go</td><td data-of="a &amp; b"><b>x</b></td><td></td><td data-of="why">because it is so</td>' in wide


@pytest.mark.parametrize(
    ("heads", "row"),
    [
        (["a", "b", "c"], ["1", "2", "a long text of three columns"]),
        (["flow", "Java", "Go", "Rust"], ["A flow with a long name", "yes", "yes", "–"]),
    ],
)
def test_a_table_that_finds_room_stays_one(heads, row):
    assert readable(a_table(heads, row)) == a_table(heads, row)


def test_each_family_of_clauses_has_its_words(sources):
    """Words for a new one belong into conformance/site/families.py."""
    assert set(FAMILIES) == {family for register in sources.registers for family in sources.families(register)}
