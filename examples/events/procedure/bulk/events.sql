/*
summary = "Payment events after an event number, by a stored procedure"
body    = { events = "$rows" }
[params]
lastEventNo = { type = "integer", default = 0, summary = "the last number you have" }
maxEvents   = { type = "integer", optional = true, min = 1 }
*/
-- The last argument is where the procedure puts its cursor: its rows are the answer.
call bulk_get_events(:lastEventNo, :maxEvents, null)
