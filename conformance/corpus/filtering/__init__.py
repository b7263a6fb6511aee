"""The filters of PIP-145, PR 25648 and PR 7629 on millions of rows, each rule in three formulations.

patterns        sets of patterns: reading, checking, and their properties
drawing         patterns drawn from the names of a corpus, with common mistakes
dialect         where all formulations agree, and where they differ
rules           the rules, as values
reference       the rules as the reference has them, row by row
sql             as Spark SQL expressions
arrow           with pyarrow's kernels, and google-re2 for large sets of patterns
formulations    the formulations by name
comparing       disagreements, counted by class
laws            what has to hold of them
shrinking       disagreements, made as small as possible
checksums       CRC32C of a whole from those of its parts
hashes          topics_hash of namespaces with millions of topics
costs           bytes on the wire, with and without filter and hash
rare            what can become cases of the disagreements
rows            the rows that the jobs read
"""
