"""The Spark side: the rules of the proposals on millions of rows, their costs and savings, and rare cases.

captures    streams of bytes, cut into frames; needs no Spark
sources     what is read: captures, the files of PySpark's own jars, synthetic topics and messages
corpora     the corpora by name, and the columns that all of them have; captured is what they take from captures
filtering   match rule, hash and filters, as SQL expressions, as Arrow formulations and as the reference itself
batching    uniform batches, as window expressions and as the reference's own batcher
replay      logs of topic changes, replayed for many watchers
round_trip  encoding what was decoded
jobs        laws that hold on every row, as programs for `python -m` and `spark-submit`; job is what they share
promotion   cases made of the rare rows that a job met
session     starts Spark; daemon is what its workers are forked from, notebooks starts it without output, cluster on several workers

Needs the extra `spark`, and Java 17 or newer. Nothing outside this package imports pyspark or pyarrow.
"""
