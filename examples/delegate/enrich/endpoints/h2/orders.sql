/*
summary = "Orders, each with what the upstream says of it"
[params]
max = { type = "integer", optional = true, min = 1, summary = "how many of them at most" }
[enrich.reply]
source      = "http2"
request     = "GET /demo?processDuration=PT0.001S&id={id}"
concurrency = 64
*/
select id, customer, cents from orders order by id limit :max
