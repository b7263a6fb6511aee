"""Captures: the bytes of connections, as event logs of this suite or as raw files, and the frames in them.

rows   one frame, or one piece that is not a frame, as a row; a stream cut into such rows at the borders of frames
logs   recordings and `events.jsonl`
raw    a folder with `index.jsonl` and one file of bytes for each connection and direction
packets, connections
       captures of packets, pcap and pcapng: their TCP segments, and the frames in the connections that these are of
flows  the index of a folder that `tcpflow` wrote

Nothing here needs Spark.
"""

from conformance.corpus.captures.connections import packet_rows
from conformance.corpus.captures.flows import index_flows
from conformance.corpus.captures.logs import log_rows
from conformance.corpus.captures.raw import INDEX, Entry, Written, borders, part_rows, read_index, write_capture
from conformance.corpus.captures.rows import MAX_FRAME_SIZE, FrameRow, Origin, Stream, defect_class

__all__ = [
    "INDEX",
    "MAX_FRAME_SIZE",
    "Entry",
    "FrameRow",
    "Origin",
    "Stream",
    "Written",
    "borders",
    "defect_class",
    "index_flows",
    "log_rows",
    "packet_rows",
    "part_rows",
    "read_index",
    "write_capture",
]
