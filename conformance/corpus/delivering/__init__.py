"""Filters over entries (PR 7629, and the entry filter of PIP-191): what a broker sends to each of several subscriptions, and what that
saves.

subscriptions  what consumers ask for
stored         entries as a broker has them: some encrypted, markers, damaged, or acknowledged in part
reference      the whole rule as the reference's broker has it, entry by entry
columns        the same in columns: read by a path of its own, judged by SQL
dialect        JSON that readers read differently, which is not compared
avro           fields of Avro records, a column at a time
laws           the laws of both
savings        bytes and permits that filters save
"""
