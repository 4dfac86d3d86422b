//! Values that own their texts, and checks of them after they're read back.
//!
//! The readers are inverses of the formats, and share no code with them: another algorithm converts
//! dates to days, and the standard library parses floats.

use arbitrary::{Arbitrary, Result, Unstructured};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rowstream_encode::{BytesForm, Column, ColumnKind, Numbers, Value, ValueOptions};

const DAY: i64 = 86_400_000_000;

/// A value.
#[derive(Debug, Clone, Arbitrary)]
pub(crate) enum Owned {
    Null,
    Bool(bool),
    Int(i64),
    Int4(i32),
    Float(f64),
    Float4(f32),
    Number(Decimal),
    Text(String),
    Json(JsonText),
    Bytes(Vec<u8>),
    Date(Days),
    Time(TimeOfDay),
    Timestamp(Micros),
    TimestampTz(Micros),
    Uuid([u8; 16]),
}

impl Owned {
    pub(crate) fn lend(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(bool) => Value::Bool(*bool),
            Self::Int(int) => Value::Int(*int),
            Self::Int4(int) => Value::Int4((*int).into()),
            Self::Float(float) => Value::Float(*float),
            Self::Float4(float) => Value::Float4(*float),
            Self::Number(number) => Value::Number(&number.0),
            Self::Text(text) => Value::Text(text),
            Self::Json(json) => Value::Json(&json.0),
            Self::Bytes(bytes) => Value::Bytes(bytes),
            Self::Date(days) => Value::Date(days.0),
            Self::Time(time) => Value::Time(time.0),
            Self::Timestamp(micros) => Value::Timestamp(micros.0),
            Self::TimestampTz(micros) => Value::TimestampTz(micros.0),
            Self::Uuid(uuid) => Value::Uuid(*uuid),
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns true if JSON writes the value as a string.
    fn is_string(&self, options: ValueOptions) -> bool {
        match self {
            Self::Null | Self::Bool(_) | Self::Int4(_) | Self::Json(_) => false,
            Self::Int(_) | Self::Number(_) => options.numbers == Numbers::String,
            Self::Float(float) => !float.is_finite(),
            Self::Float4(float) => !float.is_finite(),
            _ => true,
        }
    }

    /// Panics unless `raw`, a JSON value, equals this one.
    pub(crate) fn assert_json(&self, raw: &str, options: ValueOptions) {
        match self {
            Self::Null => assert_eq!(raw, "null"),
            Self::Json(json) => {
                let blanks = |text: &str| text.trim().replace(['\r', '\n'], " ");
                assert_eq!(blanks(raw), blanks(&json.0));
            }
            _ if self.is_string(options) => {
                let string: String = serde_json::from_str(raw).expect("the value is a JSON string");
                self.assert_plain(&string, options.bytes);
            }
            _ => self.assert_plain(raw, options.bytes),
        }
    }

    /// Panics unless `text` is this value in a format without quotes.
    pub(crate) fn assert_plain(&self, text: &str, bytes: BytesForm) {
        let is = match self {
            Self::Null => false,
            Self::Bool(bool) => text == bool.to_string(),
            Self::Int(int) => text == int.to_string(),
            Self::Int4(int) => text == int.to_string(),
            Self::Float(float) => is_float(*float, text),
            Self::Float4(float) => is_float4(*float, text),
            Self::Number(number) => text == number.0,
            Self::Text(expected) => text == expected,
            Self::Json(json) => text == json.0,
            Self::Bytes(expected) => read_bytes(text, bytes).as_ref() == Some(expected),
            Self::Date(days) => read_date(text) == Some(days.0),
            Self::Time(time) => read_time(text) == Some(time.0),
            Self::Timestamp(micros) => read_timestamp(text, "") == Some(micros.0),
            Self::TimestampTz(micros) => read_timestamp(text, "Z") == Some(micros.0),
            Self::Uuid(uuid) => read_uuid(text) == Some(*uuid),
        };
        assert!(is, "{self:?} was written as {text:?}");
    }
}

fn is_float(float: f64, text: &str) -> bool {
    match text {
        "NaN" => float.is_nan(),
        "Infinity" => float == f64::INFINITY,
        "-Infinity" => float == f64::NEG_INFINITY,
        _ => is_json_number(text) && text.parse().is_ok_and(|back: f64| back.to_bits() == float.to_bits()),
    }
}

fn is_float4(float: f32, text: &str) -> bool {
    match text {
        "NaN" => float.is_nan(),
        "Infinity" => float == f32::INFINITY,
        "-Infinity" => float == f32::NEG_INFINITY,
        _ => is_json_number(text) && text.parse().is_ok_and(|back: f32| back.to_bits() == float.to_bits()),
    }
}

fn is_json_number(text: &str) -> bool {
    serde_json::from_str::<&serde_json::value::RawValue>(text)
        .is_ok_and(|raw| raw.get() == text && text.starts_with(|c: char| c == '-' || c.is_ascii_digit()))
}

fn read_bytes(text: &str, form: BytesForm) -> Option<Vec<u8>> {
    match form {
        BytesForm::Base64 => STANDARD.decode(text).ok(),
        BytesForm::Hex => read_hex(text.strip_prefix("\\x")?),
    }
}

/// Pairs of lower-case digits.
fn read_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.bytes().map(hex_digit).collect();
    let digits = digits?;
    digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

fn read_uuid(text: &str) -> Option<[u8; 16]> {
    let groups: Vec<_> = text.split('-').collect();
    let lengths: Vec<_> = groups.iter().map(|group| group.len()).collect();
    (lengths == [8, 4, 4, 4, 12]).then(|| read_hex(&groups.concat()))??.try_into().ok()
}

/// Days since 1970-01-01 for `2024-02-29`, `12024-02-29` or `0044-03-15 BC`.
fn read_date(text: &str) -> Option<i32> {
    match text {
        "infinity" => Some(i32::MAX),
        "-infinity" => Some(i32::MIN),
        _ => i32::try_from(days(text)?).ok(),
    }
}

fn days(text: &str) -> Option<i64> {
    let (date, before_christ) = text.strip_suffix(" BC").map_or((text, false), |date| (date, true));
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let digits = |text: &str, least: usize| text.len() >= least && text.bytes().all(|b| b.is_ascii_digit());
    let is_well = digits(year, 4) && month.len() == 2 && digits(month, 2) && day.len() == 2 && digits(day, 2);
    let padded = year.len() > 4 && year.starts_with('0');
    if !is_well || padded || parts.next().is_some() {
        return None;
    }
    let (year, month, day): (i64, i64, i64) = (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    // There's no year 0: year 1 follows 1 BC.
    if year == 0 {
        return None;
    }
    let year = if before_christ { 1 - year } else { year };
    let days = first_of_month(year, month)? + day - 1;
    let next = if month == 12 { first_of_month(year + 1, 1) } else { first_of_month(year, month + 1) };
    (day >= 1 && days < next?).then_some(days)
}

/// Days since 1970-01-01 for the first of a month, by counting leap years.
fn first_of_month(year: i64, month: i64) -> Option<i64> {
    let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let before: i64 = *before.get(usize::try_from(month - 1).ok()?)?;
    let leaps = |year: i64| year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let is_leap = leaps(year) > leaps(year - 1);
    let leap_days = leaps(year - 1) - leaps(1969) + i64::from(is_leap && month > 2);
    Some((year - 1970) * 365 + leap_days + before)
}

/// Microseconds of `hh:mm:ss` with an optional fraction that doesn't end in zero.
fn read_time(text: &str) -> Option<i64> {
    let (whole, fraction) = match text.split_once('.') {
        Some((_, fraction)) if fraction.is_empty() || fraction.ends_with('0') || fraction.len() > 6 => {
            return None;
        }
        Some((whole, fraction)) => (whole, fraction),
        None => (text, ""),
    };
    let parts: Vec<&str> = whole.split(':').collect();
    if parts.len() != 3 || parts.iter().any(|part| part.len() != 2) {
        return None;
    }
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<i64>().ok())?;
    let (hours, minutes, seconds) = (number(parts[0])?, number(parts[1])?, number(parts[2])?);
    let micros = number(&format!("{fraction:0<6}"))?;
    let is_well = hours <= 24 && minutes < 60 && seconds < 60;
    let time = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros;
    (is_well && time <= DAY).then_some(time)
}

/// Microseconds since 1970-01-01 for a date, `T`, a time before midnight, the zone, and optionally
/// ` BC`.
fn read_timestamp(text: &str, zone: &str) -> Option<i64> {
    match text {
        "infinity" => return Some(i64::MAX),
        "-infinity" => return Some(i64::MIN),
        _ => {}
    }
    let (rest, era) = text.strip_suffix(" BC").map_or((text, ""), |rest| (rest, " BC"));
    let (date, time) = rest.strip_suffix(zone)?.split_once('T')?;
    let time = read_time(time).filter(|time| *time < DAY)?;
    let micros = i128::from(days(&format!("{date}{era}"))?) * i128::from(DAY) + i128::from(time);
    i64::try_from(micros).ok()
}

/// The text of a JSON number.
#[derive(Debug, Clone)]
pub(crate) struct Decimal(pub(crate) String);

impl<'a> Arbitrary<'a> for Decimal {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let mut text = String::new();
        if u.arbitrary()? {
            text.push('-');
        }
        let whole: u64 = u.arbitrary()?;
        text += &whole.to_string();
        text += &"0".repeat(u.int_in_range(0..=60)? * usize::from(whole > 0));
        if u.arbitrary()? {
            let zeros = "0".repeat(u.int_in_range(0..=60)?);
            text += &format!(".{zeros}{}", u.arbitrary::<u64>()?);
        }
        if u.ratio(1, 4)? {
            let sign = u.choose(&["", "+", "-"])?;
            text += &format!("{}{sign}{}", u.choose(&["e", "E"])?, u.arbitrary::<u16>()?);
        }
        Ok(Self(text))
    }
}

