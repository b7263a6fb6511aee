"""The Spark side: the rules of the proposals on millions of rows, their costs and savings, and rare cases.

sources    what is read: captures, the files of PySpark's own jars, synthetic topics and messages
filtering  match rule, hash and filters, as SQL expressions, as Arrow formulations and as the reference itself
batching   uniform batches, as window expressions and as the reference's own batcher
replay     logs of topic changes, replayed for many watchers
jobs       laws that hold on every row, as programs for `python -m` and `spark-submit`
notebooks  Spark for notebooks, started without output

Needs the extra `spark`, and Java 17 or newer. Nothing outside this package imports pyspark or pyarrow.
"""
