//! Pages for browsers: the rows of tables with links, an order, filters and a next page. A page that
//! is cut looks incomplete.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, Method, Request};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::{
    Browser, Client, Cut, ENTER, Ended, Faults, Reply, Server, TcpProxy, TestDb, decode, get, program,
    rowstream, wait_until,
};
use crate::worked::{Listening, Started};

/// The header of Chromium. Firefox and Safari send the same first types.
const ACCEPT: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";

/// Two tables and a view. The second table refers to the first, and the view has no key.
const SHOP: &str = "
    create table customers (id integer primary key, name text);
    create table orders (
        id integer primary key, customer_id integer references customers (id), status text, total integer);
    create view totals as select status, count(*) as orders from orders group by status;
";

/// A row of `orders` whose number is 7 times another has no customer.
fn rows() -> String {
    let customers = (1..=5).map(|id| format!("insert into customers values ({id}, 'Customer {id}');"));
    let order = |id: i64| {
        let customer = if id % 7 == 0 { "null".to_owned() } else { (1 + id % 5).to_string() };
        let status = if id % 2 == 0 { "PAID" } else { "OPEN" };
        format!("insert into orders values ({id}, {customer}, '{status}', {});", 1000 - id)
    };
    customers.chain((1..=250).map(order)).collect()
}

/// A server of an SQLite file's tables.
async fn sqlite(sql: &str) -> (Listening, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    (serve(path.to_str().unwrap()).await, folder)
}

async fn serve(url: &str) -> Listening {
    Started::new(program(), &["serve", url, "--port", "0"]).listening().await
}

async fn shop() -> (Listening, tempfile::TempDir) {
    sqlite(&format!("{SHOP} begin; {} commit;", rows())).await
}

async fn accepting(url: &str, accept: &str) -> Reply {
    let request = Request::get(url).header("accept", accept).body(String::new()).unwrap();
    Client::HTTP1.send(request).await
}

/// The page that a browser gets.
async fn page(server: &Listening, path: &str) -> String {
    let reply = accepting(&server.url(path), ACCEPT).await;
    let media = reply.header("content-type").unwrap_or_default();
    assert_eq!((reply.status.as_u16(), media), (200, "text/html; charset=utf-8"), "{path}: {}", reply.text());
    assert_eq!(reply.ended, Ended::Complete);
    reply.text().to_owned()
}

/// The URL of the link with this text, as a browser resolves it.
fn link(html: &str, path: &str, text: &str) -> Option<String> {
    let (before, _) = html.split_once(&format!("\">{text}</a>"))?;
    let (_, href) = before.rsplit_once("<a href=\"")?;
    Some(resolved(path, href))
}

/// A relative URL, resolved against the path of its page.
fn resolved(page: &str, href: &str) -> String {
    let href = href.replace("&amp;", "&");
    let path = page.split('?').next().unwrap();
    if href.starts_with('?') {
        return format!("{path}{href}");
    }
    let mut folder: Vec<_> = path.split('/').collect();
    folder.pop();
    let mut rest = href.strip_prefix("./").unwrap_or(&href);
    while let Some(above) = rest.strip_prefix("../") {
        folder.pop().expect("a folder above");
        rest = above;
    }
    format!("{}/{rest}", folder.join("/"))
}

/// The first cell of each row, without its link.
fn first_cells(html: &str) -> Vec<String> {
    let rows = html.lines().filter_map(|line| line.strip_prefix("<tr><td"));
    let cells = rows.map(|row| row.split_once('>').unwrap().1.split("<td").next().unwrap());
    let cells = cells.filter(|cell| !cell.starts_with("<input") && !cell.is_empty());
    let text = |cell: &str| match cell.strip_prefix("<a href=") {
        Some(link) => link.split_once('>').unwrap().1.split('<').next().unwrap().to_owned(),
        None => cell.split('<').next().unwrap().to_owned(),
    };
    cells.map(text).collect()
}

