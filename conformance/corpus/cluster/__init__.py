"""A standalone Spark cluster on the loopback, and the packed environment that its workers run in.

It makes the same demands on a job as a real cluster, on one machine.
"""

from conformance.corpus.session import end_without_packages

end_without_packages()