/// A JSON document as a person might have written it.
#[derive(Debug, Clone)]
pub(crate) struct JsonText(pub(crate) String);

impl<'a> Arbitrary<'a> for JsonText {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let json = json(u, 3)?;
        let text =
            if u.arbitrary()? { serde_json::to_string_pretty(&json) } else { serde_json::to_string(&json) };
        let text = text.expect("JSON can be written");
        Ok(Self(if u.arbitrary()? { text.replace('\n', "\r\n") } else { text }))
    }
}

/// A JSON document with at most this many levels.
pub(crate) fn json(u: &mut Unstructured<'_>, depth: usize) -> Result<serde_json::Value> {
    Ok(match u.int_in_range(0..=if depth == 0 { 3 } else { 5 })? {
        0 => serde_json::Value::Null,
        1 => u.arbitrary::<bool>()?.into(),
        2 => u.arbitrary::<i64>()?.into(),
        3 => u.arbitrary::<String>()?.into(),
        4 => (0..u.int_in_range(0..=3)?).map(|_| json(u, depth - 1)).collect::<Result<Vec<_>>>()?.into(),
        _ => {
            let member = |_| Ok((u.arbitrary::<String>()?, json(u, depth - 1)?));
            serde_json::Value::Object((0..2).map(member).collect::<Result<_>>()?)
        }
    })
}

