create table readings using parquet location 'lake/readings' as
select id,
       concat('sensor-', id % 100) as sensor,
       timestamp_seconds(1767225600 + id) as taken,
       cast(id * 7919 % 6000 as decimal(6, 2)) / 100 - 20 as celsius
from range(0, 10000000, 1, 8)
