-- 1,000,000 payment events, made by arithmetic alone: postgres.sql makes the same rows.
-- A status has a reason when something went wrong, and none otherwise.

create table payment_event (
  event_no        integer primary key autoincrement,
  paymt_status    text not null,
  status_chg_rsn  text,
  status_chg_date timestamptz not null
);

with recursive
n(i) as (select 1 union all select i + 1 from n where i < 1000000),
-- Three numbers below a million that look like chance, and are none.
q(i, a, b, c) as (
  select i,
         (i * i * 3 + i * 7919 + 5) % 999983,
         (i * i * 7 + i * 104729 + 11) % 999979,
         (i * i * 13 + i * 1299709 + 17) % 999961
  from n
),
-- Of a hundred events, those from `low` to `high` have the status, for which there are so many reasons.
share(status, low, high, class, reasons) as (values
  ('SETTLED', 0, 33, 0, 1), ('AUTHORISED', 34, 52, 0, 1), ('CAPTURED', 53, 64, 0, 1), ('INITIATED', 65, 71, 0, 1),
  ('DECLINED', 72, 85, 1, 5), ('REFUNDED', 86, 92, 2, 3), ('CANCELLED', 93, 97, 3, 2), ('CHARGED_BACK', 98, 99, 4, 2)
),
reason(class, number, text) as (values
  (1, 0, 'insufficient funds'), (1, 1, 'card expired'), (1, 2, 'issuer''s answer: "do not honour"'),
  (1, 3, 'suspected fraud'), (1, 4, 'Limit überschritten'), (2, 0, 'goods returned'), (2, 1, 'price adjusted'),
  (2, 2, 'doppelt bezahlt'), (3, 0, 'cancelled by customer'), (3, 1, 'customer''s session timed out'),
  (4, 0, 'cardholder dispute'), (4, 1, 'goods not received')
)
insert into payment_event
select i, share.status, reason.text,
       strftime('%Y-%m-%d %H:%M:%S', 1704067200 + i * 31 + c % 31, 'unixepoch') || printf('.%06dZ', b)
-- Left joins, because SQLite would begin with the lists.
from q
left join share on q.a % 100 between share.low and share.high
left join reason on reason.class = share.class and reason.number = q.b % share.reasons;
