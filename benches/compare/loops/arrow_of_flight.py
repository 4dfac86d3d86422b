"""The floor of Arrow Flight SQL: a loop over the batches of a statement.
`arrow_of_flight.py URI SQL` prints how many rows there were."""

import sys

import adbc_driver_flightsql.dbapi as flight

with flight.connect(sys.argv[1], autocommit=True) as connection, connection.cursor() as cursor:
    cursor.execute(sys.argv[2])
    print(sum(batch.num_rows for batch in cursor.fetch_record_batch()))
