"""Captures: the bytes of connections, as event logs of this suite or as raw files, and the frames in them.

rows   one frame, or one piece that is not a frame, as a row; a stream cut into such rows at the borders of frames
logs   recordings and `events.jsonl`
raw    a folder with `index.jsonl` and one file of bytes for each connection and direction
times  beside such a file, when its bytes came
recording
       a raw capture that is written while it comes
packets, connections
       captures of packets, pcap and pcapng: their TCP segments, and the frames in the connections that these are of
causes what each side of a connection knew when it spoke
flows  the index of a folder that `tcpflow` wrote
places what can be read under a path, and what is wrong with it as a whole

Nothing here needs Spark.
"""

from conformance.captures.connections import packet_rows
from conformance.captures.errors import CaptureError
from conformance.captures.flows import index_flows
from conformance.captures.logs import log_rows
from conformance.captures.places import RECORDINGS, Piece, capture_path, check_capture, find_pieces, unread_files
from conformance.captures.raw import INDEX, Entry, Written, borders, part_rows, read_index, write_capture
from conformance.captures.rows import MAX_FRAME_SIZE, FrameRow, Origin, Stream, defect_class

__all__ = [
    "INDEX",
    "MAX_FRAME_SIZE",
    "RECORDINGS",
    "CaptureError",
    "Entry",
    "FrameRow",
    "Origin",
    "Piece",
    "Stream",
    "Written",
    "borders",
    "capture_path",
    "check_capture",
    "defect_class",
    "find_pieces",
    "index_flows",
    "log_rows",
    "packet_rows",
    "part_rows",
    "read_index",
    "unread_files",
    "write_capture",
]
