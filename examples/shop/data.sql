-- A small shop, and readings of its cold stores. SQLite and PostgreSQL read this file alike.

create table customer (
  id   integer primary key,
  name text not null,
  city text not null
);

create table orders (
  id          integer primary key,
  customer_id integer not null references customer,
  status      text not null,
  total       numeric(10,2) not null,
  placed      timestamptz not null
);

create index orders_of_customer on orders (customer_id, id);

create table reading (
  id      integer primary key,
  sensor  integer not null,
  celsius integer not null
);

insert into customer values
  (1, 'Ada', 'Basel'),
  (2, 'Grace', 'Bern'),
  (3, 'Edsger', 'Basel'),
  (4, 'Barbara', 'Chur');

insert into orders values
  (1, 1, 'SENT', 24.95, '2026-03-01 09:00:00Z'),
  (2, 2, 'SENT', 129.99, '2026-03-01 09:12:30Z'),
  (3, 1, 'PAID', 7.25, '2026-03-01 10:40:00Z'),
  (4, 3, 'OPEN', 58.15, '2026-03-02 08:05:00Z'),
  (5, 2, 'OPEN', 12.45, '2026-03-02 08:30:00Z'),
  (6, 1, 'PAID', 310.75, '2026-03-02 17:59:59Z'),
  (7, 3, 'OPEN', 4.95, '2026-03-03 07:15:00Z');

with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000)
insert into reading
select i, 1 + i % 8, i * 37 % 13 - 8
from n;
