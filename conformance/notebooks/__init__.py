"""Helpers of the notebooks: frames, tables, diagrams and plots that fit light and dark pages and are always the same.

Every function returns a `Shown`, which a notebook displays as HTML and keeps as plain text too. `conformance.notebooks.build`
executes the notebooks and brings them into their normal form.
"""

from conformance.notebooks.diagrams import said, sequence
from conformance.notebooks.duties import all_cases, duties, registered, to_implement
from conformance.notebooks.hexdump import frame, framed, hexdump
from conformance.notebooks.recorded import Recorded
from conformance.notebooks.shown import Shown, attempt, table
from conformance.notebooks.state_diagram import states

__all__ = [
    "Recorded",
    "Shown",
    "all_cases",
    "attempt",
    "duties",
    "frame",
    "framed",
    "hexdump",
    "registered",
    "said",
    "sequence",
    "states",
    "table",
    "to_implement",
]
