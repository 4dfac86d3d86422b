"""What DuckDB itself needs for its rows as Arrow: a loop over the batches of a statement, in the
process of DuckDB. `arrow_of_duckdb.py SQL` prints how many rows there were."""

import sys

import duckdb

print(sum(batch.num_rows for batch in duckdb.connect().execute(sys.argv[1]).to_arrow_reader()))
