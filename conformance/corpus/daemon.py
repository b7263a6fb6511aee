"""The process that Spark's workers are forked from on this machine: what it has imported, they need not import again, each for itself.

What is imported here must not leave threads that a worker would miss. `tests/corpus/test_session.py` looks at those that there are.
"""

import pandas  # noqa: F401 -- pyarrow imports it as soon as it makes an array
import pyarrow.compute  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import refimpl.broker
import refimpl.client  # noqa: F401

if __name__ == "__main__":
    manager()
