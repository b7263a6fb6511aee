"""The rule that annotated lines cover all bytes, each once."""

from refimpl.wire import annotate


def tiles(data):
    place = 0
    for line in annotate(data):
        assert line.offset == place
        shown = line.hex.removesuffix("..")
        assert data[place:].hex().startswith(shown)
        assert len(shown) == 2 * line.size or (len(shown) == 64 and line.hex.endswith(".."))
        place += line.size
    assert place == len(data)