/// Days since 1970-01-01.
#[derive(Debug, Clone)]
pub(crate) struct Days(pub(crate) i32);

impl<'a> Arbitrary<'a> for Days {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let days = u.arbitrary()?;
        Ok(Self(if u.arbitrary()? { days % 1_000_000 } else { days }))
    }
}

/// Microseconds since midnight.
#[derive(Debug, Clone)]
pub(crate) struct TimeOfDay(pub(crate) i64);

impl<'a> Arbitrary<'a> for TimeOfDay {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        u.int_in_range(0..=DAY).map(Self)
    }
}

/// Microseconds since 1970-01-01, in any year or one near the present.
#[derive(Debug, Clone)]
pub(crate) struct Micros(pub(crate) i64);

impl<'a> Arbitrary<'a> for Micros {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let micros: i64 = u.arbitrary()?;
        Ok(Self(match u.int_in_range(0..=3)? {
            0 => micros,
            1 => micros % (200 * 365 * DAY),
            2 => micros % (200 * 365 * DAY) / 1_000_000 * 1_000_000,
            _ => micros / DAY * DAY,
        }))
    }
}

/// Options of values.
pub(crate) fn options(u: &mut Unstructured<'_>) -> Result<ValueOptions> {
    use rowstream_encode::{Choice, Intervals, Nulls};
    Ok(ValueOptions {
        numbers: *u.choose(Numbers::ALL)?,
        bytes: *u.choose(BytesForm::ALL)?,
        intervals: *u.choose(Intervals::ALL)?,
        nulls: *u.choose(Nulls::ALL)?,
    })
}

/// Columns of different names, and rows with one value per column.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Owned>>,
}

impl<'a> Arbitrary<'a> for Table {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let mut columns: Vec<Column> = Vec::new();
        for _ in 0..u.int_in_range(0..=5)? {
            let mut name: String = u.arbitrary()?;
            while columns.iter().any(|column| column.name == name) {
                name.push('+');
            }
            columns.push(Column { name, type_name: String::new(), kind: ColumnKind::Text });
        }
        let mut rows = Vec::new();
        while rows.len() < 40 && u.arbitrary()? {
            rows.push(columns.iter().map(|_| u.arbitrary()).collect::<Result<_>>()?);
        }
        Ok(Self { columns, rows })
    }
}
