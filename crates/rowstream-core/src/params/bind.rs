//! Reads and binds all parameters of a request.

use std::borrow::Cow;

use http::HeaderMap;
use rowstream_encode::{BytesForm, Choice, CsvChoice, Intervals, Nulls, Numbers, Separator, ValueOptions};
use serde_json::Value as Json;
use serde_json::value::{RawValue, to_raw_value};

use super::{BodyParams, CouchFeed, FollowMode, Shard, body};
use super::{CLAIMS, Param, ParamPlace, ParamType, ParamValue, percent_decode};
use crate::Error;
use crate::diagnostic::{did_you_mean, is_invisible, list, shown};
use crate::error::bounds;
use crate::params::completeness::Controls;

/// The server's own parameters. They begin with `_`, so that an endpoint's parameters can't have
/// the same names.
const CONTROLS: [&str; 18] = [
    "_format",
    "_after",
    "_follow",
    "_shard",
    "_snapshot",
    "_download",
    "_numbers",
    "_bytes",
    "_intervals",
    "_nulls",
    "_csv_separator",
    "_csv_bom",
    "_csv_null",
    "_csv_guard",
    "_end",
    "_digest",
    "_wait",
    "_explain",
];

/// CouchDB's name for `_follow`. It's a control parameter only if the endpoint has no parameter of
/// this name.
const FEED: &str = "feed";

/// The most pairs in a query. Each is compared with all known names, and a request could contain
/// eight thousand.
const MOST_PAIRS: usize = 1000;

/// The typed values of one request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestValues {
    /// The values, in the order of the endpoint's parameters.
    pub values: Vec<ParamValue>,
    /// `_format`, unchanged.
    pub format: Option<String>,
    /// `_after`: the cursor that the rows resume after.
    pub after: Option<String>,
    /// `_follow`: how the request waits for new rows.
    pub follow: Option<FollowMode>,
    /// `feed`: like `_follow`, and it also selects a format.
    pub feed: Option<CouchFeed>,
    /// `_shard`: the part of a table to read.
    pub shard: Option<Shard>,
    /// `_snapshot`: the token of the snapshot that contains the part.
    pub snapshot: Option<String>,
    /// `_download`: the name under which the response is saved as a file.
    pub download: Option<String>,
    /// `_numbers` and the other parameters for how values are written.
    pub options: ChosenOptions,
    /// `_csv_separator` and the other parameters for CSV.
    pub csv: CsvChoice,
    /// `_end` and the other parameters that ask for proofs of completeness.
    pub completeness: Controls,
    /// `_explain`: `Some(true)` if the request asks for the plans of the statements.
    pub explain: Option<bool>,
    /// True if the request set a value, or left out an optional one. Otherwise all values are the
    /// endpoint's own.
    pub given: bool,
}

/// The value options that a request chooses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChosenOptions {
    numbers: Option<Numbers>,
    bytes: Option<BytesForm>,
    intervals: Option<Intervals>,
    nulls: Option<Nulls>,
}

impl ChosenOptions {
    /// The chosen options, and those of `options` for the others.
    pub fn over(self, options: ValueOptions) -> ValueOptions {
        ValueOptions {
            numbers: self.numbers.unwrap_or(options.numbers),
            bytes: self.bytes.unwrap_or(options.bytes),
            intervals: self.intervals.unwrap_or(options.intervals),
            nulls: self.nulls.unwrap_or(options.nulls),
        }
    }

    /// The value that a request chooses for an option. `name` is the control parameter's name
    /// without the underscore.
    pub fn of(self, name: &str) -> Option<&'static str> {
        match name {
            "numbers" => self.numbers.map(Choice::name),
            "bytes" => self.bytes.map(Choice::name),
            "intervals" => self.intervals.map(Choice::name),
            "nulls" => self.nulls.map(Choice::name),
            _ => None,
        }
    }
}

