-- 100,000 orders, as sqlite.sql makes them.
create table orders (id integer primary key, customer text not null, cents integer not null);
insert into orders select id, 'customer ' || (id * 7919 % 5000), id * 104729 % 100000
from generate_series(1, 100000::bigint) id;
