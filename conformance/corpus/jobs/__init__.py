"""Laws as programs: `python -m conformance.corpus.jobs.NAME`, or the same file through `spark-submit`."""
