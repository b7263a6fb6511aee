"""The rules of each proposal, one module per proposal; no sockets, clocks, threads or stores."""
