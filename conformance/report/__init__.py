"""Formats for people and tools: terminal, JUnit, HTML, matrix, badge. All are made from one `Report`."""
