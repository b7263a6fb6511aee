"""The only rooms with sockets, an event loop and a clock: they carry bytes and time to the broker and the client, and back."""
