"""Names and messages of users: Parquet and text, looked at before a job begins, so that what is wrong is told by file, row and column.

rows      what must hold in each row, whatever it was read from
parquet   Parquet: columns and types first, then the rows
names     names of topics, short or full
text      names, one on each line; topics and messages as JSON, one on each line

Nothing here needs Spark.
"""
