"""A standalone Spark cluster on the loopback, and the packed environment that its workers run in.

It is what a real cluster asks of a job, on one machine.
"""
