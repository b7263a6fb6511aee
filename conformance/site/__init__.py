"""The reference pages of the site, as Markdown: made from registers, transcripts, recordings, baselines and docstrings.

Nothing here knows how a site is built, but for `hooks`, which hands the pages to mkdocs. No page is kept: each build makes them anew.
"""
