/*
summary = "All authors, in the order of their numbers"
key     = ["id"]
*/
select id, first_name as "firstName", last_name as "lastName", email, born, country, active, books, royalties, motto,
       joined
from author
order by id
