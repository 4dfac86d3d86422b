//! The connection strings of ODBC: `KEY=value;KEY={value with ; in it}`.

/// The keys and values of a connection string. A `}` in a value in braces is doubled.
pub(super) fn attributes(connection: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = connection;
    std::iter::from_fn(move || {
        let (key, after) = rest.split_once('=')?;
        let value = match after.strip_prefix('{').and_then(braced) {
            Some((value, after)) => {
                rest = after.trim_start_matches(';');
                value
            }
            None => {
                let (value, after) = after.split_once(';').unwrap_or((after, ""));
                rest = after;
                value
            }
        };
        Some((key.trim(), value))
    })
}

/// Splits a text at its first `}` that isn't doubled, behind an opening brace.
fn braced(text: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    loop {
        let end = from + text[from..].find('}')?;
        match text[end + 1..].starts_with('}') {
            true => from = end + 2,
            false => return Some((&text[..end], &text[end + 1..])),
        }
    }
}

/// Appends a password to a connection string without one.
pub(super) fn with_password(connection: &str, password: &str) -> String {
    let connection = connection.trim_end_matches([';', ' ']);
    // Not every driver knows braces, so only a password that needs them has some.
    let is_plain = password.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/%&$:".contains(&byte));
    match is_plain {
        true => format!("{connection};PWD={password}"),
        false => format!("{connection};PWD={{{}}}", password.replace('}', "}}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_appended() {
        for (password, expected) in [
            ("abc-1", "DSN=shop;PWD=abc-1"),
            ("a;b", "DSN=shop;PWD={a;b}"),
            ("a}=b", "DSN=shop;PWD={a}}=b}"),
            ("{a}", "DSN=shop;PWD={{a}}}"),
        ] {
            let connection = with_password("DSN=shop; ", password);
            assert_eq!(connection, expected);
            let last = attributes(&connection).last().map(|(key, value)| (key, value.replace("}}", "}")));
            assert_eq!(last, Some(("PWD", password.to_owned())));
        }
    }
}
