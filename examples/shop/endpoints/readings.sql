/*
summary = "Readings of the cold stores"
key     = ["id"]
filter  = ["id", "sensor", "celsius"]
sort    = ["celsius"]
select  = true
total   = true
*/
select id, sensor, celsius from reading order by id
