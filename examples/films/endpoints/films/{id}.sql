/*
summary = "The title of one film"
result  = "one"
[params]
id = { type = "integer", summary = "the film's number, 1 to 1000" }
*/
select title from film where fid = :id
