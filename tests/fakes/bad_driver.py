"""A driver that breaks its protocol in the way that its argument names, from the first request of the given kind on: WAY [VERB]."""

import json
import os
import subprocess
import sys
import time

HELLO = {
    "protocol": 1,
    "client": "bad",
    "verbs": ["begin", "end", "consumer", "producer"],
    "capabilities": ["pattern-consumers", "pattern-watch", "uniform-batches"],
}
LINES = {
    "not UTF-8": b'{"id": 3, "ok": true, "result": "\xff\xfe"}',
    "half a character": b'{"event": "message", "detail": {"text": "\\ud800"}}',
    "a list": b"[1, 2]",
    "deep": b"[" * 100_000,
    "deep detail": b'{"event": "x", "detail": {"a": ' + b"[" * 300 + b"]" * 300 + b"}}",
    "not a number": b'{"event": "x", "detail": {"a": NaN}}',
    "too many digits": b'{"event": "x", "detail": {"a": ' + b"9" * 9000 + b"}}",
    "half a line": b'{"id": 3, "ok": tr',
}
"""Lines that are no object of the protocol."""


def print_line(line: object) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main(way: str, verb: str = "consumer") -> None:
    if way == "leaves children":  # in a session of its own, with the pipes of the driver
        print(subprocess.Popen(["sleep", "3600"], start_new_session=True).pid, file=sys.stderr, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        right = {"id": request["id"], "ok": True, "result": HELLO if request["do"] == "hello" else None}
        if request["do"] != verb or way == "lies":
            print_line(right)
        elif way == "lies of ids":
            print_line({**right, "result": {"ids": ["1"] * len(request["texts"])}})
        elif way == "crashes":
            print("no memory left", file=sys.stderr)
            os._exit(3)
        elif way == "hangs":
            time.sleep(3600)
        elif way == "garbage":
            sys.stdout.write("Connected to the broker!\n")
            sys.stdout.flush()
        elif way in LINES:
            sys.stdout.buffer.write(LINES[way] + b"\n")
            sys.stdout.flush()
        elif way == "closes its output":
            os.close(1)
            time.sleep(3600)
        elif way == "floods with little":
            while True:
                sys.stdout.write('{"event": "x"}\n' * 1000)
        elif way == "floods its log":
            while True:
                os.write(2, b"something went wrong in the client\n" * 1000)
        elif way == "floods":
            while True:
                print_line({"event": "message", "detail": {"consumer": "c", "text": "x" * 1000}})
        elif way == "endless":
            while True:
                sys.stdout.write("x" * 65536)
        elif way == "another id":
            print_line({**right, "id": request["id"] + 1000})
        elif way == "answers twice":
            print_line({"id": request["id"], "ok": True, "result": {"client": "first"}})
            print_line(right)
        elif way == "newer":
            print_line({**right, "result": {**HELLO, "protocol": 2}})
        elif way == "newer, other words":
            print_line({**right, "result": {"protocol": 2, "name": "bad"}})
        elif way == "unknown capability":
            print_line({**right, "result": {**HELLO, "capabilities": ["patern-hash"]}})
        elif way == "unsupported":
            print_line({"id": request["id"], "unsupported": "consumers"})
        elif way == "refuses":
            print_line({"id": request["id"], "error": "NullPointerException"})


if __name__ == "__main__":
    main(*sys.argv[1:])
