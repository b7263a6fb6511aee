"""A dictionary of dictionaries without empty ones."""

from refimpl.indexes.nested import Nested


def test_values_are_found_under_both_keys_and_empty_dictionaries_disappear() -> None:
    watchers: Nested[str, int, str] = Nested()
    watchers.put("a", 2, "x")
    watchers.put("a", 1, "y")
    watchers.put("b", 1, "z")
    assert (watchers.find("a", 1), watchers.find("a", 3), watchers.find("c", 1)) == ("y", None, None)
    assert (watchers.keys_in("a"), watchers.keys_in("c")) == ((2, 1), ())
    assert (watchers.count("a"), watchers.count("c")) == (2, 0)
    assert (watchers.take("a", 2), watchers.take("a", 2), watchers.take("c", 2)) == ("x", None, None)
    assert watchers.take("b", 1) == "z"
    assert watchers == {"a": {1: "y"}}