/// Reads each parameter from its declared part of the request. `path` has the decoded `{name}`
/// segments. `query` is the text after the `?`, not decoded.
///
/// # Errors
/// 400 with the names of unknown, repeated, missing or wrong parameters. Reading stops at the tenth
/// one, because each may have to be compared with all known names. Also 400 for a query with too
/// many pairs.
pub fn bind<N: AsRef<str>, V: AsRef<str>>(
    params: &[Param],
    path: &[(N, V)],
    query: Option<&str>,
    headers: &HeaderMap,
) -> Result<RequestValues, Error> {
    bind_with(None, params, path, query, None, headers)
}

/// The claims of a token.
pub type Claims = serde_json::Map<String, Json>;

/// The claim of a parameter: `jwt.sub`, or a member of an object: `jwt.realm_access.roles`.
pub fn claim<'a>(claims: &'a Claims, param: &str) -> Option<&'a Json> {
    claim_at(claims, param.strip_prefix(CLAIMS)?)
}

/// The claim `sub`, or `realm_access.roles`, a member of the claim `realm_access`. Issuers put URLs
/// before the names of their own claims (`https://login.example/roles`), so a claim with a longer
/// name has precedence over a member of another one.
pub fn claim_at<'a>(claims: &'a Claims, path: &str) -> Option<&'a Json> {
    if let Some(claim) = claims.get(path) {
        return Some(claim).filter(|claim| !claim.is_null());
    }
    let member = |(at, _)| claim_at(claims.get(&path[..at])?.as_object()?, &path[at + 1..]);
    path.rmatch_indices('.').find_map(member)
}

/// [`bind`] with the claims of the request's token, and the parameters in its body.
///
/// # Errors
/// Those of [`bind`]. 400: a parameter is both in the query and in the body.
pub fn bind_with<N: AsRef<str>, V: AsRef<str>>(
    claims: Option<&Claims>,
    params: &[Param],
    path: &[(N, V)],
    query: Option<&str>,
    body: Option<&BodyParams>,
    headers: &HeaderMap,
) -> Result<RequestValues, Error> {
    check_pairs(query)?;
    let pairs = || query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let mut texts = RequestTexts::new(params);
    for (name, value) in path {
        texts.path(name.as_ref(), value.as_ref());
    }
    for pair in pairs() {
        texts.query(pair);
    }
    if let Some(body) = body {
        texts.body(body);
    }
    texts.headers(headers);
    texts.claims(claims);
    texts.finish()
}

/// Checks that a query isn't too long to read.
///
/// # Errors
/// 400: it has too many pairs.
pub fn check_pairs(query: Option<&str>) -> Result<(), Error> {
    check_count(query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()).count())
}

/// Checks a number of pairs.
///
/// # Errors
/// 400: there are too many.
pub(super) fn check_count(count: usize) -> Result<(), Error> {
    if count > MOST_PAIRS { Err(Error::too_many_pairs(count, MOST_PAIRS)) } else { Ok(()) }
}

/// The reason why a text couldn't be decoded.
type DecodeFailure = &'static str;

/// The message for a parameter of the query that the body has too.
pub const IN_BOTH: &str = "it is both in the URL and in the body";

/// The message for a name that occurs twice.
pub const MORE_THAN_ONCE: &str = "it is given more than once";

/// The message for a name or value that [`query_decode`] can't decode.
pub const BAD_ENCODING: DecodeFailure = "its percent-encoding is not valid";

/// The text of a parameter.
type DecodedText<'a> = Result<Cow<'a, str>, DecodeFailure>;

