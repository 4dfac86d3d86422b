/*
summary = "Customers with their orders"
body    = { customers = "$customers", count = "$count(customers)" }
*/
-- name: customers :many
select id, name, city from customer order by id;

-- name: orders :many nested in customers on customer_id = id
select customer_id, id, total from orders order by customer_id, id;
