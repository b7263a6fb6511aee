"""A driver that breaks its protocol in the way that its argument names, from the first request of the given kind on: WAY [VERB]."""

import json
import os
import sys
import time

HELLO = {"protocol": 1, "client": "bad", "verbs": ["begin", "end", "consumer", "producer"], "capabilities": []}


def print_line(line: object) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main(way: str, verb: str = "consumer") -> None:
    for line in sys.stdin:
        request = json.loads(line)
        right = {"id": request["id"], "ok": True, "result": HELLO if request["do"] == "hello" else None}
        if request["do"] != verb or way == "lies":
            print_line(right)
        elif way == "crashes":
            print("no memory left", file=sys.stderr)
            os._exit(3)
        elif way == "hangs":
            time.sleep(3600)
        elif way == "garbage":
            sys.stdout.write("Connected to the broker!\n")
            sys.stdout.flush()
        elif way == "floods":
            while True:
                print_line({"event": "message", "detail": {"consumer": "c", "text": "x" * 1000}})
        elif way == "endless":
            while True:
                sys.stdout.write("x" * 65536)
        elif way == "another id":
            print_line({**right, "id": request["id"] + 1000})
        elif way == "newer":
            print_line({**right, "result": {**HELLO, "protocol": 2}})
        elif way == "unknown capability":
            print_line({**right, "result": {**HELLO, "capabilities": ["patern-hash"]}})
        elif way == "unsupported":
            print_line({"id": request["id"], "unsupported": "consumers"})
        elif way == "refuses":
            print_line({"id": request["id"], "error": "NullPointerException"})


if __name__ == "__main__":
    main(*sys.argv[1:])
