//! Pages by keys of each type and collation: each row appears once, or the key is refused.

use std::collections::HashMap;

use super::{Random, unchecked};
use crate::support::{Ended, Launch, Product, Server, get, with_both};

/// The rows of a table.
const ROWS: u64 = 40;

/// Types with expressions for their values. `n` is a pseudo-random 32-bit number.
const TYPES: &[(&str, &str)] = &[
    ("tinyint", "n % 100 - 50"),
    ("int", "n - 2147483648"),
    ("bigint unsigned", "18446744073709551615 - n"),
    ("decimal(30,10)", "n / 7 - 1000"),
    ("float", "n / 7"),
    ("double", "n / 7"),
    ("bit(12)", "n % 4096"),
    ("bit(64)", "18446744073709551615 - n % 100"),
    ("year", "1950 + n % 150"),
    ("date", "'2024-01-01' + interval n % 90 day"),
    ("datetime(3)", "'2024-01-01' + interval n / 7 second"),
    ("timestamp(6)", "'2024-01-01' + interval n / 700 second"),
    ("time(6)", "sec_to_time(n % 1000000 / 7 - 70000)"),
];

/// Types that MySQL lacks.
const TYPES_OF_MARIADB: &[(&str, &str)] = &[
    (
        "uuid",
        "concat_ws('-', lpad(hex(n), 8, '0'), lpad(n % 7, 4, '0'), '4000', '8000', lpad(n % 1000, 12, '0'))",
    ),
    ("inet6", "concat('2001:db8::', hex(n % 65536))"),
    ("inet4", "inet_ntoa(n)"),
];

/// Types that aren't allowed in keys.
const REFUSED: &[(&str, &str)] = &[
    ("enum('open','done','all','z','a')", "1 + n % 5"),
    ("set('open','done','all','z','a')", "n % 32"),
    ("json", "cast(n as char)"),
    ("binary(4)", "hex(n % 256)"),
    ("varbinary(40)", "n"),
    ("text", "n"),
    ("longtext", "n"),
    ("varchar(256)", "n"),
];

const COLLATIONS: &[&str] = &[
    "utf8mb4_general_ci",
    "utf8mb4_bin",
    "utf8mb4_unicode_ci",
    "utf8mb4_german2_ci",
    "utf8mb4_czech_ci",
    "utf8mb4_croatian_ci",
    "latin1_swedish_ci",
    "latin1_german2_ci",
    "latin1_bin",
    "latin2_czech_cs",
    "latin7_general_ci",
    "ucs2_general_ci",
    "sjis_japanese_ci",
];

const COLLATIONS_OF_MARIADB: &[&str] =
    &["utf8mb4_nopad_bin", "utf8mb4_unicode_520_nopad_ci", "uca1400_as_cs", "utf8mb3_general_ci"];

/// Those of Unicode 9 don't pad with blanks. The first is the default.
const COLLATIONS_OF_MYSQL: &[&str] = &[
    "utf8mb4_0900_ai_ci",
    "utf8mb4_0900_as_ci",
    "utf8mb4_0900_as_cs",
    "utf8mb4_de_pb_0900_ai_ci",
    "utf8mb4_cs_0900_as_cs",
    "utf8mb4_hr_0900_ai_ci",
    "utf8mb4_ja_0900_as_cs_ks",
    "utf8_general_ci",
    "gb18030_chinese_ci",
];

/// Pieces of texts: blanks, characters that sort before them, characters with equal weights, and
/// ones without weight.
const PIECES: [&str; 14] = ["a", "A", "b", " ", "  ", "\t", "ä", "ß", "ss", "c", "h", "é", "\u{ad}", "1"];

/// A table with this type in `k`, and rows with different `id`s.
fn table(name: &str, kind: &str, value: &str) -> String {
    format!(
        "create table {name} (k {kind} not null, id int primary key);
         insert into {name} select {value}, id from (select seq as id, cast(crc32(seq) as signed) as n from seq_1_to_{ROWS}) s;"
    )
}

/// The same with texts.
fn texts(name: &str, kind: &str, random: &mut Random) -> String {
    let mut text = || (0..random.below(5)).map(|_| PIECES[random.below(14) as usize]).collect::<String>();
    let rows: Vec<_> = (1..=ROWS).map(|id| format!("('{}', {id})", text())).collect();
    format!(
        "create table {name} (k {kind} not null, id int primary key); insert ignore into {name} values {};",
        rows.join(", ")
    )
}

/// The rows of all pages. `None` if the endpoint is refused.
async fn pages(server: &Server, path: &str, rows: usize) -> Option<Vec<u64>> {
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let reply = get(&server.url(&format!("{path}?n={rows}{after}"))).await;
        assert_eq!(reply.ended, Ended::Complete, "{path}");
        let json = reply.json();
        if reply.status.as_u16() == 500 {
            assert!(json["detail"].as_str().is_some_and(|why| why.contains("key")), "{json}");
            return None;
        }
        let page = json["rows"].as_array().unwrap_or_else(|| panic!("{path}: {json}"));
        seen.extend(page.iter().map(|row| row["id"].as_u64().unwrap()));
        assert!(seen.len() < 1000, "{path}: the pages do not end");
        match json["next"].as_str() {
            Some(next) if page.len() == rows => after = format!("&_after={next}"),
            _ => return Some(seen),
        }
    }
}

