/*
summary = "Numbers; write your own endpoints beside it"
[params]
n = { type = "integer", default = 10, max = 1000000 }
*/
select generate_series(1, :n) as n
