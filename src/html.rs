//! Pages for browsers: the rows as a table, with links, an order, filters and a next page.
//!
//! A page has no script and loads nothing: its [policy] allows only its own style. Every
//! text is escaped. Links are relative, because a proxy may serve the page at another path. They
//! begin with `?` or a dot, so no text in them can be a scheme or a host.
//!
//! A page that is cut shows that it's incomplete: the style hides this line only if the page's last
//! element has arrived.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderValue, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rowstream_core::params::{Pair, Param, percent_decode, query_decode};
use rowstream_encode::html::{HtmlEncoder, HtmlLayout, LinkText, RowLink, UrlPart, escape};
use rowstream_encode::{Column, ColumnKind};
use sha2::{Digest as _, Sha256};

use crate::endpoint::{Cardinality, Endpoint, LinkSegment, LinkTemplate, RefineSettings};
use crate::outcome::RowTotal;

/// The rows of a page if the request doesn't choose another number.
pub(crate) const ROWS: u64 = 100;
/// The most bytes of the links that sort a page's rows. Each of them repeats the query, so without
/// a bound a long one would be multiplied by the number of columns.
const MOST_SORT_LINKS: usize = 64 * 1024;
/// A page of a list without a key has no next page, but one with so many times its rows.
const LONGER: u64 = 10;
/// Characters that are encoded: all except RFC 3986's unreserved characters.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The parameters that choose the first row of a page.
const PLACE: [&str; 2] = ["_after", "offset"];
const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:1.5rem 1.5rem 4rem;color-scheme:light dark}\
    h1{font-size:1.25rem}table{border-collapse:collapse}th,td{border-bottom:1px solid #8884;padding:.2rem .6rem;\
    text-align:left;vertical-align:top;white-space:pre-wrap;overflow-wrap:anywhere;max-width:40rem}\
    td{unicode-bidi:plaintext}thead{position:sticky;top:0;background:Canvas}td.n{text-align:right;\
    font-variant-numeric:tabular-nums}td i{opacity:.5}input{display:block;box-sizing:border-box;width:100%;min-width:5rem}\
    #cut{position:fixed;bottom:0;left:0;right:0;margin:0;padding:.5rem 1.5rem;background:#b00020;color:#fff}\
    body:has(#end) #cut{display:none}";
/// The page can load and run nothing except [`STYLE`], and no other site can frame it.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let style = BASE64_STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    );
    policy.parse().expect("it is ASCII")
});

/// The `Content-Security-Policy` of pages.
pub(crate) fn policy() -> HeaderValue {
    POLICY.clone()
}

/// The page around the rows of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Page {
    /// The path of the request, as it was sent.
    path: String,
    summary: Option<String>,
    /// The query, without conditions that are empty.
    pairs: Vec<Pair>,
    /// The refinements that requests may ask for.
    refine: Option<RefineSettings>,
    /// The names of the endpoint's parameters.
    params: Vec<String>,
    links: Vec<LinkTemplate>,
    limit: RowLimit,
}

/// The most rows of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RowLimit {
    /// The statement decides.
    #[default]
    Own,
    /// The request hasn't chosen a number: [`ROWS`].
    Default,
    /// The request has chosen this number.
    Chosen(u64),
}

/// The rows of a page that has ended.
pub(crate) struct PageEnding<'a> {
    /// The number of rows.
    pub(crate) rows: u64,
    /// The number of all rows of the list, if it's known.
    pub(crate) total: Option<RowTotal>,
    /// The cursor of the next page.
    pub(crate) next: Option<&'a str>,
}

impl Page {
    /// The page of a request.
    pub(crate) fn new(endpoint: &Endpoint, uri: &Uri, limit: RowLimit) -> Self {
        let name = |param: &Param| param.name.clone();
        let params: Vec<_> = endpoint.params.iter().map(name).collect();
        let pairs = pairs(uri.query().unwrap_or_default());
        let is_kept = |(name, value): &Pair| !value.is_empty() || params.contains(name) || name == "limit";
        Self {
            path: uri.path().to_owned(),
            summary: endpoint.summary.clone(),
            pairs: pairs.filter(is_kept).collect(),
            refine: endpoint.refine_settings().cloned(),
            links: endpoint.links.clone(),
            params,
            limit,
        }
    }

