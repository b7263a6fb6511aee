"""The transcript language: what a case says, how a log of events is matched against it, and the verdict; pure functions, without I/O."""