/// The texts of a request, before they're converted to types.
struct RequestTexts<'a> {
    params: &'a [Param],
    /// The texts of parameters with the parameters' indices, in the order of the request.
    texts: Vec<(usize, DecodedText<'a>)>,
    /// The indices of parameters that the query has, once the body is read.
    in_query: Vec<usize>,
    /// The JSON of claims and of parameters in the body, with their indices.
    members: Vec<(usize, Cow<'a, RawValue>)>,
    /// The names of control parameters in a JSON body, even those that are `null`.
    controls: Vec<String>,
    /// The server's own parameters, without the endpoint's values.
    found: RequestValues,
    wrong: Vec<(String, String)>,
    /// The number of pairs that weren't read because there were too many errors.
    unread: usize,
}

impl<'a> RequestTexts<'a> {
    fn new(params: &'a [Param]) -> Self {
        Self {
            params,
            texts: Vec::new(),
            in_query: Vec::new(),
            members: Vec::new(),
            controls: Vec::new(),
            found: RequestValues::default(),
            wrong: Vec::new(),
            unread: 0,
        }
    }

    fn path(&mut self, name: &str, value: &'a str) {
        if let Some(index) = self.index(name, |place| *place == ParamPlace::Path) {
            self.texts.push((index, Ok(value.into())));
        }
    }

    fn query(&mut self, pair: &str) {
        if self.is_enough() {
            self.unread += 1;
            return;
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = query_decode(value).ok_or(BAD_ENCODING);
        let Some(name) = query_decode(name) else { return self.wrong(name, BAD_ENCODING) };
        if name.starts_with('_') {
            return self.control(&name, value);
        }
        match self.index(&name, |place| *place == ParamPlace::Query) {
            Some(index) if self.in_query.contains(&index) => self.wrong(&name, IN_BOTH),
            Some(index) => self.texts.push((index, value.map(Cow::Owned))),
            None if name == FEED => self.control(FEED, value),
            None => self.unknown(&name),
        }
    }

    fn body(&mut self, body: &'a BodyParams) {
        self.in_query = self.texts.iter().map(|(index, _)| *index).collect();
        self.in_query.dedup();
        match body {
            BodyParams::Form(form) => {
                form.split('&').filter(|pair| !pair.is_empty()).for_each(|pair| self.query(pair));
            }
            BodyParams::Json(members) => members.iter().for_each(|(name, json)| self.member(name, json)),
        }
    }

    /// Reads a member of a JSON object, like a pair of a query.
    fn member(&mut self, name: &str, json: &'a RawValue) {
        if self.is_enough() {
            self.unread += 1;
            return;
        }
        let index = self.index(name, |place| *place == ParamPlace::Query);
        match index.filter(|_| !name.starts_with('_')) {
            Some(index) if self.in_query.contains(&index) => self.wrong(name, IN_BOTH),
            Some(index) if self.members.iter().any(|(of, _)| *of == index) => {
                self.wrong(name, MORE_THAN_ONCE);
            }
            Some(index) => self.members.push((index, Cow::Borrowed(json))),
            None if is_control(name) => self.control_member(name, json),
            None => self.unknown(name),
        }
    }

    /// Reads a control parameter that is a member of a JSON object.
    fn control_member(&mut self, name: &str, json: &'a RawValue) {
        if self.controls.iter().any(|of| of == name) {
            return self.wrong(name, MORE_THAN_ONCE);
        }
        self.controls.push(name.to_owned());
        match body::control(json) {
            Ok(Some(text)) => self.control(name, Ok(text)),
            Ok(None) => {}
            Err(why) => self.wrong(name, why),
        }
    }

    fn control(&mut self, name: &str, value: Result<String, DecodeFailure>) {
        let found = &mut self.found;
        let taken = match name {
            "_format" => take(&mut found.format, value, |text| Ok(text.to_owned())),
            "_after" => take(&mut found.after, value, |text| Ok(text.to_owned())),
            "_follow" => take(&mut found.follow, value, choice),
            FEED => take(&mut found.feed, value, choice),
            "_shard" => take(&mut found.shard, value, Shard::parse),
            "_snapshot" => take(&mut found.snapshot, value, |text| Ok(text.to_owned())),
            "_download" => take(&mut found.download, value, file_name),
            "_numbers" => take(&mut found.options.numbers, value, choice),
            "_bytes" => take(&mut found.options.bytes, value, choice),
            "_intervals" => take(&mut found.options.intervals, value, choice),
            "_nulls" => take(&mut found.options.nulls, value, choice),
            "_csv_separator" => take(&mut found.csv.separator, value, separator),
            "_csv_bom" => take(&mut found.csv.bom, value, switch),
            "_csv_null" => take(&mut found.csv.null, value, CsvChoice::null),
            "_csv_guard" => take(&mut found.csv.guard, value, guard),
            "_end" => take(&mut found.completeness.end, value, choice),
            "_digest" => take(&mut found.completeness.digest, value, choice),
            "_wait" => take(&mut found.completeness.wait, value, choice),
            "_explain" => take(&mut found.explain, value, switch),
            "_count" => Err("this endpoint has no totals: set `total = true` in its file".to_owned()),
            _ => return self.unknown(name),
        };
        if let Err(message) = taken {
            self.wrong(name, message);
        }
    }

    fn headers(&mut self, headers: &'a HeaderMap) {
        for (index, param) in self.params.iter().enumerate() {
            if let ParamPlace::Header { name, .. } = &param.place {
                let read = |value: &'a http::HeaderValue| {
                    std::str::from_utf8(value.as_bytes())
                        .map(Cow::Borrowed)
                        .map_err(|_| "the header is not UTF-8")
                };
                self.texts.extend(headers.get_all(name).iter().map(|value| (index, read(value))));
            }
        }
    }

    /// A claim is a value like a member of a body: an empty list isn't a missing one. A text has the JSON of
    /// lists and objects, because the client can't change its token.
    fn claims(&mut self, claims: Option<&Claims>) {
        for (index, param) in self.params.iter().enumerate() {
            let own = claims.filter(|_| param.place == ParamPlace::Claim);
            if let Some(claim) = own.and_then(|claims| claim(claims, &param.name)) {
                let is_text = param.kind == ParamType::Text && !param.list;
                let json = match claim {
                    Json::Array(_) | Json::Object(_) if is_text => to_raw_value(&claim.to_string()),
                    _ => to_raw_value(claim),
                };
                let json = json.expect("a claim is JSON");
                self.members.push((index, Cow::Owned(json)));
            }
        }
    }

    fn index(&self, name: &str, place: impl Fn(&ParamPlace) -> bool) -> Option<usize> {
        self.params.iter().position(|param| param.name == name && place(&param.place))
    }

    /// Returns true if there are so many errors that we don't read the rest.
    fn is_enough(&self) -> bool {
        self.wrong.len() >= bounds::PARAMETERS
    }

    fn wrong(&mut self, name: &str, message: impl Into<String>) {
        // The message puts names in backticks itself.
        let name = shown(name).trim_matches('`').to_owned();
        self.wrong.push((name, message.into()));
    }

    fn unknown(&mut self, name: &str) {
        let elsewhere = self.params.iter().find(|param| param.name == name).map(|param| &param.place);
        let message = match elsewhere {
            Some(ParamPlace::Path) => "it is a part of the path".to_owned(),
            Some(ParamPlace::Header { spelling, .. }) => format!("it is read from the header `{spelling}`"),
            Some(ParamPlace::Claim) => "it is read from the token".to_owned(),
            _ => match did_you_mean(name, self.query_names()) {
                Some(near) => format!("this endpoint has no such parameter; did you mean `{near}`?"),
                None => "this endpoint has no such parameter".to_owned(),
            },
        };
        self.wrong(name, message);
    }

    fn query_names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let declared = self.params.iter().filter(|param| param.place == ParamPlace::Query);
        declared.map(|param| param.name.as_str()).chain(CONTROLS)
    }

    fn finish(mut self) -> Result<RequestValues, Error> {
        let mut values = Vec::with_capacity(self.params.len());
        let (texts, members) = (std::mem::take(&mut self.texts), std::mem::take(&mut self.members));
        let is_optional = |param: &Param| param.default == Some(ParamValue::Null);
        let given = !texts.is_empty() || !members.is_empty() || self.params.iter().any(is_optional);
        for (index, param) in self.params.iter().enumerate() {
            if self.is_enough() {
                self.unread += 1;
                continue;
            }
            let member =
                members.iter().find(|(of, _)| *of == index).map(|(_, json)| body::value(param, json));
            let given = texts.iter().filter(|(of, _)| *of == index).map(|(_, text)| text);
            let read = match member.transpose() {
                Ok(Some(Some(value))) => Ok(value),
                Ok(_) => value(param, given),
                Err(why) => Err(why),
            };
            match read {
                Ok(value) => values.push(value),
                Err(message) => self.wrong(&param.name, message),
            }
        }
        if !self.wrong.is_empty() {
            return Err(Error::invalid_parameters_before(self.wrong, self.unread));
        }
        Ok(RequestValues { values, given, ..self.found })
    }
}

