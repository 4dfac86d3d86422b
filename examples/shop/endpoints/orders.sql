/*
summary = "Orders, the oldest first"
body    = { orders = "$rows", next = "$next" }
key     = ["id"]
[params]
status = { type = "text", enum = ["OPEN", "PAID", "SENT"], optional = true }
n      = { type = "integer", default = 100, min = 1, max = 1000, summary = "orders of a page" }
*/
select id, customer_id, status, total, placed
from orders
where :status is null or status = :status
order by id
limit :n
