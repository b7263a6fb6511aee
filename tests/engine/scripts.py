"""A case, and frames, of which the tests of verdicts make their logs."""

PING, PONG = {"ping": {}}, {"pong": {}}


def success(number):
    return {"success": {"request_id": number}}


def update(*, new=(), gone=(), topics_hash="00000000", watcher=7):
    return {"watchTopicUpdate": {"watcher_id": watcher, "new_topics": list(new), "deleted_topics": list(gone), "topics_hash": topics_hash}}


ASK = """
steps:
  - client: {watchTopicListClose: {request_id: {$bind: r, example: 5}, watcher_id: 1}}
  - broker: {success: {request_id: $r}}
    clause: test.two
"""
