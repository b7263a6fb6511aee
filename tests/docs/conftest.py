"""All generated pages, made once."""

from __future__ import annotations

import pytest

from conformance.site.book import pages
from conformance.site.markup import Page
from conformance.site.sources import Sources, load_sources


@pytest.fixture(scope="session")
def sources() -> Sources:
    return load_sources()


@pytest.fixture(scope="session")
def made(sources: Sources) -> list[Page]:
    return pages(sources)


@pytest.fixture(scope="session")
def generated(made: list[Page]) -> dict[str, Page]:
    return {page.path: page for page in made}
