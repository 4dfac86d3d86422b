/*
summary = "All readings of all sensors, in the order in which the cluster reads the files"
*/
select id, sensor, taken, celsius
from parquet.`lake/readings`