/// True for the name of a control parameter.
fn is_control(name: &str) -> bool {
    CONTROLS.contains(&name) || name == FEED || name == "_count"
}

/// The value of a parameter, from all its texts in the request.
fn value<'a>(
    param: &Param,
    texts: impl Iterator<Item = &'a DecodedText<'a>> + Clone,
) -> Result<ParamValue, String> {
    if !param.list && texts.clone().nth(1).is_some() {
        return Err(MORE_THAN_ONCE.to_owned());
    }
    // A form sends each of its fields, even those that the user left empty.
    let fills_in = param.default.is_some() && !param.can_be_empty();
    let mut texts = texts.filter(|text| !(fills_in && text.as_ref().is_ok_and(|text| text.is_empty())));
    let Some(first) = texts.next() else {
        return param.default.clone().ok_or_else(|| "it is missing".to_owned());
    };
    let read = |text: &DecodedText<'_>| {
        let text = text.as_ref().map_err(|why| (*why).to_owned())?;
        param.parse(text).map_err(|message| param.hinted(text, message))
    };
    let mut values = match read(first)? {
        ParamValue::List(items) => items,
        value => return Ok(value),
    };
    for text in texts {
        match read(text)? {
            ParamValue::List(items) => values.extend(items),
            value => return Ok(value),
        }
    }
    Ok(ParamValue::List(values))
}

