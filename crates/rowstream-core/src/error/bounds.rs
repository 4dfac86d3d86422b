//! The length limits of an error's texts.
//!
//! Requests, databases and upstreams supply the texts. Each is cut when the error is created, so
//! that the error, its log line and its problem document are all bounded. Lengths are those in
//! JSON, so a control character counts as six bytes.

/// The message.
pub(super) const MESSAGE: usize = 1500;
/// The hint.
pub(super) const HINT: usize = 600;
/// The SQLSTATE. Databases write five characters.
pub(super) const SQLSTATE: usize = 16;
/// The number of parameters in the list.
pub const PARAMETERS: usize = 10;
/// The list of parameters, and the JSON around the texts of each.
const LIST: usize = 1600;
const AROUND: usize = r#"{"name":"","message":""},"#.len();
/// A whole document, which has some 300 more bytes.
pub(super) const DOCUMENT: usize = 4096;
/// The JSON around the repeated message, and the last line break.
pub(super) const AROUND_MESSAGE: usize = r#","message":"""#.len() + 1;

/// Marks a cut.
const CUT: char = '…';

/// Cuts a text to `most` bytes of JSON.
pub(super) fn cut(mut text: String, most: usize) -> String {
    // A character needs at most six times its bytes, so most texts don't have to be scanned.
    if text.len() > most / 6
        && let Some(end) = end(&text, most)
    {
        text.truncate(end);
        text.push(CUT);
        text.shrink_to_fit();
    }
    text
}

/// The bytes of a character in JSON.
fn length(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        c if c < ' ' => 6,
        c => c.len_utf8(),
    }
}

/// The end of a text that's longer than `most`.
fn end(text: &str, most: usize) -> Option<usize> {
    let (mut written, mut end) = (0, 0);
    for (at, c) in text.char_indices() {
        if written + CUT.len_utf8() <= most {
            end = at;
        }
        written += length(c);
        if written > most {
            return Some(end);
        }
    }
    None
}

/// The parameters in the document's list, each cut to its share of the bytes.
pub(super) fn listed(parameters: &[(String, String)]) -> impl Iterator<Item = (String, String)> {
    let share = (LIST / parameters.len().max(1)).saturating_sub(AROUND);
    parameters.iter().map(move |(name, message)| {
        let name = cut(name.clone(), share / 2);
        let message = cut(message.clone(), share - name.chars().map(length).sum::<usize>());
        (name, message)
    })
}

/// The message about all parameters, with `more` at its end.
pub(super) fn sentence(parameters: &[(String, String)], more: Option<String>) -> String {
    let share = (MESSAGE - 64) / parameters.len().max(1);
    let named =
        parameters.iter().map(|(name, message)| cut(format!("parameter `{name}`: {message}"), share - 2));
    named.chain(more).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_longer_is_cut_between_characters() {
        for (text, most, expected) in [
            ("abcdef", 6, "abcdef"),
            ("abcdefg", 6, "abc…"),
            ("äöüß", 8, "äöüß"),
            ("äöüßx", 8, "äö…"),
            ("\u{1}\u{1}", 12, "\u{1}\u{1}"),
            ("\u{1}\u{1}\u{1}", 12, "\u{1}…"),
            ("\"\"\"\"\"", 8, "\"\"…"),
        ] {
            assert_eq!(cut(text.to_owned(), most), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_longer_in_json(text in any::<String>(), most in 3_usize..100) {
            let cut = cut(text.clone(), most);
            prop_assert!(serde_json::to_string(&cut).unwrap().len() <= most + 2);
            prop_assert!(cut == text || text.starts_with(cut.strip_suffix(CUT).unwrap()));
        }
    }
}
