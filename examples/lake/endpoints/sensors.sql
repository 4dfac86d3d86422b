/*
summary = "What each sensor has measured, computed by the cluster"
body    = { sensors = "$rows" }
*/
select sensor, count(*) as readings, min(celsius) as lowest, max(celsius) as highest
from parquet.`lake/readings`
group by sensor
order by sensor
