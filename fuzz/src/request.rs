//! Parts of client requests: the query, `Accept`, `Accept-Encoding` and the path, one per line of
//! the input.

use http::{HeaderMap, HeaderName, HeaderValue};
use rowstream::database::DatabaseKind;
use rowstream::endpoint::Endpoint;
use rowstream::fuzzing::read_endpoint;
use rowstream::negotiate::{self, Encoding};
use rowstream::route::{Router, Suffix};
use rowstream_core::cursor::Signer;
use rowstream_core::params::{Param, ParamPlace, ParamType, ParamValue, bind};
use rowstream_encode::Format;

/// A request for an endpoint with a parameter of each type, single and as a list.
pub fn request(data: &[u8]) {
    let mut lines = data.splitn(4, |byte| *byte == b'\n');
    let mut line = || lines.next().unwrap_or_default();
    let (query, accept, encoding, path) = (line(), line(), line(), line());
    if let Ok(query) = std::str::from_utf8(query) {
        assert_bound(query, encoding);
    }
    if let Ok(accept) = HeaderValue::from_bytes(accept) {
        assert_format(&accept);
    }
    if let Ok(encoding) = HeaderValue::from_bytes(encoding) {
        assert_encoding(&encoding);
    }
    if let Ok(path) = std::str::from_utf8(path) {
        assert_route(path);
    }
}

fn assert_bound(query: &str, header: &[u8]) {
    let params = params();
    let header =
        HeaderValue::from_bytes(header).ok().map(|value| (HeaderName::from_static("x-tenant"), value));
    let headers = HeaderMap::from_iter(header);
    let bound = match bind(&params, &[("id", "7")], Some(query), &headers) {
        Ok(bound) => bound,
        Err(error) => {
            assert_eq!(error.status().as_u16(), 400);
            assert!(!error.parameters().is_empty() && !error.message().is_empty());
            let problem: serde_json::Value =
                serde_json::from_str(&error.problem()).expect("a problem is JSON");
            return assert_eq!(problem["code"], "invalid_parameter");
        }
    };
    if let Some(after) = &bound.after {
        assert!(Signer::new("", &[]).open(after).is_none(), "a cursor can't be made up");
    }
    assert_eq!(bound.values.len(), params.len());
    for (param, value) in params.iter().zip(&bound.values) {
        match value {
            ParamValue::List(items) => {
                assert!(param.list);
                items.iter().for_each(|item| assert_value(param, item));
            }
            value => assert!(!param.list || *value == ParamValue::Null),
        }
        if !param.list {
            assert_value(param, value);
        }
    }
    if let Some(name) = bound.download {
        assert!(!name.is_empty() && !name.contains(['/', '\\', '\r', '\n', '\0']));
    }
}

fn params() -> Vec<Param> {
    let mut params = vec![
        Param { place: ParamPlace::Path, ..Param::new("id", ParamType::Integer) },
        Param {
            place: ParamPlace::Header {
                name: HeaderName::from_static("x-tenant"),
                spelling: "X-Tenant".to_owned(),
            },
            default: Some(ParamValue::Null),
            ..Param::new("tenant", ParamType::Text)
        },
    ];
    for kind in ParamType::ALL {
        let param = Param { default: Some(ParamValue::Null), ..Param::new(kind.name(), kind) };
        params.push(Param { list: true, name: format!("{}s", kind.name()), ..param.clone() });
        params.push(param);
    }
    params
}

