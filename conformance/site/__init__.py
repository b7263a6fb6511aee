"""The reference pages of the site, as Markdown: made from registers, transcripts, recordings, baselines and docstrings.

Only `hooks` knows how a site is built: it passes the pages to mkdocs. No page is kept: each build makes them again.
"""
