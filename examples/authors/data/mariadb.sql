-- 100,000 authors, made by arithmetic alone: postgres.sql makes the same rows. Some have no e-mail,
-- no date of birth or no motto; names and mottos need more than ASCII, and have quotes.

-- Strings, names and `||` as in standard SQL.
set names utf8mb4, time_zone = '+00:00', sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,STRICT_TRANS_TABLES';

create table author (
  id         bigint primary key,
  first_name text not null,
  last_name  text not null,
  email      text,
  born       date,
  country    text not null,
  -- A boolean is a number there, 0 or 1; this is true or false.
  active     json not null,
  books      integer not null,
  royalties  double not null,
  motto      text,
  joined     timestamp(6) not null
);

insert into author
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
first(k, name, ascii) as (values
  (0, 'Anna', 'anna'), (1, 'James', 'james'), (2, 'Maria', 'maria'), (3, 'Wei', 'wei'), (4, 'Sophie', 'sophie'),
  (5, 'David', 'david'), (6, 'Fatima', 'fatima'), (7, 'Jürgen', 'juergen'), (8, 'Olivia', 'olivia'),
  (9, 'Carlos', 'carlos'), (10, 'Yuki', 'yuki'), (11, 'Zoë', 'zoe'), (12, 'Thomas', 'thomas'), (13, 'Aisha', 'aisha'),
  (14, 'Peter', 'peter'), (15, 'Ingrid', 'ingrid'), (16, 'José', 'jose'), (17, 'Emma', 'emma'),
  (18, 'Łukasz', 'lukasz'), (19, 'Chloé', 'chloe'), (20, 'Raj', 'raj'), (21, 'Nora', 'nora'), (22, 'Søren', 'soeren'),
  (23, 'Elif', 'elif'), (24, 'Hannah', 'hannah'), (25, 'Mikhail', 'mikhail'), (26, 'Ayşe', 'ayse'),
  (27, 'Liam', 'liam'), (28, 'Beatriz', 'beatriz'), (29, 'Björn', 'bjoern'), (30, 'Grace', 'grace'),
  (31, 'Andrei', 'andrei'), (32, 'Noémie', 'noemie'), (33, 'Kwame', 'kwame'), (34, 'Tomáš', 'tomas'),
  (35, 'Priya', 'priya'), (36, 'Oisín', 'oisin'), (37, 'Dagný', 'dagny'), (38, 'Mei-Ling', 'mei-ling'),
  (39, 'Ñusta', 'nusta'), (40, 'Дмитрий', 'dmitri'), (41, 'Ελένη', 'eleni'), (42, '明子', 'akiko'),
  (43, '서연', 'seoyeon')
),
last(k, name, ascii) as (values
  (0, 'Smith', 'smith'), (1, 'Müller', 'mueller'), (2, 'García', 'garcia'), (3, 'Wang', 'wang'),
  (4, 'Johnson', 'johnson'), (5, 'Silva', 'silva'), (6, 'Nguyen', 'nguyen'), (7, 'Kowalski', 'kowalski'),
  (8, 'O''Brien', 'obrien'), (9, 'Rossi', 'rossi'), (10, 'Andersson', 'andersson'), (11, 'Kim', 'kim'),
  (12, 'Dubois', 'dubois'), (13, 'Yılmaz', 'yilmaz'), (14, 'Patel', 'patel'), (15, 'Ivanova', 'ivanova'),
  (16, 'Brown', 'brown'), (17, 'Fernández', 'fernandez'), (18, 'de Vries', 'devries'), (19, 'Jensen', 'jensen'),
  (20, 'D''Angelo', 'dangelo'), (21, 'Tanaka', 'tanaka'), (22, 'Novák', 'novak'), (23, 'Okafor', 'okafor'),
  (24, 'Schmidt', 'schmidt'), (25, 'Martin', 'martin'), (26, 'Papadopoulos', 'papadopoulos'),
  (27, 'Haddad', 'haddad'), (28, 'Lindström', 'lindstroem'), (29, 'MacLeod', 'macleod'),
  (30, 'Ångström', 'angstroem'), (31, 'Nagy', 'nagy'), (32, 'Çelik', 'celik'), (33, 'van der Berg', 'vanderberg'),
  (34, 'Öztürk', 'oeztuerk'), (35, 'Þórsdóttir', 'thorsdottir'), (36, 'Mbeki', 'mbeki'), (37, 'Cohen', 'cohen'),
  (38, 'Wójcik', 'wojcik'), (39, 'Ibáñez', 'ibanez'), (40, 'Løvgren', 'loevgren'), (41, 'Nußbaum', 'nussbaum'),
  (42, 'Горбунов', 'gorbunov'), (43, 'Νικολάου', 'nikolaou'), (44, '山田', 'yamada'),
  (45, 'Fitzgerald-Montgomery', 'fitzgerald-montgomery')
),
country(k, code) as (values
  (0, 'US'), (1, 'CN'), (2, 'DE'), (3, 'IN'), (4, 'BR'), (5, 'GB'), (6, 'FR'), (7, 'JP'), (8, 'NG'), (9, 'ES'),
  (10, 'IT'), (11, 'PL'), (12, 'KR'), (13, 'TR'), (14, 'NL'), (15, 'SE'), (16, 'MX'), (17, 'CZ'), (18, 'GR'),
  (19, 'IE'), (20, 'DK'), (21, 'IS'), (22, 'PE'), (23, 'ZA')
),
domain(k, name) as (values
  (0, 'example.org'), (1, 'example.com'), (2, 'mail.example.net'), (3, 'post.example.de'),
  (4, 'universidad.example.es')
),
motto(k, text) as (values
  (0, 'Write "drunk", edit sober.'), (1, 'It''s only words, and words are all I have.'),
  (2, 'Schreib, was du weißt – alles andere ist naïveté.'), (3, 'A path like C:\novels\draft is no title.'),
  (4, 'One line for the reader,
one for the drawer.'), (5, '言葉は風のように。'), (6, '100 % true & <almost> never boring'),
  (7, 'Kürze; Würze: "zwei", ''drei''.')
)
select i, first.name, last.name,
       case when a % 23 = 0 then null else first.ascii || '.' || last.ascii || i || '@' || domain.name end,
       case when c % 41 = 0 then null else date '1931-05-17' + interval (b % 27000) day end,
       country.code, if(a % 7 <> 0, 'true', 'false'), (c % 1000 * (c div 1000) div 31250),
       b % 900000 / 100.0, motto.text,
       timestamp '1970-01-01 00:00:00' + interval (1262304000 + i * 4800 + a % 4800) second + interval c microsecond
from q
left join first on first.k = (a % 1000) * (a div 1000) * 44 div 1000000
left join last on last.k = (b % 1000) * (b div 1000) * 46 div 1000000
left join country on country.k = (c % 1000) * (c div 1000) * 24 div 1000000
left join domain on domain.k = (a + b) % 5
left join motto on motto.k = (b + c) % 32
order by i;

analyze table author;
