-- 1,000 films, made by arithmetic alone: postgres.sql makes the same rows. Some have no rating.

-- Strings, names and `||` as in standard SQL.
set names utf8mb4, time_zone = '+00:00', sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,STRICT_TRANS_TABLES';

create table film (
  fid      bigint primary key,
  title    text not null,
  year     integer not null,
  minutes  integer not null,
  rating   double,
  language text not null,
  released date not null
);

insert into film
with
n(i) as (select seq from seq_1_to_1000),
-- Three numbers below a million that look like chance, and are none.
q(i, a, b, c) as (
  select i,
         (i * i * 3 + i * 7919 + 5) % 999983,
         (i * i * 7 + i * 104729 + 11) % 999979,
         (i * i * 13 + i * 1299709 + 17) % 999961
  from n
),
adjective(k, text) as (values
  (0, 'Silent'), (1, 'Crimson'), (2, 'Last'), (3, 'Hidden'), (4, 'Broken'), (5, 'Golden'), (6, 'Endless'),
  (7, 'Midnight'), (8, 'Wild'), (9, 'Forgotten'), (10, 'Electric'), (11, 'Paper'), (12, 'Frozen'), (13, 'Secret'),
  (14, 'Distant'), (15, 'Hollow'), (16, 'Burning'), (17, 'Gentle'), (18, 'Restless'), (19, 'Blue')
),
noun(k, text) as (values
  (0, 'Harbor'), (1, 'Summer'), (2, 'Orchard'), (3, 'Letter'), (4, 'Mirror'), (5, 'River'), (6, 'Carnival'),
  (7, 'Empire'), (8, 'Garden'), (9, 'Stranger'), (10, 'Train'), (11, 'Island'), (12, 'Shadow'), (13, 'Voyage'),
  (14, 'Clockmaker'), (15, 'Echo'), (16, 'Horizon'), (17, 'Sparrow'), (18, 'Café'), (19, 'Señorita'),
  (20, 'Fräulein'), (21, 'Détour'), (22, 'Fisherman''s Daughter'), (23, 'Moon'), (24, 'Cathedral')
),
ending(k, text) as (values
  (0, ''), (1, ''), (2, ''), (3, ' of Kraków'), (4, ' & the Sea'), (5, ': Part II'), (6, ' – "Director''s Cut"'),
  (7, ' in São Paulo'), (8, ' at Dawn'), (9, '')
),
language(k, code) as (values
  (0, 'en'), (1, 'fr'), (2, 'de'), (3, 'es'), (4, 'ja'), (5, 'it'), (6, 'pt'), (7, 'pl')
)
select i, 'The ' || adjective.text || ' ' || noun.text || ending.text,
       extract(year from date '1948-03-01' + interval (b % 27500) day),
       (a % 110 + 71),
       case when a % 19 = 0 then null else (c % 80 + 20) / 10.0 end,
       language.code,
       date '1948-03-01' + interval (b % 27500) day
from q
left join adjective on adjective.k = a % 20
left join noun on noun.k = b % 25
left join ending on ending.k = c % 10
left join language on language.k = (c % 1000) * (c div 1000) * 8 div 1000000
order by i;

analyze table film;
