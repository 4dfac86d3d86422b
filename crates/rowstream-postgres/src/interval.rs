//! Intervals in PostgreSQL's text form (`1 year -2 days +03:04:05.6`) to ISO 8601
//! (`P1Y-2DT3H4M5.6S`).
//!
//! The result equals the server's own with `intervalstyle = iso_8601`: each part may have its own
//! sign, which ISO 8601-2 allows. We leave the session's style as it is, because values within
//! others have it too.

use std::fmt::Write as _;

use super::text::BadField;

/// The interval `text` in ISO 8601.
pub(super) fn iso(text: &str) -> Result<String, BadField> {
    // PostgreSQL 17 has these.
    if matches!(text, "infinity" | "-infinity") {
        return Ok(text.to_owned());
    }
    let mut out = "P".to_owned();
    let mut words = text.split(' ');
    while let Some(word) = words.next() {
        match words.next() {
            Some("year" | "years") => push(word, 'Y', &mut out)?,
            Some("mon" | "mons") => push(word, 'M', &mut out)?,
            Some("day" | "days") => push(word, 'D', &mut out)?,
            Some(_) => return Err(BadField::Malformed),
            None => push_time(word, &mut out)?,
        }
    }
    if out == "P" {
        out.push_str("T0S");
    }
    Ok(out)
}

fn push(number: &str, unit: char, out: &mut String) -> Result<(), BadField> {
    let number: i64 = number.parse().map_err(|_| BadField::Malformed)?;
    // Writing to a text can't fail.
    let _ = write!(out, "{number}{unit}");
    Ok(())
}

/// Appends `[±]hh:mm:ss[.ffffff]`, without the parts that are 0.
fn push_time(text: &str, out: &mut String) -> Result<(), BadField> {
    let (sign, time) = match text.as_bytes().first() {
        Some(b'-') => ("-", &text[1..]),
        Some(b'+') => ("", &text[1..]),
        _ => ("", text),
    };
    let mut parts = time.splitn(3, ':');
    let before = out.len();
    for unit in ['H', 'M', 'S'] {
        let part = parts.next().ok_or(BadField::Malformed)?;
        let number = without_zeros(part)?;
        if number != "0" {
            if out.len() == before {
                out.push('T');
            }
            let _ = write!(out, "{sign}{number}{unit}");
        }
    }
    Ok(())
}

/// A number of at least two digits, without its leading zeros.
fn without_zeros(number: &str) -> Result<&str, BadField> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return Err(BadField::Malformed);
    }
    let zeros = whole.bytes().take_while(|&byte| byte == b'0').count();
    Ok(&number[zeros.min(whole.len() - 1)..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part() {
        for (text, expected) in [
            ("00:00:00", "PT0S"),
            ("1 year 2 mons 3 days 04:05:06.789", "P1Y2M3DT4H5M6.789S"),
            ("-1 years -2 mons +3 days -04:05:06.000001", "P-1Y-2M3DT-4H-5M-6.000001S"),
            ("100:00:00", "PT100H"),
            ("1 day -00:00:01", "P1DT-1S"),
            ("-1 days +00:00:00.5", "P-1DT0.5S"),
            ("00:10:00", "PT10M"),
            ("-178000000 years", "P-178000000Y"),
            ("infinity", "infinity"),
        ] {
            assert_eq!(iso(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_interval_is_malformed() {
        for text in
            ["", "1", "1 week", "1:2", "a:b:c", "1 year x", "x years", "00:00:0.", "00::00", "+-1:00:00"]
        {
            assert_eq!(iso(text), Err(BadField::Malformed), "{text}");
        }
    }
}