#[tokio::test]
async fn browsers_get_a_page_and_programs_get_json() {
    let (server, _folder) = shop().await;
    for (path, accept, expected) in [
        ("/orders", ACCEPT, "text/html; charset=utf-8"),
        ("/orders/3", ACCEPT, "text/html; charset=utf-8"),
        ("/customers/3/orders", ACCEPT, "text/html; charset=utf-8"),
        ("/orders", "text/html", "text/html; charset=utf-8"),
        ("/orders", "*/*", "application/json"),
        ("/orders", "application/json, text/html;q=0.9", "application/json"),
        // Java's HttpURLConnection.
        ("/orders", "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", "application/json"),
        ("/orders.html", "*/*", "text/html; charset=utf-8"),
        ("/orders/3.html", "*/*", "text/html; charset=utf-8"),
        ("/orders?_format=html", "application/json", "text/html; charset=utf-8"),
        ("/orders.json", ACCEPT, "application/json"),
    ] {
        let reply = accepting(&server.url(path), accept).await;
        let media = reply.header("content-type");
        assert_eq!((reply.status.as_u16(), media), (200, Some(expected)), "{path} {accept}");
        let is_page = expected.starts_with("text/html");
        assert_eq!(reply.text().starts_with("<!doctype html>"), is_page, "{path} {accept}");
    }
    assert_eq!(get(&server.url("/orders")).await.header("content-type"), Some("application/json"));
}

/// An endpoint that isn't a table answers as before.
#[tokio::test]
async fn endpoints_without_filters_and_links_have_no_page() {
    let files = [
        ("rowstream.toml", "[source.db]\nurl = \"sqlite:test.db\"\ncreate = [\"make.sql\"]"),
        ("make.sql", "create table t (id integer primary key, other integer); insert into t values (1, 2)"),
        ("endpoints/plain.sql", "select id from t"),
        (
            "endpoints/linked.sql",
            "/* links = [\"/plain\", \"/rows/{other}/of/{id}\"] */ select id, other from t",
        ),
        ("endpoints/limited.sql", "/* filter = true */ select id from t limit 1"),
        ("endpoints/named.sql", "/* formats = [\"html\", \"csv\"] */ select id from t"),
    ];
    let server = Server::start(&files).await;
    let reply = accepting(&server.url("/plain"), ACCEPT).await;
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(accepting(&server.url("/plain"), "text/html").await.status, 406);
    let linked = accepting(&server.url("/linked"), ACCEPT).await;
    let row = "<tr><td class=\"n\">1<td class=\"n\"><a href=\"./rows/2/of/1\">2</a></tr>\n";
    assert!(linked.text().contains(row), "{}", linked.text());
    assert!(linked.text().contains("<a href=\"./plain\">plain</a>"), "{}", linked.text());
    let limited = accepting(&server.url("/limited"), ACCEPT).await;
    assert!(limited.text().contains("<p>1 row</p>"), "{}", limited.text());
    assert!(get(&server.url("/named")).await.text().starts_with("<!doctype html>"), "the first format");
}

#[tokio::test]
async fn check_finds_links_without_a_column() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    file("rowstream.toml", "[source.db]\nurl = \"sqlite:test.db\"\ncreate = [\"make.sql\"]");
    file("make.sql", "create table t (a)");
    std::fs::create_dir(folder.path().join("endpoints")).unwrap();
    for (links, expected) in [
        ("/a/{idd}", "the link's `idd` isn't a column of the result"),
        ("a/{id}", "the link `a/{id}` doesn't begin with a slash"),
        ("/a/x{id}", "the link `/a/x{id}` has a brace within a segment"),
        ("/a/../{id}", "the link `/a/../{id}` has a segment of dots"),
        ("/a//{id}", "the link `/a//{id}` has an empty segment"),
        ("/", "the link `/` has an empty segment"),
        ("/a?id={id}", "has a brace within a segment"),
        ("/{id}/a?b=1", "the link `/{id}/a?b=1` has a query or a fragment"),
    ] {
        file("endpoints/t.sql", &format!("/* links = [\"{links}\"] */\nselect 1 as id"));
        let checked = rowstream(&["check", folder.path().to_str().unwrap()]).await;
        let told = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(!checked.status.success() && told.contains(expected), "{told}");
        assert!(told.contains("t.sql:1:"), "{told}");
    }
}

