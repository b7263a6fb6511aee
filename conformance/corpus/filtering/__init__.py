"""The filters of PIP-145, PR 25648 and PR 7629 on millions of rows, each rule in three formulations.

patterns        sets of patterns: read, checked, and what is known of each
drawing         patterns drawn from the names of a corpus, with what people get wrong
dialect         in what all formulations agree, and where else they part
rules           the rules, as values
reference       the rules as the reference has them, row by row
sql             as Spark SQL expressions
arrow           with pyarrow's kernels, and google-re2 for large sets of patterns
formulations    any of them by name
comparing       disagreements, counted by class
shrinking       .. and made as small as they get
checksums       CRC32C of a whole from those of its parts
hashes          topics_hash of namespaces with millions of topics
costs           bytes on the wire, with and without filter and hash
corpora         the corpora that the jobs read
"""
