"""Logs of topic changes, replayed for many watchers (PIP-247 and PR 25648): the costs of polling and watching, and their delays.

changes     seeded logs and watchers
tally       what one watcher exchanged and when it knew; frames are encoded and measured
scalable    a watcher of scalable topics: polling, and diffs after a coalescing window
partitions  a watcher of partitioned topics: polling, and updates after a coalescing window
laws        what has to hold of each of them
spread      all watchers, divided over Spark

Times are milliseconds from the beginning of the log. Each frame takes a fixed latency; nothing is lost, and nobody reconnects.
"""
