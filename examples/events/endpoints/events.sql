/*
summary = "Payment events after an event number"
body    = { events = "$rows" }
key     = ["eventNo"]
# One writer books the events, in the order of their numbers.
follow  = { commits = "ordered" }
[params]
lastEventNo = { type = "integer", default = 0, summary = "the last number you have" }
maxEvents   = { type = "integer", optional = true, min = 1 }
*/
select event_no as "eventNo", paymt_status as "paymentStatus",
       status_chg_rsn as "statusChangeReason", status_chg_date as "statusChanged"
from payment_event
where event_no > :lastEventNo
order by event_no
limit :maxEvents