    /// The encoder of its rows, which begins with the page's head.
    pub(crate) fn encoder(&self, cardinality: Cardinality, columns: &[Column]) -> HtmlEncoder {
        let layout = match cardinality {
            Cardinality::Many => HtmlLayout::Lines,
            Cardinality::One | Cardinality::Value => HtmlLayout::Fields,
        };
        HtmlEncoder::new(layout, columns, &self.row_links(columns), self.head(layout, columns))
    }

    /// The links in rows of these columns. Those with other columns are left out.
    fn row_links(&self, columns: &[Column]) -> Vec<RowLink> {
        let mut links: Vec<(usize, RowLink)> = Vec::new();
        for template in self.links.iter().filter(|_| !self.renames()) {
            let Some((column, mut link)) = self.row_link(template, columns) else { continue };
            let ends_in_value = matches!(template.segments.last(), Some(LinkSegment::Column(_)));
            let is_taken = links.iter().any(|(other, link)| *other == column && link.text == LinkText::Value);
            if ends_in_value && !is_taken {
                link.text = LinkText::Value;
            }
            links.push((column, link));
        }
        links.into_iter().map(|(_, link)| link).collect()
    }

    /// A link with a label, and the last one of its columns.
    fn row_link(&self, template: &LinkTemplate, columns: &[Column]) -> Option<(usize, RowLink)> {
        let (mut url, mut last, mut label) = (vec![UrlPart::Text(self.root())], None, "");
        for (index, segment) in template.segments.iter().enumerate() {
            if index > 0 {
                url.push(UrlPart::Text("/".to_owned()));
            }
            url.push(match segment {
                LinkSegment::Text(text) => {
                    label = text;
                    UrlPart::Text(encoded(text))
                }
                LinkSegment::Column(name) => {
                    let column = columns.iter().position(|column| column.name == *name)?;
                    last = last.max(Some(column));
                    UrlPart::Column(column)
                }
            });
        }
        Some((last?, RowLink { url, text: LinkText::Label(label.to_owned()) }))
    }

    /// The URL and the text of a link without columns.
    fn fixed_link(&self, template: &LinkTemplate) -> Option<(String, String)> {
        let text = |segment: &LinkSegment| match segment {
            LinkSegment::Text(text) => Some(text.clone()),
            LinkSegment::Column(_) => None,
        };
        let texts: Vec<_> = template.segments.iter().map(text).collect::<Option<_>>()?;
        let path: Vec<_> = texts.iter().map(|text| encoded(text)).collect();
        Some((format!("{}{}", self.root(), path.join("/")), texts.last()?.clone()))
    }

    /// The server's root, relative to the page.
    fn root(&self) -> String {
        let depth = self.path.matches('/').count().saturating_sub(1);
        if depth == 0 { "./".to_owned() } else { "../".repeat(depth) }
    }

    /// True if the request gives columns other names, which may be those of others.
    fn renames(&self) -> bool {
        self.pairs.iter().any(|(name, value)| name == "select" && value.contains(':'))
    }

    /// The values of a parameter.
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The page's query without its place and without `changed`, and then with `pair`.
    fn query(&self, changed: &str, pair: Option<(&str, &str)>) -> String {
        let is_kept = |name: &str| !PLACE.contains(&name) && name != changed;
        let pairs = self.pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let pairs = pairs.filter(|(name, _)| is_kept(name)).chain(pair);
        let pairs: Vec<_> =
            pairs.map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
        format!("?{}", pairs.join("&"))
    }