/// `enum`s were sorted by number but compared as texts, so the first page of three rows looked like
/// the last one.
async fn pages_have_each_row_once_or_are_refused(on: Product) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut tables = String::new();
    let mut kinds = HashMap::new();
    let (own_types, own_collations) = match on {
        Product::MariaDb => (TYPES_OF_MARIADB, COLLATIONS_OF_MARIADB),
        Product::MySql8 => (&[][..], COLLATIONS_OF_MYSQL),
    };
    for (kind, value) in TYPES.iter().chain(own_types).chain(REFUSED) {
        let name = format!("t{}", kinds.len());
        tables += &table(&name, kind, value);
        kinds.insert(name, (*kind).to_owned());
    }
    for collation in COLLATIONS.iter().chain(own_collations) {
        let charset =
            if *collation == "uca1400_as_cs" { "utf8mb4" } else { collation.split('_').next().unwrap() };
        for kind in ["char(20)", "varchar(255)"] {
            let name = format!("t{}", kinds.len());
            let kind = format!("{kind} character set {charset} collate {collation}");
            tables += &texts(&name, &kind, &mut random);
            kinds.insert(name, kind);
        }
    }
    let db = on.script(&format!("set time_zone = '+00:00'; {tables}"));
    let mut files = Vec::new();
    for (name, kind) in &kinds {
        // The book names these two kinds of texts, with a workaround.
        let column = match kind {
            kind if kind.contains("latin7") => "convert(k using utf8mb4)",
            kind if kind.starts_with("char") && kind.contains("nopad") => "concat(k)",
            _ => "k",
        };
        for (shape, key) in
            [("up", r#""k", "id""#), ("down", r#""k desc", "id desc""#), ("mixed", r#""k desc", "id""#)]
        {
            let sql = format!(
                "/* key = [{key}]\nbody = {{ rows = \"$rows\", next = \"$next\" }}\n\
                 [params]\nn = \"integer\" */\nselect {column} as k, id from {name} limit :n"
            );
            files.push((format!("{name}_{shape}"), sql));
        }
    }
    let named: Vec<_> = files.iter().map(|(name, sql)| (name.as_str(), sql.as_str())).collect();
    let server = unchecked(&db, &named).await;
    for (file, _) in &files {
        let (name, _) = file.split_once('_').unwrap();
        let count: usize = db.ask(&format!("select count(*) from {name}")).trim().parse().unwrap();
        for rows in [3, 7] {
            let refused = REFUSED.iter().any(|(kind, _)| *kind == kinds[name]);
            let Some(mut seen) = pages(&server, &format!("/{file}"), rows).await else {
                assert!(refused, "{file}: {}", kinds[name]);
                break;
            };
            assert!(!refused, "{file}: {}", kinds[name]);
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), count, "{file}, {rows} a page: {}", kinds[name]);
        }
    }
}

/// Texts were sorted by the first 1,024 bytes of their sort keys. Only 48 of 100 rows were
/// returned, and the last page claimed to be complete.
async fn long_texts_are_sorted_to_their_ends(on: Product) {
    let db = on.database(
        "create table lt (k varchar(255) collate utf8mb4_unicode_ci not null, id int, n int);
         insert into lt select concat(repeat('㍿', 252), lpad((seq * 37) % 101, 3, '0')), seq, seq % 5 from seq_1_to_100",
    );
    let sql = "/* key = [\"k\"]\nbody = { rows = \"$rows\", next = \"$next\" }\n[params]\nn = \"integer\" */\n\
        select k, id from lt where n <> 9 order by k limit :n";
    let server = unchecked(&db, &[("lt", sql)]).await;
    let seen = pages(&server, "/lt", 7).await.unwrap();
    let expected = db.ask("select id from lt order by right(k, 3)");
    assert_eq!(seen, expected.lines().map(|id| id.parse().unwrap()).collect::<Vec<u64>>());
}

/// The start refuses these keys, and its hint suggests another one.
async fn keys_without_an_order_are_refused(on: Product) {
    let db = on.database(
        "create table job (state enum('open','done','all') primary key, n int);
         insert into job values ('open', 1), ('done', 2), ('all', 3)",
    );
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    for (sql, expected) in [
        ("select state from job limit 1", Some("cast(state as char)")),
        ("select max(state) as state from job group by n limit 1", Some("cast(state as char)")),
        ("select json_object('n', n) as state from job limit 1", Some("select the part")),
        ("select repeat(state, 100) as state from job limit 1", Some("left(c, 255)")),
        ("select cast(state as char) as state from job limit 1", None),
    ] {
        let file = format!("/* key = [\"state\"] */ {sql}");
        let files = [("rowstream.toml", config.as_str()), ("endpoints/t.sql", &file)];
        match expected {
            Some(hint) => {
                let Err(exit) = Launch::files(&files).try_start().await else { panic!("{sql}: it starts") };
                let said = exit.stderr;
                assert!(said.contains("`key` names `state`, whose values"), "{sql}: {said}");
                assert!(said.contains(hint), "{sql}: {said}");
            }
            None => drop(Server::start(&files).await),
        }
    }
}

with_both! {
    pages_have_each_row_once_or_are_refused
    long_texts_are_sorted_to_their_ends
    keys_without_an_order_are_refused
}
