"""Pages made from templates: style and script inlined, everything escaped, nothing loaded from anywhere."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from conformance.report.sequence import STYLE
from conformance.report.views import anchor
from conformance.report.wording import clean, number_of, one_line, section_words

_HOME: Final = Path(__file__).parent / "templates"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HOME), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(clean=clean, line=one_line)
    environment.globals.update(anchor=anchor, number_of=number_of, section_words=section_words)
    return environment


def page(template: str, **values: Any) -> str:
    """Render one of the templates.

    Args:
        template: Its file name.
        values: The values in it; all of them are escaped.
    """
    style = STYLE + "\n" + (_HOME / "report.css").read_text(encoding="utf-8")
    script = (_HOME / "report.js").read_text(encoding="utf-8").strip()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    # Both come from this package and contain no data of a report.
    own = {"style": Markup(style), "script": Markup(script), "policy": policy}
    return _environment().get_template(template).render(**own, **values)


def fragment(template: str, **values: Any) -> str:
    """Render a template that is a part of a page.

    Args:
        template: Its file name.
        values: The values in it; all of them are escaped.
    """
    return _environment().get_template(template).render(**values).strip()
