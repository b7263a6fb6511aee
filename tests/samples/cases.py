"""Cases that several tests run."""

OWN_NAMESPACE = """\
format: 1
id: test/own
title: it has a namespace of its own
tests: [broker]
clauses: [test.pong]
vars: {ns: {$fresh: namespace}}
ambient: []
matrix: {number: [1, 2, 3, 4]}
steps:
  - admin: {create_topic: "persistent://${ns}/t"}
  - open: c
  - client: {ping: {}}
  - broker: {pong: {}}
    within: 20
end: none
"""