    fn head(&self, layout: HtmlLayout, columns: &[Column]) -> Vec<u8> {
        let path = percent_decode(&self.path).unwrap_or(self.path.as_str().into());
        let title = if path.is_empty() { "Rows" } else { &*path };
        let mut out = Markup::default();
        out.tags("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
        out.tags("<meta name=\"viewport\" content=\"width=device-width\">\n<title>").text(title);
        out.tags("</title>\n<style>").tags(STYLE).tags("</style>\n<h1><bdi>").text(title);
        out.tags("</bdi></h1>\n");
        if let Some(summary) = &self.summary {
            out.tags("<p><bdi>").text(summary).tags("</bdi></p>\n");
        }
        out.tags("<p id=\"cut\">This page is incomplete: rows are missing. If it has stopped loading, reload it.</p>\n");
        self.write_links(&mut out);
        let filters = layout == HtmlLayout::Lines
            && !self.has_line_breaks()
            && columns.iter().any(|column| self.filters_by(column));
        if filters {
            self.write_form(columns, &mut out);
        }
        out.tags("<table>\n");
        if layout == HtmlLayout::Lines {
            self.write_header(columns, filters, &mut out);
        }
        out.tags("<tbody>\n");
        out.0
    }

    /// True if a text of the query has a line break, which a browser's form would change.
    fn has_line_breaks(&self) -> bool {
        let breaks = ['\r', '\n'];
        self.pairs.iter().any(|(name, value)| name.contains(breaks) || value.contains(breaks))
    }

    /// Writes the links to pages that don't depend on rows.
    fn write_links(&self, out: &mut Markup) {
        out.tags("<p>");
        if self.path.len() > 1 {
            out.tags("<a href=\"").text(&self.root()).tags("\">All endpoints</a>");
        }
        for template in self.links.iter().filter(|template| template.columns().next().is_none()) {
            if let Some((url, text)) = self.fixed_link(template) {
                out.link(&url, &text);
            }
        }
        out.tags("</p>\n");
    }

    /// Writes the filters' form, whose fields are in the table's header.
    fn write_form(&self, columns: &[Column], out: &mut Markup) {
        out.tags("<form id=\"filters\">");
        let has_field =
            |name: &str| columns.iter().any(|column| column.name == name && self.filters_by(column));
        let kept = |name: &str| !PLACE.contains(&name) && !has_field(name);
        for (name, value) in self.pairs.iter().filter(|(name, _)| kept(name)) {
            out.tags("<input type=\"hidden\" name=\"").text(name).tags("\" value=\"").text(value).tags("\">");
        }
        out.tags("<button>Filter</button> <code>eq.x</code> equal, <code>neq.x</code> not equal, ");
        out.tags("<code>gt.1</code> greater, <code>lt.1</code> less, <code>like.*x*</code> contains, ");
        out.tags("<code>in.(x,y)</code> one of, <code>is.null</code> NULL</form>\n");
    }

    /// Writes the names of the columns, with links that sort the rows, and the fields for filters.
    fn write_header(&self, columns: &[Column], filters: bool, out: &mut Markup) {
        out.tags("<thead>\n<tr>");
        let has_links = self.query("order", None).len() * columns.len() <= MOST_SORT_LINKS;
        columns.iter().for_each(|column| self.write_name(column, (columns, has_links), out));
        out.tags("</tr>\n");
        if filters {
            out.tags("<tr>");
            columns.iter().for_each(|column| self.write_fields(column, out));
            out.tags("</tr>\n");
        }
        out.tags("</thead>\n");
    }

    /// Writes a column's name. Its link sorts by the column, or in the other direction if the rows
    /// are sorted by it.
    fn write_name(
        &self,
        Column { name, .. }: &Column,
        (columns, has_links): (&[Column], bool),
        out: &mut Markup,
    ) {
        let order = self.values("order").next().unwrap_or_default();
        let (upwards, downwards) = (format!("{name}.asc"), format!("{name}.desc"));
        let is_sorted = if order == upwards {
            Some(("ascending", " \u{25b2}"))
        } else if order == downwards {
            Some(("descending", " \u{25bc}"))
        } else {
            None
        };
        // A name with such a character would be read as something else.
        let is_plain = !name.contains([',', '(']) && !name.contains("->") && name.trim() == name;
        let sorts = |descending: bool| {
            let settings = self.refine.as_ref().filter(|_| has_links && is_plain && !self.renames());
            settings.is_some_and(|settings| settings.sorts_by(name, descending, columns))
        };
        let next = if order != upwards && sorts(false) {
            Some(upwards)
        } else {
            Some(downwards).filter(|_| sorts(true))
        };
        match is_sorted {
            Some((word, _)) => out.tags("<th scope=\"col\" aria-sort=\"").tags(word).tags("\">"),
            None => out.tags("<th scope=\"col\">"),
        };
        match &next {
            Some(next) => {
                let url = self.query("order", Some(("order", next)));
                out.tags("<a href=\"").text(&url).tags("\">").text(name).tags("</a>")
            }
            None => out.text(name),
        };
        out.tags(is_sorted.map_or("", |(_, arrow)| arrow));
    }

    /// Writes a field for each condition on a column, and empty ones: numbers and times have at least
    /// two fields, for a range.
    fn write_fields(&self, column: &Column, out: &mut Markup) {
        out.tags("<td>");
        if !self.filters_by(column) {
            return;
        }
        let name = &column.name;
        let least: usize = if has_ranges(column.kind) { 2 } else { 1 };
        let empty = least.saturating_sub(self.values(name).count());
        for value in self.values(name).chain(std::iter::repeat_n("", empty)) {
            out.tags("<input form=\"filters\" name=\"").text(name).tags("\" aria-label=\"filter of ");
            out.text(name).tags("\" value=\"").text(value).tags("\">");
        }
    }

    /// True if requests may compare the column.
    fn filters_by(&self, Column { name, .. }: &Column) -> bool {
        let settings = self.refine.as_ref().filter(|_| !self.params.contains(name) && !self.renames());
        settings.is_some_and(|settings| settings.filters_by(name))
    }

    /// The end of the page. Its last element shows that it's whole.
    pub(crate) fn end(&self, end: &PageEnding<'_>) -> Vec<u8> {
        let mut out = Markup::default();
        out.tags("</table>\n<p>");
        out.tags(&format!("{} {}", end.rows, if end.rows == 1 { "row" } else { "rows" }));
        if let Some(total) = end.total {
            let about = if total.is_planned { "about " } else { "" };
            out.tags(&format!(" of {about}{}", total.rows));
        }
        if self.limit == RowLimit::Default && end.rows == ROWS {
            out.tags(", the most on a page.");
        }
        let place = self.pairs.iter().find(|(name, _)| PLACE.contains(&name.as_str()));
        if place.is_some() {
            out.link(&self.query("", None), "First page");
        }
        if let Some(next) = end.next {
            out.link(&self.query("", Some(("_after", next))), "Next page");
        }
        let most = match self.limit {
            RowLimit::Own => None,
            RowLimit::Default => Some(ROWS),
            RowLimit::Chosen(rows) => Some(rows),
        };
        if let Some(most) = most.filter(|most| end.rows >= *most || place.is_some()) {
            let longer = most.max(ROWS).saturating_mul(LONGER);
            if i64::try_from(longer).is_ok() {
                let longer = longer.to_string();
                out.link(&self.query("limit", Some(("limit", &longer))), &format!("{longer} rows"));
            }
            out.link(&self.query("limit", Some(("limit", ""))), "All rows");
        }
        out.tags("</p>\n<div id=\"end\"></div>\n");
        out.0
    }
}

/// True for numbers, dates and times.
fn has_ranges(kind: ColumnKind) -> bool {
    use ColumnKind::{Any, Bool, Bytes, Json, List, Text, Uuid};
    !matches!(kind, Any | Bool | Bytes | Json | List(_) | Text | Uuid)
}

/// The decoded pairs of a query. Those that can't be decoded are left out, because a request with
/// such a pair is refused.
fn pairs(query: &str) -> impl Iterator<Item = Pair> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((query_decode(name)?, query_decode(value)?))
    })
}

/// A text as a part of a URL.
fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// HTML that is being written.
#[derive(Default)]
struct Markup(Vec<u8>);

impl Markup {
    /// Appends HTML.
    fn tags(&mut self, html: &str) -> &mut Self {
        self.0.extend_from_slice(html.as_bytes());
        self
    }

    /// Appends a text, escaped for its place between tags or in a quoted attribute.
    fn text(&mut self, text: &str) -> &mut Self {
        escape(text, &mut self.0);
        self
    }

    /// Appends a link after a blank.
    fn link(&mut self, url: &str, text: &str) {
        self.tags(" <a href=\"").text(url).tags("\">").text(text).tags("</a>");
    }
}
