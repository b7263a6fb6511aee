"""The only package with sockets, an event loop and a clock: it carries bytes and time to the broker and the client, and back."""
