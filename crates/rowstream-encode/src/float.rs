//! Floats as text: the shortest digits that read back as the same float, laid out as PostgreSQL does.
//!
//! The digits are zmij's; the layout is that of `float8out` and `float4out`
//! (`src/common/d2s.c` and `f2s.c`, `to_chars`): scientific when the decimal exponent is below -4, or as
//! large as the type's precision in whole digits (15 and 6); else fixed, without an empty fraction.

/// Appends a 64-bit float; NaN and infinities as PostgreSQL spells them, without quotes.
pub(crate) fn write_f64(float: f64, out: &mut Vec<u8>) {
    if !float.is_finite() {
        return write_non_finite(float, out);
    }
    let fixed = float == 0.0 || (1e-4..1e15).contains(&float.abs());
    write_layout(zmij::Buffer::new().format_finite(float), fixed, out);
}

/// Appends a 32-bit float; NaN and infinities as PostgreSQL spells them, without quotes.
pub(crate) fn write_f32(float: f32, out: &mut Vec<u8>) {
    if !float.is_finite() {
        return write_non_finite(f64::from(float), out);
    }
    let fixed = float == 0.0 || (1e-4..1e6).contains(&float.abs());
    write_layout(zmij::Buffer::new().format_finite(float), fixed, out);
}

fn write_non_finite(float: f64, out: &mut Vec<u8>) {
    let name: &[u8] = match float {
        f64::INFINITY => b"Infinity",
        f64::NEG_INFINITY => b"-Infinity",
        _ => b"NaN",
    };
    out.extend_from_slice(name);
}

/// Appends `shortest`, as zmij wrote it (`-1.5`, `100000.0`, `1.5e-7`), in PostgreSQL's layout.
fn write_layout(shortest: &str, fixed: bool, out: &mut Vec<u8>) {
    if fixed {
        // zmij's own fixed range holds both of PostgreSQL's.
        let text = shortest.strip_suffix(".0").unwrap_or(shortest);
        return out.extend_from_slice(text.as_bytes());
    }
    let magnitude = match shortest.strip_prefix('-') {
        Some(magnitude) => {
            out.push(b'-');
            magnitude
        }
        None => shortest,
    };
    let (mantissa, exponent) = split_exponent(magnitude);
    write_scientific(mantissa, exponent, out);
}

/// Splits `12.5e-7` into `12.5` and -7; the exponent is 0 where none is written.
fn split_exponent(magnitude: &str) -> (&str, i32) {
    let (mantissa, exponent) = magnitude.split_once('e').unwrap_or((magnitude, "0"));
    // zmij writes exponents of three digits at most: the parse cannot fail.
    (mantissa, exponent.parse().unwrap_or_default())
}

/// Appends `mantissa`·10^`exponent` with one digit before the point: `1250.0`, 3 as `1.25e+06`.
fn write_scientific(mantissa: &str, exponent: i32, out: &mut Vec<u8>) {
    let point = mantissa.find('.').unwrap_or(mantissa.len());
    let first = mantissa.find(|digit| matches!(digit, '1'..='9')).unwrap_or(0);
    let start = out.len();
    out.extend(mantissa[first..].bytes().filter(u8::is_ascii_digit));
    let significant = out[start..].iter().rposition(|&digit| digit != b'0').unwrap_or(0) + 1;
    out.truncate(start + significant);
    if significant > 1 {
        out.insert(start + 1, b'.');
    }
    let shift = if first < point { point - first - 1 } else { 0 } as i32 - first.saturating_sub(point) as i32;
    write_exponent(exponent + shift, out);
}

/// Appends an exponent as C's `%e` does: a sign, and two digits at least.
fn write_exponent(exponent: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    let magnitude = exponent.unsigned_abs();
    if magnitude < 10 {
        out.push(b'0');
    }
    out.extend_from_slice(itoa::Buffer::new().format(magnitude).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f64_text(float: f64) -> String {
        let mut out = Vec::new();
        write_f64(float, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn f32_text(float: f32) -> String {
        let mut out = Vec::new();
        write_f32(float, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lays_out_64_bits_as_float8out() {
        for (float, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (100_000.0, "100000"),
            (0.0001, "0.0001"),
            (0.000_123_4, "0.0001234"),
            (0.00001, "1e-05"),
            (0.000_099_999_999_999_999_98, "9.999999999999998e-05"),
            (0.000_012_5, "1.25e-05"),
            (-0.000_001_25, "-1.25e-06"),
            (999_999_999_999_999.0, "999999999999999"),
            (999_999_999_999_999.9, "999999999999999.9"),
            (1e15, "1e+15"),
            (-1_234_567_890_123_456.0, "-1.234567890123456e+15"),
            (9_007_199_254_740_992.0, "9.007199254740992e+15"),
            (12_345_678_901_234_567.0, "1.2345678901234568e+16"),
            (1e20, "1e+20"),
            (1.5e300, "1.5e+300"),
            (5e-324, "5e-324"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(f64_text(float), expected);
        }
    }

    #[test]
    fn lays_out_32_bits_as_float4out() {
        for (float, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (0.1, "0.1"),
            (1.5, "1.5"),
            (100_000.0, "100000"),
            (999_999.0, "999999"),
            (999_999.94, "999999.94"),
            (1e6, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (16_777_216.0, "1.6777216e+07"),
            (0.0001, "0.0001"),
            (0.000_099, "9.9e-05"),
            (1e-5, "1e-05"),
            (1.25e-6, "1.25e-06"),
            (1e-45, "1e-45"),
            (f32::MAX, "3.4028235e+38"),
            (f32::MIN_POSITIVE, "1.1754944e-38"),
            (f32::NAN, "NaN"),
            (f32::INFINITY, "Infinity"),
            (f32::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(f32_text(float), expected);
        }
    }
}