#[tokio::test]
async fn a_page_may_load_nothing() {
    let (server, _folder) = shop().await;
    for path in ["/orders", "/orders/3"] {
        for method in [Method::GET, Method::HEAD] {
            let request = Request::builder().method(&method).uri(server.url(path)).header("accept", ACCEPT);
            let reply = Client::HTTP1.send(request.body(String::new()).unwrap()).await;
            check_head(&reply.headers);
            if method == Method::GET {
                let style = reply.text().split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
                let hash = BASE64_STANDARD.encode(Sha256::digest(style));
                let policy = reply.header("content-security-policy").unwrap();
                assert!(policy.contains(&format!("style-src 'sha256-{hash}'")), "{policy}");
                for absent in ["<script", "javascript:", " onclick", " style=", "<img", "<link", "http:"] {
                    assert!(!reply.text().replace(style, "").contains(absent), "{absent}: {}", reply.text());
                }
            }
        }
    }
}

fn check_head(headers: &HeaderMap) {
    let header = |name: &str| headers.get(name).map_or("", |value| value.to_str().unwrap());
    let policy = header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    for part in ["base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(header("referrer-policy"), "no-referrer");
    assert_eq!(header("vary"), "accept");
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
}

/// Reads all pages by following their links.
async fn all_pages(server: &Listening, path: &str) -> (Vec<String>, usize) {
    let (mut path, mut cells, mut pages) = (path.to_owned(), Vec::new(), 0);
    loop {
        let html = page(server, &path).await;
        cells.extend(first_cells(&html));
        pages += 1;
        match link(&html, &path, "Next page") {
            Some(next) => path = next,
            None => return (cells, pages),
        }
    }
}

async fn pages_have_each_row_once(server: &Listening) {
    let ids: Vec<_> = (1..=250).map(|id: i32| id.to_string()).collect();
    assert_eq!(all_pages(server, "/orders").await, (ids.clone(), 3));
    let downwards: Vec<_> = ids.iter().rev().cloned().collect();
    assert_eq!(all_pages(server, "/orders?order=id.desc").await, (downwards.clone(), 3));
    // The total falls while the id grows.
    assert_eq!(all_pages(server, "/orders?order=total.asc&limit=60").await, (downwards, 5));
    let (paid, pages) = all_pages(server, "/orders?status=eq.PAID&id=&customer_id=").await;
    assert_eq!((paid.len(), pages), (125, 2));
    assert!(paid.iter().all(|id| id.parse::<i32>().unwrap() % 2 == 0), "{paid:?}");
    // A form has empty fields, but only of columns.
    let unknown = accepting(&server.url("/orders?status=&id=&statu="), ACCEPT).await;
    assert_eq!(unknown.status.as_u16(), 400, "{}", unknown.text());
    assert!(unknown.text().contains("did you mean `status`?"), "{}", unknown.text());

    let html = page(server, "/orders?status=eq.PAID").await;
    assert!(html.contains("<p>100 rows, the most on a page."), "{html}");
    let next = link(&html, "/orders", "Next page").unwrap();
    let second = page(server, &next).await;
    assert_eq!(link(&second, "/orders", "First page").unwrap(), "/orders?status=eq.PAID");
    let all = page(server, &link(&html, "/orders", "All rows").unwrap()).await;
    assert_eq!(first_cells(&all), paid);
    assert!(all.contains("<p>125 rows</p>"), "{all}");
    let longer = page(server, &link(&html, "/orders", "1000 rows").unwrap()).await;
    assert_eq!(first_cells(&longer), paid);
}

#[tokio::test]
async fn sqlite_pages_have_each_row_once() {
    let (server, _folder) = shop().await;
    pages_have_each_row_once(&server).await;
}

#[tokio::test]
async fn postgres_pages_have_each_row_once() {
    let db = TestDb::new().await;
    db.execute(&format!("{SHOP} {}", rows())).await;
    pages_have_each_row_once(&serve(&db.url()).await).await;
}

/// A view has no key, so a next page could repeat rows, or leave some out.
#[tokio::test]
async fn a_list_without_a_key_has_longer_pages_but_no_next_one() {
    let many = "create table plain (n integer);
        insert into plain with recursive n(i) as (select 1 union all select i + 1 from n where i < 150) select i from n;";
    let (server, _folder) = sqlite(&format!("{SHOP} {many}")).await;
    let html = page(&server, "/plain").await;
    assert_eq!((first_cells(&html).len(), link(&html, "/plain", "Next page")), (100, None));
    let longer = page(&server, &link(&html, "/plain", "1000 rows").unwrap()).await;
    assert_eq!(first_cells(&longer).len(), 150);
    let all = page(&server, &link(&html, "/plain", "All rows").unwrap()).await;
    assert_eq!(first_cells(&all).len(), 150);
}

#[tokio::test]
async fn headers_sort_and_keep_the_filters() {
    let (server, _folder) = shop().await;
    let html = page(&server, "/orders?status=eq.PAID&total=").await;
    let upwards = link(&html, "/orders", "total").unwrap();
    assert_eq!(upwards, "/orders?status=eq.PAID&order=total.asc");
    let html = page(&server, &upwards).await;
    assert_eq!(first_cells(&html)[..2], ["250", "248"]);
    assert!(html.contains("<th scope=\"col\" aria-sort=\"ascending\"><a"), "{html}");
    let downwards = link(&html, "/orders", "total").unwrap();
    assert_eq!(downwards, "/orders?status=eq.PAID&order=total.desc");
    let html = page(&server, &downwards).await;
    assert_eq!(first_cells(&html)[..2], ["2", "4"]);
    assert!(html.contains("aria-sort=\"descending\""), "{html}");
}

#[tokio::test]
async fn keys_are_links_to_rows() {
    let (server, _folder) = shop().await;
    let html = page(&server, "/orders?limit=3&customer_id=eq.3").await;
    assert_eq!(link(&html, "/orders", "12").unwrap(), "/orders/12");
    assert_eq!(link(&html, "/orders", "3").unwrap(), "/customers/3");
    let row = page(&server, "/customers/3").await;
    assert!(row.contains("<tr><th scope=\"row\">name<td>Customer 3</tr>"), "{row}");
    let list = link(&row, "/customers/3", "orders").unwrap();
    assert_eq!(list, "/customers/3/orders");
    let orders = page(&server, &list).await;
    assert_eq!(link(&orders, &list, "2").unwrap(), "/orders/2");
    assert_eq!(link(&orders, &list, "3").unwrap(), "/customers/3");
    assert_eq!(link(&row, "/customers/3", "customers").unwrap(), "/customers");
    let row = page(&server, "/orders/7").await;
    assert!(row.contains("<tr><th scope=\"row\">customer_id<td><i>NULL</i></tr>"), "{row}");
    let narrow = page(&server, "/orders?select=status,customer_id&limit=1").await;
    assert!(narrow.contains("<tr><td>OPEN<td class=\"n\"><a href=\"./customers/2\">2</a></tr>"), "{narrow}");
    // A column of another name would lead to another row.
    let renamed = page(&server, "/orders?select=customer_id:id&limit=1").await;
    assert!(renamed.contains("<tr><td class=\"n\">1</tr>"), "{renamed}");
}

/// A problem document isn't a page, because programs read it.
/// Each link that sorts repeats the query. So a page whose query and table are both wide has none:
/// they would take 85 MB here.
#[tokio::test]
async fn a_long_query_is_not_repeated_for_each_column() {
    let columns: String = (0..1900).map(|number| format!(", c{number} integer")).collect();
    let (server, _folder) = sqlite(&format!(
        "create table wide (id integer primary key, t text{columns}); insert into wide (id, t) values (1, 'x')"
    ))
    .await;
    let html = page(&server, &format!("/wide?t=neq.{}", "%2C".repeat(5000))).await;
    assert!(
        html.len() < 512 * 1024 && html.contains("<tr><td class=\"n\"><a href=\"./wide/1\">"),
        "{}",
        html.len()
    );
    assert!(!html.contains("order=") && page(&server, "/wide").await.contains("?order=c1899.asc"));
}

/// A field whose text a form would change, and an order that ends in an error: a page offers neither. A
/// time links to its row.
#[tokio::test]
async fn a_page_offers_only_what_works() {
    let (server, _folder) = sqlite(
        "create table news (id integer primary key, feed text, moment datetime);
         insert into news values (1, 'a', '2024-01-02 03:04:05');
         create table moments (moment datetime primary key);
         insert into moments values ('2024-01-02 03:04:05');
         create table mixed (id integer primary key, m);
         insert into mixed values (1, x'00ff'), (2, 3);",
    )
    .await;
    // `feed` is a parameter of the server.
    let html = page(&server, "/news?id=&moment=").await;
    assert!(html.contains("name=\"moment\"") && !html.contains("name=\"feed\""), "{html}");
    let html = page(&server, "/mixed?m=neq.a%0A").await;
    assert!(!html.contains("<form"), "a browser would change the line break: {html}");
    let html = page(&server, "/moments").await;
    assert!(html.contains("<a href=\"./moments/2024-01-02T03%3A04%3A05\">"), "{html}");
    let reply = accepting(&server.url("/mixed?order=m.desc"), ACCEPT).await;
    assert_eq!(reply.status.as_u16(), 400, "{}", reply.text());
    assert!(
        reply.text().contains("a row has bytes, a list, JSON or an infinite number in `m`"),
        "{}",
        reply.text()
    );
}

#[tokio::test]
async fn errors_are_problem_documents() {
    let (server, _folder) = shop().await;
    for (path, status) in [("/orders/9999", 404), ("/orders?status=PAID", 400), ("/orders?nothing=eq.1", 400)]
    {
        let reply = accepting(&server.url(path), ACCEPT).await;
        let media = reply.header("content-type");
        assert_eq!((reply.status.as_u16(), media), (status, Some("application/problem+json")), "{path}");
        assert_eq!(reply.header("content-security-policy"), None);
    }
    // Only a page's form has empty fields.
    assert_eq!(get(&server.url("/orders?status=")).await.status, 400);
}

#[tokio::test]
async fn pages_are_compressed() {
    let (server, _folder) = shop().await;
    let plain = page(&server, "/orders").await;
    let request = Request::get(server.url("/orders")).header("accept", ACCEPT);
    let request = request.header("accept-encoding", "gzip").header("via", "1.1 proxy");
    let reply = Client::HTTP1.send(request.body(String::new()).unwrap()).await;
    assert_eq!(reply.header("content-encoding"), Some("gzip"));
    assert_eq!(decode("gzip", &reply.body).unwrap(), plain.into_bytes());
}

/// Names and values that would be HTML if they weren't escaped.
const HOSTILE: &str = r#"
    create table "<b>x"" y='&amp;" (
        "<script>alert(1)<script>" text primary key, """ onfocus=""alert(2)" text, "javascript:a" text);
    insert into "<b>x"" y='&amp;" values
        ('</td></table><script>alert(3)</script>', '"><img src=x onerror=alert(4)>', 'javascript:alert(5)'),
        ('&lt;&#0;&amp', '<!-- ', char(0) || 'a' || char(13) || char(10) || 'b' || char(1)),
        ('"' || '''' || '`/?#%2e;:@', '</style><style>body{display:none}</style>', char(8238) || 'abc'),
        ('..', 'x', '<div id="end"></div>'),
        ('//evil.example/', hex(zeroblob(50000)), null);
"#;

#[tokio::test]
async fn nothing_in_the_database_is_html() {
    let ((server, _folder), browser) = tokio::join!(sqlite(HOSTILE), Browser::start());
    let path = "/%3Cb%3Ex%22%20y=%27&amp%3B";
    browser
        .open(&server.url(&format!("{path}?%22%20onfocus%3D%22alert%282%29=neq.%22%3E%3Cscript%3E")))
        .await;
    let seen = browser
        .run(
            "const texts = (cells) => Array.from(cells, (cell) => cell.textContent);
             const elements = new Set(Array.from(document.querySelectorAll('*'), (one) => one.localName));
             const attributes = new Set();
             document.querySelectorAll('*').forEach((one) => one.getAttributeNames().forEach((name) => attributes.add(name)));
             return { title: document.title, names: texts(document.querySelectorAll('thead tr:first-child th')),
                      rows: Array.from(document.querySelectorAll('tbody tr'), (row) => texts(row.cells)),
                      elements: Array.from(elements).sort(), attributes: Array.from(attributes).sort(),
                      links: Array.from(document.querySelectorAll('tbody a'), (link) => link.href),
                      field: document.querySelectorAll('input')[1].value,
                      shown: getComputedStyle(document.body).display, ends: document.querySelectorAll('#end').length };",
        )
        .await;
    assert_eq!(seen["title"], "/<b>x\" y='&amp;");
    assert_eq!(seen["names"], json!(["<script>alert(1)<script>", "\" onfocus=\"alert(2)", "javascript:a"]));
    let mut rows: Vec<_> = seen["rows"].as_array().unwrap().clone();
    rows.sort_by_key(Value::to_string);
    assert_eq!(rows.len(), 5, "{seen}");
    for row in [
        json!(["&lt;&#0;&amp", "<!-- ", "\u{fffd}a\r\nb\u{1}"]),
        json!(["\"'`/?#%2e;:@", "</style><style>body{display:none}</style>", "\u{202e}abc"]),
        json!([
            "</td></table><script>alert(3)</script>",
            "\"><img src=x onerror=alert(4)>",
            "javascript:alert(5)"
        ]),
        json!(["..", "x", "<div id=\"end\"></div>"]),
        json!(["//evil.example/", "0".repeat(100_000), "NULL"]),
    ] {
        assert!(rows.contains(&row), "{row} is not among {rows:?}");
    }
    let elements: BTreeSet<_> =
        seen["elements"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let expected = [
        "a", "bdi", "body", "button", "code", "div", "form", "h1", "head", "html", "i", "input", "meta", "p",
        "style", "table", "tbody", "td", "th", "thead", "title", "tr",
    ];
    assert_eq!(elements, expected.into());
    let attributes = seen["attributes"].as_array().unwrap();
    assert!(attributes.iter().all(|name| !name.as_str().unwrap().starts_with("on")), "{attributes:?}");
    assert_eq!(seen["field"], "neq.\"><script>");
    assert_eq!((&seen["shown"], &seen["ends"]), (&json!("block"), &json!(1)));
    // `..` has no link, because a browser would resolve it.
    let links = seen["links"].as_array().unwrap();
    assert_eq!(links.len(), 4, "{links:?}");
    for link in links {
        let link = link.as_str().unwrap();
        assert!(link.starts_with(&server.url("/%3Cb%3Ex%22%20y%3D%27%26amp%3B/")), "{link}");
        assert_eq!(accepting(link, ACCEPT).await.status, 200, "{link}");
    }
}

/// The form sends each of its fields, and the page ignores those that are empty.
#[tokio::test]
async fn a_form_without_scripts_filters_the_rows() {
    let ((server, _folder), browser) = tokio::join!(shop(), Browser::start());
    browser.open(&server.url("/orders?order=id.desc&limit=7")).await;
    browser.run("document.querySelector('input[name=total]').focus();").await;
    browser.press(&format!("lt.760{ENTER}")).await;
    let seen = wait_until("the rows are filtered", async || {
        let seen = browser
            .run(
                "return { query: location.search, field: document.querySelector('input[name=total]').value,
                          ids: Array.from(document.querySelectorAll('tbody tr'), (row) => row.cells[0].textContent) };",
            )
            .await;
        if seen["field"] == "lt.760" { Ok(seen) } else { Err(seen.to_string()) }
    })
    .await;
    assert_eq!(seen["ids"], json!(["250", "249", "248", "247", "246", "245", "244"]), "{seen}");
    let query = seen["query"].as_str().unwrap();
    assert!(
        query.contains("order=id.desc") && query.contains("limit=7") && query.contains("status="),
        "{query}"
    );
    assert!(browser.log().await.iter().all(|line| !line.contains("Content Security Policy")), "no violation");
}

/// The fields of the filters' form, by their names and values.
fn fields(html: &str) -> Vec<(String, String)> {
    let inputs = html.split("<input ").skip(1).map(|input| input.split('>').next().unwrap());
    let attribute = |input: &str, name: &str| {
        let (_, value) = input.split_once(&format!("{name}=\""))?;
        value.split_once('"').map(|(value, _)| value.to_owned())
    };
    inputs
        .map(|input| {
            (
                attribute(input, " name").or(attribute(input, "name")).unwrap(),
                attribute(input, "value").unwrap(),
            )
        })
        .collect()
}

/// The SQL of a list with a parameter of each kind that a form has, an enum among them.
const FORM: &str = "/*
key = [\"id\"]
formats = [\"json\", \"html\"]
filter = true
sort = true
select = true
[params]
state = { type = \"text\", enum = [\"PAID\", \"OPEN\"], default = \"PAID\" }
least = { type = \"integer\", default = 100 }
cheap = { type = \"boolean\", default = true }
since = { type = \"date\", optional = true }
n     = { type = \"integer\", default = 5 }
*/
select id, customer_id, status, total from orders
where status = :state and id > :least and (not :cheap or total < 900) and (:since is null or id > 0)
order by id limit :n";

/// A form sends each of its fields. An empty `offset` or `order`, and an empty choice of an enum with a
/// default, were 400s.
#[tokio::test]
async fn empty_fields_are_not_given() {
    let (tables, folder) = shop().await;
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    let config = format!("[source.db]\nurl = \"{url}\"\n");
    let server = Server::start(&[("rowstream.toml", &*config), ("endpoints/list.sql", FORM)]).await;
    let rows = async |url: String| {
        let reply = accepting(&url, ACCEPT).await;
        assert_eq!(reply.status.as_u16(), 200, "{url}: {}", reply.text());
        first_cells(reply.text())
    };
    let names = ["id", "customer_id", "status", "total"];
    // The names of the page's own form, and those that a form of the user may have.
    let html = page(&tables, "/orders").await;
    assert_eq!(
        fields(&html).iter().map(|(name, _)| name.as_str()).collect::<BTreeSet<_>>(),
        names.iter().copied().collect()
    );
    let sent: Vec<_> = fields(&html).iter().map(|(name, value)| format!("{name}={value}")).collect();
    let all = rows(tables.url("/orders")).await;
    assert_eq!(all.len(), 100);
    for more in
        ["", "&order=", "&offset=", "&select=", "&and=", "&or=", "&_count=", "&order=&offset=&select="]
    {
        assert_eq!(rows(tables.url(&format!("/orders?{}{more}", sent.join("&")))).await, all, "{more}");
    }
    let filled =
        "id=gt.10&id=lt.20&customer_id=eq.2&status=in.(PAID,OPEN)&total=gte.1&order=id.desc&offset=1&limit=5";
    assert_eq!(rows(tables.url(&format!("/orders?{filled}"))).await, ["11"]);

    let empty: Vec<_> = names.iter().map(|name| format!("{name}=")).collect();
    let params = "state=&least=&cheap=&since=&n=";
    let all = rows(server.url("/list")).await;
    assert_eq!(all, ["102", "104", "106", "108", "110"]);
    for query in [params.to_owned(), format!("{params}&{}&order=", empty.join("&"))] {
        assert_eq!(rows(server.url(&format!("/list?{query}"))).await, all, "{query}");
    }
    let of_program = get(&server.url(&format!("/list?{params}"))).await;
    assert_eq!(of_program.json().as_array().map(Vec::len), Some(5), "{}", of_program.text());
    let filled = "state=OPEN&least=120&cheap=false&since=2026-01-01&n=3&id=lt.130&total=gt.1&order=id.desc";
    assert_eq!(rows(server.url(&format!("/list?{filled}"))).await, ["129", "127", "125"]);
}

/// Numbers and times have two fields, so that a form has both ends of a range.
#[tokio::test]
async fn ranges_have_two_fields() {
    let (server, _folder) = shop().await;
    let count = |html: &str, name: &str| fields(html).iter().filter(|(own, _)| own == name).count();
    let html = page(&server, "/orders").await;
    assert_eq!((count(&html, "id"), count(&html, "status")), (2, 1), "{html}");
    let html = page(&server, "/orders?id=gte.10&id=&status=").await;
    assert_eq!((first_cells(&html)[0].as_str(), count(&html, "id")), ("10", 2));
    let html = page(&server, "/orders?id=gte.10&id=lt.12&status=").await;
    assert_eq!((first_cells(&html), count(&html, "id")), (vec!["10".to_owned(), "11".to_owned()], 2));
}

/// The number of rows that a browser shows, the style, and the line about missing rows.
async fn shown(browser: &Browser) -> Value {
    browser
        .run(
            "const style = (name) => getComputedStyle(document.querySelector(name));
             return { rows: document.querySelectorAll('tbody tr').length, cut: style('#cut').display,
                      table: style('table').borderCollapse, loaded: document.readyState };",
        )
        .await
}

#[tokio::test]
async fn a_cut_page_shows_that_it_is_incomplete() {
    let many = "create table t (id integer primary key, text text);
        insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) \
        select i, 'a text that takes its room' from n;";
    let ((server, folder), browser) = tokio::join!(sqlite(many), Browser::start());
    browser.open(&server.url("/t?limit=")).await;
    let whole = shown(&browser).await;
    assert_eq!(whole, json!({"rows": 20000, "cut": "none", "table": "collapse", "loaded": "complete"}));

    // Chromium waits long for the rest of a page, so it opens the bytes from a file.
    let faults = Faults { cut: Some((300_000, Cut::Close)), ..Faults::default() };
    let address = server.url("").trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
    let proxy = TcpProxy::to_client(address, faults).await;
    let cut = accepting(&format!("http://{}/t?limit=", proxy.address()), ACCEPT).await;
    assert_ne!(cut.ended, Ended::Complete);
    let file = folder.path().join("cut.html");
    std::fs::write(&file, &cut.body).unwrap();
    browser.open(&format!("file://{}", file.display())).await;
    let seen = shown(&browser).await;
    assert!((1000..20000).contains(&seen["rows"].as_u64().unwrap()), "{seen}");
    assert_eq!((&seen["cut"], &seen["loaded"]), (&json!("block"), &json!("complete")), "{seen}");
}

#[tokio::test]
async fn openapi_and_the_index_offer_pages() {
    let (server, _folder) = shop().await;
    let document = get(&server.url("/_rowstream/openapi.json")).await.json();
    let content = &document["paths"]["/orders"]["get"]["responses"]["200"]["content"];
    assert_eq!(content["text/html"]["schema"]["type"], "string", "{content}");
    let index = accepting(&server.url("/"), ACCEPT).await;
    assert!(index.text().contains("<a href=\"./orders.html\">html</a>"), "{}", index.text());
}
