/*
summary = "One order"
result  = "one"
[params]
id = "integer"
*/
select id, customer_id, status, total, placed from orders where id = :id
