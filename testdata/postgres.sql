-- The types and tables that the values of PostgreSQL need. It runs once, in an empty database.
create extension hstore;

create type mood as enum ('sad', 'so so', 'ha"ppy', 'NULL', '{,}');
create type grid as range (subtype = float8);

create domain positive as int check (value > 0);
create domain label as text;
create domain short_label as label check (length(value) < 20);
create domain flag as bool;
create domain amount as numeric(20, 2);
create domain document as jsonb;
create domain moment as timestamptz;
create domain moods as mood;
create domain numbers as int[];
create domain bags as int[];

create type pair as (a int, b text);
create type lonely as (alone text);
create type nothing as ();
create domain good_pair as pair check ((value).a is distinct from 0);
create type choice as (big int8, exact numeric, raw bytea, span interval, doc jsonb, bigs int8[]);
create type thing as ("the id" int8, n numeric, "a ""b"" \" text, raw bytea, at timestamptz, ts timestamp,
    day date, span interval, flag bool, doc json, binary_doc jsonb, ids int8[], moods mood[], p pair, ps pair[], f float8,
    f4 float4, u uuid, l label, r tstzrange, g good_pair, bs bags, v int2vector, pairs hstore);

-- A table whose type has an attribute no more.
create table gone (a int, b text, c bool);
alter table gone drop column b;
insert into gone values (1, true);

create table kept (a int, b int generated always as (a * 2) stored);
insert into kept (a) values (21);

-- Since 18, what is generated can be virtual.
do $$ begin
    if current_setting('server_version_num')::int >= 180000 then
        execute 'create table computed (a int, b int generated always as (a * 2) virtual)';
        execute 'insert into computed (a) values (21)';
    end if;
end $$;
