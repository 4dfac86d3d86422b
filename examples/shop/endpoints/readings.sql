/*
summary = "Readings of the cold stores"
key     = ["id"]
*/
select id, sensor, celsius from reading order by id
