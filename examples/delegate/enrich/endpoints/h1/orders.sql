/*
summary = "Orders, each with what the upstream says of it"
[enrich.reply]
source      = "http1"
request     = "GET /demo?processDuration=PT0.001S&id={id}"
concurrency = 64
*/
select id, customer, cents from orders order by id
