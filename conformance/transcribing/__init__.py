"""Recorded conversations as transcripts: what a client sent is what the suite sends, what the broker answered is what it expects.

recorded   a capture -> the frames of a conversation, without what is background; what can't be transcribed is refused here
requests   which request each answer is for
causes     after which action each frame of the broker comes, and what the administration must have done
named      names, ids and hashes of the capture -> variables
payloads   payloads, sent and expected
cited      which clause speaks of a frame
written    all of it -> the YAML of a transcript

Nothing here has a socket or a clock. The order is that of causes, not of times: each action is followed by what it causes.
"""

from conformance.transcribing.recorded import Conversation, TranscribeProblem, read_conversation
from conformance.transcribing.written import transcribe

__all__ = ["Conversation", "TranscribeProblem", "read_conversation", "transcribe"]
