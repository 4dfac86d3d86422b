-- 100,000 orders, as sqlite.sql makes them.
create table orders (id integer primary key, customer text not null, cents integer not null);
insert into orders select seq, concat('customer ', seq * 7919 % 5000), seq * 104729 % 100000
from seq_1_to_100000;
