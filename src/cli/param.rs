//! Parameters on the command line: `NAME=VALUE`, `NAME:TYPE=VALUE`, and for a server `NAME:TYPE`.

use rowstream_core::diagnostic::shown;
use rowstream_core::params::ParamType;
use rowstream_core::sql::is_name;

use crate::config::Argument;

pub(super) fn with_value(text: &str) -> Result<Argument, String> {
    let argument = parse(text)?;
    match argument.value {
        Some(_) => Ok(argument),
        None => Err("write NAME=VALUE, or NAME:TYPE=VALUE".to_owned()),
    }
}

/// A parameter with its type and its default, if they're given.
pub(super) fn parse(text: &str) -> Result<Argument, String> {
    let (head, value) = match text.split_once('=') {
        Some((head, value)) => (head, Some(value.to_owned())),
        None => (text, None),
    };
    let (name, kind) = match head.split_once(':') {
        Some((name, kind)) => (name, Some(kind_of(kind)?)),
        None => (head, None),
    };
    if !is_name(name) {
        return Err(format!("{} isn't a name: names are ASCII letters, digits and underscores", shown(name)));
    }
    Ok(Argument { name: name.to_owned(), kind, value })
}

fn kind_of(text: &str) -> Result<(ParamType, bool), String> {
    let (name, list) = text.strip_suffix("[]").map_or((text, false), |name| (name, true));
    let kind = ParamType::from_name(name)
        .ok_or_else(|| format!("there is no type {}; {}", shown(text), ParamType::suggest(name)))?;
    Ok((kind, list))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters() {
        let argument = |name: &str, kind, value: Option<&str>| {
            Ok(Argument { name: name.to_owned(), kind, value: value.map(str::to_owned) })
        };
        for (text, expected) in [
            ("a=1", argument("a", None, Some("1"))),
            ("a=", argument("a", None, Some(""))),
            ("a=b:c=d", argument("a", None, Some("b:c=d"))),
            ("a:integer=1", argument("a", Some((ParamType::Integer, false)), Some("1"))),
            ("a:uuid[]=x", argument("a", Some((ParamType::Uuid, true)), Some("x"))),
            ("a:date", argument("a", Some((ParamType::Date, false)), None)),
            ("a", argument("a", None, None)),
            ("a:integr=1", Err("there is no type `integr`; did you mean `integer`?".to_owned())),
            ("a:int[]=1", Err("there is no type `int[]`; did you mean `integer`?".to_owned())),
            ("a:varchar=1", Err("there is no type `varchar`; did you mean `text`?".to_owned())),
            ("ä=1", Err("`ä` isn't a name: names are ASCII letters, digits and underscores".to_owned())),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
        assert!(with_value("a:date").is_err() && with_value("a=").is_ok());
    }
}
