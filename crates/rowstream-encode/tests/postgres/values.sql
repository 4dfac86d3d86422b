-- Writes values.tsv: values, and the JSON that PostgreSQL's row_to_json makes of them.
--
--   psql -X -q -A -t -F $'\t' -f values.sql > values.tsv
--
-- Columns: the kind of value; the value in our terms (bits of a float, microseconds or days since 1970-01-01 or
-- midnight, bytes in hex); the JSON. The one promised difference, Z for +00:00, is made here.
set timezone = 'UTC';
set extra_float_digits = 1;
set client_encoding = 'UTF8';
select setseed(0.5) \g /dev/null

create function pg_temp.json(anyelement) returns text language sql as
  $$ select (row_to_json(r)->'v')::text from (select $1 as v) r $$;

with floats(f) as (
  values (float8 '0'), ('-0'), ('NaN'), ('Infinity'), ('-Infinity'), (0.1), (1e-4), (9.9999e-5), (1e-5), (99999.5),
    (999999999999999), (1e15), (9007199254740991), (9007199254740992), (9007199254740993), (1e22), (1e23), (-1e23),
    (1.7976931348623157e308), (2.2250738585072014e-308), (5e-324)
  union all select power(float8 '10', e) from generate_series(-20, 30) e
  union all select power(float8 '2', e) from generate_series(40, 130, 3) e
  union all select -70129655170432416 + 16 * n from generate_series(-20, 20) n
  union all select (random() - 0.5) * power(float8 '10', e) from generate_series(-300, 300, 10) e)
select 'float8', ('x' || encode(float8send(f), 'hex'))::bit(64)::bigint, pg_temp.json(f) from floats;

with floats(f) as (
  values (float4 '0'), ('-0'), ('NaN'), ('Infinity'), ('-Infinity'), (0.1), (1e-4), (9.9999e-5), (1e-5), (99999.5),
    (999999), (999999.94), (1e6), (16777215), (16777216), (33554432), (3.4028235e38), (1.1754944e-38), (1e-45)
  union all select power(10::float8, e)::float4 from generate_series(-20, 30) e
  union all select (-85449536 + 8 * n)::float4 from generate_series(-20, 20) n
  union all select ((random() - 0.5) * power(float8 '10', e))::float4 from generate_series(-30, 30) e)
select 'float4', ('x' || encode(float4send(f), 'hex'))::bit(32)::int, pg_temp.json(f) from floats;

select 'date', d - date '1970-01-01', pg_temp.json(d) from unnest(array[date '1970-01-01', '1969-12-31',
  '2024-02-29', '1900-02-28', '1900-03-01', '2000-02-29', '0001-01-01', '0001-12-31 BC', '0044-03-15 BC',
  '0005-02-29 BC', '4714-11-24 BC', '0999-12-31', '9999-12-31', '10000-01-01', '5874897-12-31']) d;
select 'date', 2147483647, pg_temp.json(date 'infinity');
select 'date', -2147483648, pg_temp.json(date '-infinity');

select 'time', (extract(epoch from t) * 1000000)::bigint, pg_temp.json(t) from unnest(array[time '00:00',
  '23:59:59.5', '23:59:59.999999', '24:00', '12:34:56.000001', '12:34:56.120', '12:34:56.100000', '01:02:03.04']) t;

create temp table timestamps as select t from unnest(array[timestamp '1970-01-01', '1969-12-31 23:59:59.999999',
  '2024-02-29 12:00:00.25', '0001-01-01 00:00', '0001-12-31 23:59:59.999999 BC', '0044-03-15 00:00 BC',
  '0044-03-15 00:00:00.5 BC', '4713-01-01 BC', '9999-12-31 23:59:59.999999', '10000-01-01',
  '294246-12-31 23:59:59.999999', '2023-11-14 22:13:20.123456', '2023-11-14 22:13:20.1']) t;
select 'timestamp', (extract(epoch from t) * 1000000)::bigint, pg_temp.json(t) from timestamps;
select 'timestamptz', (extract(epoch from t) * 1000000)::bigint,
  replace(pg_temp.json(t at time zone 'UTC'), '+00:00', 'Z') from timestamps;
select 'timestamp', 9223372036854775807, pg_temp.json(timestamp 'infinity');
select 'timestamptz', -9223372036854775808, pg_temp.json(timestamptz '-infinity');

-- Every byte that a JSON string might have to escape, and what lies beside ASCII.
select 'text', encode(convert_to(t, 'UTF8'), 'hex'), pg_temp.json(t)
from (select 'a' || chr(c) || 'b' from generate_series(1, 127) c
      union all select '' union all select U&'\00e9\2028\+01f600' union all select repeat('x', 40) || '"') x(t);

select 'bytea', encode(b, 'hex'), pg_temp.json(b) from unnest(array[bytea '', 'hi', '\x00ff5c22']) b;
select 'uuid', replace(u::text, '-', ''), pg_temp.json(u)
from unnest(array[uuid '00112233-4455-6677-8899-AABBCCDDEEFF', 'ffffffff-ffff-ffff-ffff-ffffffffffff']) u;
