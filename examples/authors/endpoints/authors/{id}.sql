/*
summary = "One author"
result  = "one"
[params]
id = { type = "integer", summary = "the author's number, 1 to 100000" }
*/
select id, first_name as "firstName", last_name as "lastName", email, born, country, active, books, royalties, motto,
       joined
from author
where id = :id
