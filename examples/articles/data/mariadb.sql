-- 100,000 articles, made by arithmetic alone: postgres.sql makes the same rows.
-- Drafts have no date of publication, and some have no teaser.

-- Strings, names and `||` as in standard SQL.
set names utf8mb4, time_zone = '+00:00', sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,STRICT_TRANS_TABLES';

create table article (
  id        bigint primary key,
  title     text not null,
  author    text not null,
  section   text not null,
  published timestamp(6) null default null,
  words     integer not null,
  teaser    text
);

insert into article
with
n(i) as (select seq from seq_1_to_100000),
-- Three numbers below a million that look like chance, and are none.
q(i, a, b, c) as (
  select i,
         (i * i * 3 + i * 7919 + 5) % 999983,
         (i * i * 7 + i * 104729 + 11) % 999979,
         (i * i * 13 + i * 1299709 + 17) % 999961
  from n
),
subject(k, text) as (values
  (0, 'Back-pressure'), (1, 'A million rows'), (2, 'The quiet database'), (3, 'Streaming JSON'), (4, 'Cursors'),
  (5, 'Tail latency'), (6, 'The last byte'), (7, 'Indexes'), (8, 'Conway''s law'), (9, 'Zürich'), (10, 'São Paulo'),
  (11, 'Cafés'), (12, 'Naïve retries'), (13, '"Exactly once"'), (14, 'Postgres'), (15, 'A read replica'),
  (16, 'The wire protocol'), (17, 'Unicode'), (18, 'Schema changes'), (19, 'Half an answer')
),
ending(k, text) as (values
  (0, 'explained'), (1, 'in practice'), (2, 'at scale'), (3, 'considered harmful'), (4, 'for the impatient'),
  (5, 'revisited'), (6, 'without tears'), (7, 'from first principles'), (8, 'in 10 minutes'), (9, '– a field report'),
  (10, 'and what we learned'), (11, 'beyond "hello, world"'), (12, 'on one machine'), (13, 'for beginners'),
  (14, '& friends')
),
author(k, name) as (values
  (0, 'Anna Müller'), (1, 'James O''Brien'), (2, 'María García'), (3, '王伟'), (4, 'Sophie Dubois'), (5, 'David Kim'),
  (6, 'Fatima Haddad'), (7, 'Jürgen Nußbaum'), (8, 'Zoë de Vries'), (9, 'Łukasz Wójcik'), (10, 'Søren Jensen'),
  (11, 'Raj Patel')
),
section(k, name) as (values
  (0, 'engineering'), (1, 'data'), (2, 'culture'), (3, 'science'), (4, 'travel'), (5, 'opinion')
),
teaser(k, text) as (values
  (0, 'Rows are lent, not copied; what is copied is paid for twice.'),
  (1, 'We measured first, and it wasn''t what we had expected.'),
  (2, 'Das erste Byte kommt früh, das letzte kommt sicher.'),
  (3, '“It works on my machine” is a statement about the machine.'),
  (4, 'A path such as C:\data\rows needs no escape in SQL, and two in JSON.'),
  (5, 'Les données arrivent au fil de l''eau.'), (6, 'Nothing is as slow as a query that runs twice.'),
  (7, 'Nobody reads the manual; everybody reads the error.')
)
select i, subject.text || ' ' || ending.text, author.name, section.name,
       case when c % 17 = 0 then null else timestamp '1970-01-01 00:00:00' + interval (1420070400 + i * 3600 + a % 3600) second end,
       (b % 1000 * (b div 1000) div 400 + 120),
       case when a % 13 = 0 then null else teaser.text end
from q
left join subject on subject.k = a % 20
left join ending on ending.k = b % 15
left join author on author.k = (c % 1000) * (c div 1000) * 12 div 1000000
left join section on section.k = (b % 1000) * (b div 1000) * 6 div 1000000
left join teaser on teaser.k = (a + c) % 8
order by i;

analyze table article;
