/*
summary = "Orders as they come"
key     = ["id"]
# One program writes the orders, in the order of their numbers.
follow  = { commits = "ordered" }
*/
select id, customer_id, status, total, placed from orders order by id
