use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use rowstream_encode::{BytesForm, Intervals, Nulls, Numbers, ValueOptions};

use super::*;

fn param(name: &str, kind: ParamType) -> Param {
    Param::new(name, kind)
}

#[test]
fn texts_become_values() {
    use ParamType::*;
    for (kind, text, expected) in [
        (Integer, "0", Ok("0")),
        (Integer, "-5", Ok("-5")),
        (Integer, "+5", Ok("5")),
        (Integer, "007", Ok("7")),
        (Integer, "9223372036854775807", Ok("9223372036854775807")),
        (Integer, "9223372036854775808", Err("`9223372036854775808` is beyond the integers of 64 bits")),
        (Integer, "-9223372036854775808", Ok("-9223372036854775808")),
        (Integer, "", Err("`` is not an integer")),
        (Integer, " 1", Err("` 1` is not an integer")),
        (Integer, "1.0", Err("`1.0` is not an integer")),
        (Integer, "x\u{1b}[31m\n", Err("`x\\u{1b}[31m\\u{a}` is not an integer")),
        (Number, "12.50", Ok("12.50")),
        (Number, "1e3", Ok("1e3")),
        (Number, "0.1000000000000000055511151231257827", Ok("0.1000000000000000055511151231257827")),
        // As JSON writes them: `null` or a string took their place in the lists of SQLite and MySQL.
        (Number, "+01.e+3", Ok("1e+3")),
        (Number, "-.50", Ok("-0.50")),
        (Number, "5.", Ok("5")),
        (Number, "00", Ok("0")),
        (Number, " 5", Err("` 5` is not a decimal number")),
        (Number, "NaN", Err("`NaN` is not a decimal number")),
        (Number, "Infinity", Err("`Infinity` is not a decimal number")),
        (Text, "", Ok("")),
        (Text, "null", Ok("null")),
        (Text, "ä,b", Ok("ä,b")),
        (Text, "a\0b", Err("`a\\u{0}b` contains a NUL character")),
        (Boolean, "true", Ok("true")),
        (Boolean, "0", Ok("false")),
        (Boolean, "TRUE", Err("`TRUE` is not a boolean (`true`, `false`, `1` or `0`)")),
        (Boolean, "", Err("`` is not a boolean (`true`, `false`, `1` or `0`)")),
        (Date, "2024-02-29", Ok("2024-02-29")),
        (Date, "2023-02-29", Err("`2023-02-29` is not a date (YYYY-MM-DD, such as `2024-01-02`)")),
        (Date, "20240229", Err("`20240229` is not a date (YYYY-MM-DD, such as `2024-01-02`)")),
        (
            Date,
            "2024-02-29T00:00:00",
            Err("`2024-02-29T00:00:00` is not a date (YYYY-MM-DD, such as `2024-01-02`)"),
        ),
        (Date, "-009999-01-01", Err("`-009999-01-01` is not a date (YYYY-MM-DD, such as `2024-01-02`)")),
        (Timestamp, "2024-05-06T07:08:09Z", Ok("2024-05-06T07:08:09Z")),
        (Timestamp, "2024-05-06T07:08:09", Ok("2024-05-06T07:08:09Z")),
        (Timestamp, "2024-05-06t07:08:09.123456z", Ok("2024-05-06T07:08:09.123456Z")),
        (Timestamp, "2024-05-06T07:08:09+02:00", Ok("2024-05-06T05:08:09Z")),
        (Timestamp, "2024-05-06T07:08:09.5-02:30", Ok("2024-05-06T09:38:09.5Z")),
        // A leap second.
        (Timestamp, "2024-06-30T23:59:60Z", Ok("2024-07-01T00:00:00Z")),
        (Timestamp, "2024-06-30T23:59:60", Ok("2024-07-01T00:00:00Z")),
        (Timestamp, "2024-07-01T01:59:60.000+02:00", Ok("2024-07-01T00:00:00Z")),
        (Timestamp, "2024-07-01T01:59:60.5+02:00", Ok("2024-07-01T00:00:00.5Z")),
        // The forms that HTML forms send.
        (Timestamp, "2024-01-12T13:46+06:00", Ok("2024-01-12T07:46:00Z")),
        (Timestamp, "2024-01-12T13:46", Ok("2024-01-12T13:46:00Z")),
        (Timestamp, "2024-01-12T13:46-23:59", Ok("2024-01-13T13:45:00Z")),
        // The hours of RFC 3339.
        (
            Timestamp,
            "2024-01-12T13:46:00+24:00",
            Err(
                "`2024-01-12T13:46:00+24:00` is not a timestamp (YYYY-MM-DDThh:mm:ss, with `Z` or an offset)",
            ),
        ),
        (Timestamp, "2024-01-12T13:46+02:00", Ok("2024-01-12T11:46:00Z")),
        (Timestamp, "2024-02-29", Ok("2024-02-29T00:00:00Z")),
        (Duration, "PT0.1S", Ok("PT0.1S")),
        (Duration, "P1Y2M3DT4H5M6S", Ok("P1Y2M3DT4H5M6S")),
        (Duration, "P2W", Ok("P2W")),
        (Duration, "1h", Ok("PT1H")),
        (Duration, "1h30m", Ok("PT1H30M")),
        (Duration, "500ms", Ok("PT0.5S")),
        (Duration, "1 day, 2 hours", Ok("P1DT2H")),
        (Duration, "0s", Ok("PT0S")),
        (Duration, "1µs", Ok("PT0.000001S")),
        // Databases would make it nothing.
        (Duration, "1ns", Err("`1ns` is finer than a microsecond, the finest duration of databases")),
        (
            Duration,
            "PT0.0000015S",
            Err("`PT0.0000015S` is finer than a microsecond, the finest duration of databases"),
        ),
        (Duration, "P", Err("`P` is not a duration (such as `1h30m`, `500ms` or `PT1H30M`)")),
        (Duration, "5", Err("`5` is not a duration (such as `1h30m`, `500ms` or `PT1H30M`)")),
        (Duration, "-1h", Err("`-1h` is not a duration (such as `1h30m`, `500ms` or `PT1H30M`)")),
        (Duration, "1h ago", Err("`1h ago` is not a duration (such as `1h30m`, `500ms` or `PT1H30M`)")),
        (Duration, "-PT1S", Err("`-PT1S` is not a duration (such as `1h30m`, `500ms` or `PT1H30M`)")),
        (Duration, "pt1s", Err("`pt1s` is not a duration (such as `1h30m`, `500ms` or `PT1H30M`)")),
        (Uuid, "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", Ok("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")),
        (Uuid, "a0eebc999c0b4ef8bb6d6bb9bd380a11", Ok("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")),
        (Uuid, "a0eebc999c0b-4ef8bb6d6bb9bd380a11", Err("`a0eebc999c0b-4ef8bb6d6bb9bd380a11` is not a UUID")),
        (
            Uuid,
            "{a0eebc999c0b4ef8bb6d6bb9bd380a11}",
            Err("`{a0eebc999c0b4ef8bb6d6bb9bd380a11}` is not a UUID"),
        ),
        (
            Uuid,
            "ää0eebc9-9c0b-4ef8-bb6d-6bb9bd380a11",
            Err("`ää0eebc9-9c0b-4ef8-bb6d-6bb9bd380a11` is not a UUID"),
        ),
        (Json, r#" {"b":1.10, "a":[]} "#, Ok(r#" {"b":1.10, "a":[]} "#)),
        (Json, "1e400", Ok("1e400")),
        (Json, r#""\ud800""#, Ok(r#""\ud800""#)),
        (Json, "1 2", Err("`1 2` is not JSON: trailing characters at line 1 column 3")),
        (Json, "{a:1}", Err("`{a:1}` is not JSON: key must be a string at line 1 column 2")),
    ] {
        let parsed = param("p", kind).parse(text).map(|value| value.postgres_text().unwrap());
        assert_eq!(parsed.as_deref().map_err(String::as_str), expected, "{kind:?} {text}");
    }
}

#[test]
fn timestamps_are_in_the_years_1_to_9999() {
    for (text, expected) in [
        ("9999-12-31T23:59:59.999999999Z", Some("9999-12-31T23:59:59.999999999Z")),
        ("9999-12-31T23:59:59+23:59", Some("9999-12-31T00:00:59Z")),
        ("0001-01-01", Some("0001-01-01T00:00:00Z")),
        ("0001-01-01T00:00:00-00:01", Some("0001-01-01T00:01:00Z")),
        ("0001-01-01T00:00:00+00:01", None),
        ("0000-12-31T23:59:59Z", None),
        ("0000-12-31T23:59:59-00:01", Some("0001-01-01T00:00:59Z")),
        ("9999-12-31T23:59:00-00:01", None),
        ("9999-12-31T23:59:60Z", None),
    ] {
        let parsed = param("p", ParamType::Timestamp).parse(text).map(|value| value.postgres_text().unwrap());
        match expected {
            Some(expected) => assert_eq!(parsed.as_deref(), Ok(expected), "{text}"),
            None => {
                assert!(parsed.unwrap_err().contains("is not between the years 1 and 9999 in UTC"), "{text}");
            }
        }
    }
}

#[test]
fn timestamps_that_are_none() {
    for text in [
        "",
        "2023-02-29",
        "2024-05-06Z",
        "2024-05-06+02:00",
        "2024-05-06T07",
        "2024-05-06T07:08.5",
        "2024-05-06T07:08:",
        "2024-05-06T07:08:9",
        "2024-05-06 07:08:09Z",
        "2024-05-06T07:08:09.Z",
        "2024-05-06T07:08:09+02",
        "2024-05-06T07:08:09+02:00[Europe/Berlin]",
        "2024-05-06T25:08:09Z",
        "2024-05-06T07:08:61Z",
        "2024-06-30T23:59:60.5Z",
        "2024-06-30T23:59:60.000000001",
        "2024-07-01T23:59:60.50+02:00",
        "2024-13-06T07:08:09Z",
        "2024-05-06T07:08:09+99:00",
        "2024-05-06T07:08:09+02:60",
        "äääääääääääääääääääää",
    ] {
        let message = param("p", ParamType::Timestamp).parse(text).unwrap_err();
        assert!(
            message.ends_with("is not a timestamp (YYYY-MM-DDThh:mm:ss, with `Z` or an offset)"),
            "{message}"
        );
    }
}

#[test]
fn local_times_have_no_offset() {
    let local = Param { local: true, ..param("p", ParamType::Text) };
    for text in
        ["2024-05-06T07:08:09.5", "2024-05-06 07:08", "2024-05-06", "infinity", "-infinity", "0044-03-15 BC"]
    {
        assert_eq!(local.parse(text), Ok(ParamValue::Text(text.to_owned())));
    }
    for text in
        ["2024-05-06T07:08:09Z", "2024-05-06t07:08+02:00", "2024-05-06 07:08-04", "2024-05-06T07:08[UTC]"]
    {
        let message = local.parse(text).unwrap_err();
        assert!(message.contains("without an offset: write `2026-03-01T09:00:00`"), "{message}");
    }
}

/// A `+` is a blank only in queries and forms, so the hint was false for others.
#[test]
fn a_plus_is_a_blank_in_queries_and_forms() {
    let hint = "; a `+` in a query or a form is a space: write `%2B`";
    let path: &[(&str, &str)] = &[];
    for (kind, text, json) in [
        (ParamType::Integer, "p=+5", r#"{"p": " 5"}"#),
        (ParamType::Number, "p=+5.0", r#"{"p": " 5.0"}"#),
        (ParamType::Timestamp, "p=2024-05-06T07:08:09.5+02:00", r#"{"p": "2024-05-06T07:08:09.5 02:00"}"#),
    ] {
        let refused = |query: Option<&str>, body: Option<BodyParams>| {
            let params = [param("p", kind)];
            let bound = bind_with(None, &params, path, query, body.as_ref(), &HeaderMap::new());
            bound.unwrap_err().to_string()
        };
        let of_query = refused(Some(text), None);
        assert!(of_query.contains(hint), "{of_query}");
        let of_form = refused(None, Some(BodyParams::Form(text.to_owned())));
        assert!(of_form.contains(hint), "{of_form}");
        let of_json = refused(None, Some(BodyParams::read(BodyType::Json, json.as_bytes()).unwrap()));
        assert!(of_json.contains("` is not a") && !of_json.contains('+'), "{of_json}");
    }
    let in_path = [Param { place: ParamPlace::Path, ..param("p", ParamType::Integer) }];
    let of_path = bind(&in_path, &[("p", " 5")][..], None, &HeaderMap::new()).unwrap_err().to_string();
    assert!(of_path.contains("is not an integer") && !of_path.contains('+'), "{of_path}");
}

#[test]
fn bounds_and_allowed_values() {
    use ParamValue::{Integer, Number, Text};
    let between = Param { min: Some(Integer(1)), max: Some(Integer(10)), ..param("p", ParamType::Integer) };
    let number = Param {
        min: Some(Number("-0.5".into())),
        allowed: vec![Number("1".into()), Number("2.50".into())],
        ..param("p", ParamType::Number)
    };
    let text = Param { allowed: vec![Text("a".into()), Text("b".into())], ..param("p", ParamType::Text) };
    for (param, given, expected) in [
        (&between, "1", None),
        (&between, "10", None),
        (&between, "0", Some("`0` is less than 1")),
        (&between, "11", Some("`11` is more than 10")),
        (&number, "1.0", None),
        (&number, "25e-1", None),
        (&number, "-0.51", Some("`-0.51` is less than -0.5")),
        (&number, "3", Some("`3` is not one of `1`, `2.50`")),
        (&text, "b", None),
        (&text, "c", Some("`c` is not one of `a`, `b`")),
    ] {
        assert_eq!(param.parse(given).err().as_deref(), expected, "{given}");
    }
}

#[test]
fn array_literals() {
    let text = |text: &str| ParamValue::Text(text.to_owned());
    for (items, expected) in [
        (vec![], "{}"),
        (vec![text("a"), text("b")], r#"{"a","b"}"#),
        (vec![text("")], r#"{""}"#),
        (vec![text("NULL")], r#"{"NULL"}"#),
        (vec![text(r#"a"b\c"#), text("{x,y}")], r#"{"a\"b\\c","{x,y}"}"#),
        (vec![ParamValue::Integer(-1), ParamValue::Integer(2)], r#"{"-1","2"}"#),
    ] {
        assert_eq!(ParamValue::List(items).postgres_text().as_deref(), Some(expected));
    }
    assert_eq!(ParamValue::Null.postgres_text(), None);
}

fn header(spelling: &str) -> ParamPlace {
    ParamPlace::Header { name: spelling.parse().expect("a name"), spelling: spelling.to_owned() }
}

/// An endpoint's parameters, one for each part of a request.
fn declared() -> Vec<Param> {
    vec![
        Param { place: ParamPlace::Path, ..param("id", ParamType::Integer) },
        Param { default: Some(ParamValue::Integer(0)), ..param("lastEventNo", ParamType::Integer) },
        Param { default: Some(ParamValue::Null), ..param("name", ParamType::Text) },
        Param { list: true, default: Some(ParamValue::Null), ..param("ids", ParamType::Integer) },
        Param { list: true, default: Some(ParamValue::Null), ..param("tags", ParamType::Text) },
        Param {
            place: header("X-Tenant"),
            default: Some(ParamValue::Null),
            ..param("tenant", ParamType::Text)
        },
    ]
}

/// The values in PostgreSQL's format, or the message.
fn bound(query: &str) -> Result<Vec<String>, String> {
    let headers =
        HeaderMap::from_iter([(HeaderName::from_static("x-tenant"), HeaderValue::from_static("t"))]);
    match bind(&declared(), &[("id", "7")], Some(query), &headers) {
        Ok(bound) => Ok(bound.values.iter().map(|v| v.postgres_text().unwrap_or("NULL".into())).collect()),
        Err(error) => {
            assert_eq!((error.code(), error.status().as_u16()), ("invalid_parameter", 400));
            Err(error.message().to_owned())
        }
    }
}

#[test]
fn requests_are_bound() {
    for (query, expected) in [
        ("", ["7", "0", "NULL", "NULL", "NULL", "t"]),
        ("lastEventNo=5", ["7", "5", "NULL", "NULL", "NULL", "t"]),
        ("&lastEventNo=5&&", ["7", "5", "NULL", "NULL", "NULL", "t"]),
        ("lastEventNo=%2B5", ["7", "5", "NULL", "NULL", "NULL", "t"]),
        ("name=a+b%26%C3%A4=c", ["7", "0", "a b&ä=c", "NULL", "NULL", "t"]),
        ("name", ["7", "0", "", "NULL", "NULL", "t"]),
        ("n%61me=x", ["7", "0", "x", "NULL", "NULL", "t"]),
        ("ids=1,2&ids=3", ["7", "0", "NULL", r#"{"1","2","3"}"#, "NULL", "t"]),
        ("tags=a,b&tags=c", ["7", "0", "NULL", "NULL", r#"{"a,b","c"}"#, "t"]),
        // An empty field of a form counts as absent, unless it's a text.
        ("lastEventNo=", ["7", "0", "NULL", "NULL", "NULL", "t"]),
        ("lastEventNo", ["7", "0", "NULL", "NULL", "NULL", "t"]),
        ("name=&tags=", ["7", "0", "", "NULL", r#"{""}"#, "t"]),
        ("ids=", ["7", "0", "NULL", "NULL", "NULL", "t"]),
        ("ids=&ids=3", ["7", "0", "NULL", r#"{"3"}"#, "NULL", "t"]),
    ] {
        assert_eq!(bound(query).unwrap(), expected, "{query}");
    }
}

#[test]
fn wrong_requests_name_every_parameter() {
    for (query, expected) in [
        ("lastEventNo=x", "parameter `lastEventNo`: `x` is not an integer"),
        ("lastEventNo=1&lastEventNo=1", "parameter `lastEventNo`: it is given more than once"),
        ("lastEventNo=&lastEventNo=1", "parameter `lastEventNo`: it is given more than once"),
        (
            "lastEventNr=1",
            "parameter `lastEventNr`: this endpoint has no such parameter; did you mean `lastEventNo`?",
        ),
        ("password=1", "parameter `password`: this endpoint has no such parameter"),
        ("id=1", "parameter `id`: it is a part of the path"),
        ("tenant=1", "parameter `tenant`: it is read from the header `X-Tenant`"),
        ("name=%zz", "parameter `name`: its percent-encoding is not valid"),
        ("name=%C3", "parameter `name`: its percent-encoding is not valid"),
        ("name=a%", "parameter `name`: its percent-encoding is not valid"),
        ("na%=a", "parameter `na%`: its percent-encoding is not valid"),
        ("_formt=json", "parameter `_formt`: this endpoint has no such parameter; did you mean `_format`?"),
        ("_behind=1", "parameter `_behind`: this endpoint has no such parameter"),
        ("_format=json&_format=json", "parameter `_format`: it is given more than once"),
        ("_numbers=text", "parameter `_numbers`: `text` is not one of `number`, `string`"),
        ("_bytes=", "parameter `_bytes`: `` is not one of `hex`, `base64`"),
        ("_intervals=ISO", "parameter `_intervals`: `ISO` is not one of `text`, `iso`"),
        ("_nulls=%zz", "parameter `_nulls`: its percent-encoding is not valid"),
        ("_nulls=omit&_nulls=omit", "parameter `_nulls`: it is given more than once"),
        ("_null=omit", "parameter `_null`: this endpoint has no such parameter; did you mean `_nulls`?"),
        ("ids=1,,2", "parameter `ids`: `` is not an integer"),
        (
            "x=1&ids=a",
            "parameter `x`: this endpoint has no such parameter; parameter `ids`: `a` is not an integer",
        ),
    ] {
        assert_eq!(bound(query).unwrap_err(), expected, "{query}");
    }
}

#[test]
fn options_of_values_are_chosen_over_the_endpoints() {
    let none: [(&str, &str); 0] = [];
    let own = ValueOptions { numbers: Numbers::String, nulls: Nulls::Omit, ..ValueOptions::DEFAULT };
    for (query, expected) in [
        ("", own),
        ("_nulls=null", ValueOptions { nulls: Nulls::Null, ..own }),
        ("_nulls=null&_numbers=number", ValueOptions::DEFAULT),
        (
            "_bytes=base64&_intervals=iso",
            ValueOptions { bytes: BytesForm::Base64, intervals: Intervals::Iso, ..own },
        ),
        ("_numbers=string&_bytes=hex", own),
    ] {
        let bound = bind(&[], &none, Some(query), &HeaderMap::new()).unwrap();
        assert_eq!(bound.options.over(own), expected, "{query}");
    }
}

#[test]
fn missing_and_headers() {
    let required =
        [param("a", ParamType::Integer), Param { place: header("X-B"), ..param("b", ParamType::Integer) }];
    let none: [(&str, &str); 0] = [];
    let error = bind(&required, &none, None, &HeaderMap::new()).unwrap_err();
    assert_eq!(error.message(), "parameter `a`: it is missing; parameter `b`: it is missing");
    assert_eq!(error.parameters().len(), 2);
    let mut headers = HeaderMap::new();
    headers.append("x-b", HeaderValue::from_static("1"));
    headers.append("x-b", HeaderValue::from_static("2"));
    let error = bind(&required, &none, Some("a=1&_format=x"), &headers).unwrap_err();
    assert_eq!(error.message(), "parameter `b`: it is given more than once");
    headers.insert("x-b", HeaderValue::from_bytes(b"\xff").unwrap());
    let error = bind(&required, &none, Some("a=1"), &headers).unwrap_err();
    assert_eq!(error.message(), "parameter `b`: the header is not UTF-8");
    headers.insert("x-b", HeaderValue::from_static("2"));
    let bound = bind(&required, &none, Some("a=1&_format=x"), &headers).unwrap();
    assert_eq!(bound.values, [ParamValue::Integer(1), ParamValue::Integer(2)]);
    let error = bind(&required, &none, Some("a="), &headers).unwrap_err();
    assert_eq!(error.message(), "parameter `a`: `` is not an integer");
    assert_eq!(bound.format.as_deref(), Some("x"));
}

/// Thousands of unknown names were once compared with all known names, and each was reported twice,
/// at 50 times its length.
#[test]
fn reading_stops_at_ten_errors() {
    let query: Vec<_> = (0..500).map(|i| format!("{}{i}=1", "u".repeat(100))).collect();
    let none: [(&str, &str); 0] = [];
    let required = [param("a", ParamType::Integer)];
    let error = bind(&required, &none, Some(&query.join("&")), &HeaderMap::new()).unwrap_err();
    // 490 pairs, and the missing parameter.
    assert!(error.message().ends_with("; and 491 more weren't checked"), "{}", error.message());
    assert_eq!(error.parameters().len(), 10);
    let error = bind(&required, &none, Some(&query[..10].join("&")), &HeaderMap::new()).unwrap_err();
    assert!(error.message().ends_with("; and 1 more weren't checked"), "{}", error.message());
    let error = bind(&required, &none, Some(&query[..9].join("&")), &HeaderMap::new()).unwrap_err();
    assert!(error.message().ends_with("; parameter `a`: it is missing"), "{}", error.message());
}

#[test]
fn a_query_has_at_most_a_thousand_pairs() {
    let none: [(&str, &str); 0] = [];
    let list = [Param { list: true, ..param("id", ParamType::Integer) }];
    let bound = |pairs: usize| bind(&list, &none, Some(&"id=1&".repeat(pairs)), &HeaderMap::new());
    let ParamValue::List(values) = &bound(1000).unwrap().values[0] else { panic!("it is a list") };
    assert_eq!(values.len(), 1000);
    assert_eq!(bound(1001).unwrap_err().code(), "too_many_parameters");
}

proptest! {
    #[test]
    fn any_text_can_be_parsed(text in any::<String>()) {
        for kind in ParamType::ALL {
            for list in [false, true] {
                let _ = Param { list, ..param("p", kind) }.parse(&text);
            }
        }
    }

    #[test]
    fn any_query_can_be_bound(query in "[a-z=&%+0-9_ä]{0,40}") {
        let _ = bound(&query);
    }

    #[test]
    fn encoded_text_comes_back(text in "[^\\x00]{0,20}") {
        let encoded = percent_encoding::utf8_percent_encode(&text, percent_encoding::NON_ALPHANUMERIC);
        prop_assert_eq!(&bound(&format!("name={encoded}")).unwrap()[2], &text);
    }
}

/// `https://login.example/roles` was once read as the member `example/roles` of `https://login`,
/// which no token has.
#[test]
fn a_claim_may_have_dots_in_its_name() {
    let claims = serde_json::json!({
        "https://login.example/role": "a",
        "https://login.example/app": {"role": "b", "x.y": "c"},
        "realm": {"access": {"role": "d"}},
        "realm.access": {"other": "e"},
        "realm.empty": null,
        "text": "f",
    });
    let claims = claims.as_object().unwrap();
    for (path, expected) in [
        ("https://login.example/role", Some("a")),
        ("https://login.example/app.role", Some("b")),
        ("https://login.example/app.x.y", Some("c")),
        ("realm.access.role", Some("d")),
        ("realm.access.other", Some("e")),
        ("realm.empty", None),
        ("text", Some("f")),
        ("text.f", None),
        ("https://login.example/none", None),
        (".", None),
        ("", None),
    ] {
        assert_eq!(claim_at(claims, path).and_then(|claim| claim.as_str()), expected, "{path}");
    }
    let both = serde_json::json!({"a.b": "exact", "a": {"b": "member"}});
    assert_eq!(claim(both.as_object().unwrap(), "jwt.a.b").unwrap(), "exact");
}