/// Checks that a value has its parameter's type, and that its text parses to the same value.
fn assert_value(param: &Param, value: &ParamValue) {
    let is_of_type = matches!(
        (param.kind, value),
        (_, ParamValue::Null)
            | (ParamType::Integer, ParamValue::Integer(_))
            | (ParamType::Number, ParamValue::Number(_))
            | (ParamType::Text, ParamValue::Text(_))
            | (ParamType::Boolean, ParamValue::Boolean(_))
            | (ParamType::Date, ParamValue::Date(_))
            | (ParamType::Timestamp, ParamValue::Timestamp(_))
            | (ParamType::Duration, ParamValue::Duration(_))
            | (ParamType::Uuid, ParamValue::Uuid(_))
            | (ParamType::Json, ParamValue::Json(_))
    );
    assert!(is_of_type, "{param:?} became {value:?}");
    let Some(text) = value.postgres_text() else { return };
    assert!(!text.contains('\0'), "PostgreSQL has no NUL in any text: {value:?}");
    let alone = Param { list: false, ..param.clone() };
    assert_eq!(alone.parse(&text).as_ref(), Ok(value), "{text:?}");
}

fn assert_format(accept: &HeaderValue) {
    for formats in [&Format::ALL[..], &[Format::Csv], &[Format::Ndjson, Format::Json]] {
        match negotiate::choose(&Suffix::None, None, [accept], formats) {
            Ok(choice) => assert!(choice.vary_accept && formats.contains(&choice.format)),
            Err(error) => assert_eq!(error.status().as_u16(), 406),
        }
    }
    // A client that accepts everything isn't refused.
    let all = [accept, &HeaderValue::from_static("*/*;q=0.001")];
    if !accept.as_bytes().contains(&b'0') {
        assert!(negotiate::choose(&Suffix::None, None, all, &[Format::Json]).is_ok());
    }
}

fn assert_encoding(accept: &HeaderValue) {
    let is_refusal = accept.as_bytes().contains(&b'0');
    match Encoding::choose([accept]) {
        Ok(encoding) => {
            if let Encoding::Required(_) = encoding {
                assert!(is_refusal, "nothing refuses identity");
            }
            assert_eq!(encoding.coding(0).is_some(), matches!(encoding, Encoding::Required(_)));
        }
        Err(error) => {
            assert!(is_refusal);
            assert_eq!(error.status().as_u16(), 406);
        }
    }
}

/// Checks that encoding a path differently doesn't change if it's found.
fn assert_route(path: &str) {
    let endpoints = ["/a/{id}", "/a/b", "/ä x/{a}/{b}/c", "/"].map(endpoint);
    let router = Router::new(endpoints.iter().map(Endpoint::route)).expect("none meets another");
    let Ok(found) = router.find(path) else { return };
    let Some(found) = found else { return };
    let names: Vec<_> = found.args.iter().map(|(name, _)| *name).collect();
    let expected: &[&[&str]] = &[&["id"], &[], &["a", "b"], &[]];
    assert_eq!(names, expected[found.endpoint]);
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    let mut values = found.args.iter().map(|(_, value)| encoded(value));
    let segments = endpoints[found.endpoint].path.split('/');
    let segments = segments.map(|segment| match segment.starts_with('{') {
        true => values.next().expect("each parameter has a value"),
        false => encoded(segment),
    });
    let mut again = segments.collect::<Vec<_>>().join("/");
    match &found.suffix {
        Suffix::None => {}
        Suffix::Format(format) => again = again + "." + format.name(),
        Suffix::Unknown(name) => again = again + "." + name,
    }
    assert_eq!(router.find(&again).ok().flatten().as_ref(), Some(&found), "{again}");
}

fn endpoint(path: &str) -> Endpoint {
    let names: Vec<_> =
        path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}')).collect();
    // A suffix is possible only after an integer.
    let kind = |name: &str| if name == "id" { "integer" } else { "text" };
    let declared: String = names.iter().map(|name| format!("{name} = \"{}\"\n", kind(name))).collect();
    let used: String = names.iter().map(|name| format!(", :{name}")).collect();
    let text = format!("/*\npath = \"{path}\"\n[params]\n{declared}*/ select 1{used}");
    let (endpoint, errors) = read_endpoint("a.sql".as_ref(), &text, DatabaseKind::Postgres);
    endpoint.unwrap_or_else(|| panic!("{errors:?}"))
}
