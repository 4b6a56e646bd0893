"""Data: where rows are, how they are read, and how they are stored.

rows
    Rows in memory, dense or CSR, as kernels see them: `as_rows`, `row_dot`, `add_row`, ...
source
    Where the rows of a problem are, and the one way to make a pass over them.
store
    Data of any size packed into blocks on disk: `pack`, `open_store`.
svmlight, stream
    Text in svmlight format, read in parallel: all at once, or chunk by chunk.
generators
    Made-up data of any size, for examples, tests and benchmarks.
"""