/// Reads a parameter that may occur only once.
fn take<T>(
    taken: &mut Option<T>,
    text: Result<String, DecodeFailure>,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<(), String> {
    let text = text?;
    if taken.is_some() {
        return Err(MORE_THAN_ONCE.to_owned());
    }
    *taken = Some(read(&text)?);
    Ok(())
}

fn separator(text: &str) -> Result<Separator, String> {
    let found = Separator::from_name(text);
    found.ok_or_else(|| {
        format!("{} isn't a separator: write `comma`, `semicolon`, `tab` or `pipe`", shown(text))
    })
}

/// A request can add the guard against formulas, and can't remove it.
fn guard(text: &str) -> Result<bool, String> {
    (text == "1").then_some(true).ok_or_else(|| format!("{} is not `1`", shown(text)))
}

/// A file name that browsers save without changing it.
fn file_name(text: &str) -> Result<String, String> {
    // The limit of most file systems, with room for an extension.
    const LONGEST: usize = 255 - 16;
    let well = |c: char| !is_invisible(c) && c != '/' && c != '\\';
    let is_well = !matches!(text, "" | "." | "..") && text.len() <= LONGEST && text.chars().all(well);
    match is_well {
        true => Ok(text.to_owned()),
        false => Err("it must be a file name, without folders and invisible characters".to_owned()),
    }
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "1" => Ok(true),
        "0" => Ok(false),
        _ => Err(format!("{} is not one of `0` and `1`", shown(text))),
    }
}

fn choice<T: Choice>(text: &str) -> Result<T, String> {
    T::from_name(text).ok_or_else(|| {
        let names = list(T::ALL.iter().map(|choice| choice.name()));
        format!("{} is not one of {names}", shown(text))
    })
}

/// Decodes a name or value of a query. A `+` is a blank. `None`: its percent-encoding isn't valid.
pub fn query_decode(text: &str) -> Option<String> {
    percent_decode(&text.replace('+', " ")).map(Cow::into_owned)
}
