"""Sockets, the event loop and the clock, which only this package uses: it does the I/O for the broker and the client."""
