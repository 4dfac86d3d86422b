/*
summary = "All films, in the order of their numbers"
key     = ["fid"]
*/
select fid, title, year, minutes, rating, language, released
from film
order by fid
