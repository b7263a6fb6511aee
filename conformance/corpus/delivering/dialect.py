r"""What readers of JSON read differently, so that filters on it can't be compared.

The reference reads JSON with Python's `json`, the columns with Spark's parser, which is Jackson. Both refuse NaN, leading zeros, commas at
the end, comments, control characters, a byte order mark, and whatever follows the object; of a repeated key both take the last value. They
differ where one of them has a limit, and on halves of characters. An entry with such a payload is counted, not compared. So is one with
an Avro record whose union has a negative branch, or with a number that is too long, see `avro`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as sql

END = "the text ends here"
"""Put behind a text before it is parsed; a text that has it is outside."""
_LONG = 400
"""A shorter text has neither a long number, nor a long name, nor deep nesting."""
_HALVES = r"(?i)\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f])|(?<!\\ud[89ab][0-9a-f]{2})\\ud[c-f]"


def json_classes(text: Column) -> Mapping[str, Column]:
    """Tell of a text whether it is outside, by class.

    large             Jackson refuses texts of more than 20,000,000 characters in one piece
    half a character  Jackson refuses the escape of a surrogate that is alone
    long number       Jackson refuses numbers of more than 1,000 characters
    long name         Jackson refuses names of more than 50,000 characters
    deep nesting      Python gives up somewhat below 1,000 levels, Jackson at 1,000, and Java's stack may end between; all texts with more
                      than 400 brackets are outside
    the end           what marks the end of a text is in it
    """
    long = sql.length(text) > _LONG
    return {
        "large": sql.length(text) > 19_000_000,
        "half a character": sql.contains(text, sql.lit("\\u")) & text.rlike(_HALVES),
        "long number": long & text.rlike(r"[0-9.eE+-]{900}"),
        "long name": long & text.rlike(r'"[^"]{49000,}+"\s*:'),
        "deep nesting": long & (sql.length(text) - sql.length(sql.translate(text, "{[", "")) > _LONG),
        "the end": sql.contains(text, sql.lit(END)),
    }


def may_be_json(payload: Column) -> Column:
    """Tell whether a payload may be a JSON object."""
    text = payload.cast("string")
    return sql.is_valid_utf8(text) & text.rlike(r"^\s*\{")


def json_outside(payload: Column) -> Column:
    """Tell whether a payload may be a JSON object that readers read differently."""
    return may_be_json(payload) & reduce(or_, json_classes(payload.cast("string")).values())
