"""Laws as programs: `python -m conformance.corpus.jobs.NAME`, or the same file through `spark-submit`."""

from conformance.corpus.session import end_without_packages

end_without_packages()
