-- 100,000 orders; postgres.sql and mariadb.sql make the same ones.
create table orders (id integer primary key, customer text not null, cents integer not null);
with recursive numbers (id) as (select 1 union all select id + 1 from numbers where id < 100000)
insert into orders select id, 'customer ' || (id * 7919 % 5000), id * 104729 % 100000 from numbers;
