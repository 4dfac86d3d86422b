//! The scripts of `testdata/wire`, whose README describes them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;

/// The most bytes that the steps of an exchange may send.
const MAX_BYTES: usize = 16 << 20;

type Result<T> = std::result::Result<T, String>;

/// One file of `testdata/wire`, without the parts that only the client's runner needs.
#[derive(Deserialize)]
pub(crate) struct Script {
    /// The name of the file, and the first segment of the script's paths.
    pub(crate) name: String,
    pub(super) exchanges: Vec<Exchange>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exchange {
    pub(super) request: Expected,
    pub(super) response: Vec<Step>,
    pub(super) end: End,
}

/// The properties that a request must have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expected {
    pub(super) method: String,
    pub(super) path: String,
    /// The value of each parameter, or `None` if the request must not have it.
    #[serde(default)]
    pub(super) query: BTreeMap<String, Option<String>>,
    /// A part of each header's value, or `None` if the request must not have it.
    #[serde(default)]
    pub(super) headers: BTreeMap<String, Option<String>>,
    /// At least so many milliseconds have passed since the previous request.
    #[serde(default)]
    pub(super) after_ms: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Step {
    /// These bytes.
    Send(String),
    /// Bytes that aren't UTF-8.
    SendBase64(Base64),
    /// An HTTP chunk with this content.
    Chunk(String),
    Repeat {
        times: usize,
        step: Box<Step>,
    },
    PauseMs(u64),
}

/// The state of the connection after a response.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum End {
    Close,
    Reset,
    /// It takes further requests.
    Keep,
    /// It stays open without a byte until the client closes it.
    Silence,
}

/// Reads all scripts of a folder.
pub(crate) fn read(folder: &Path) -> Result<Vec<Script>> {
    let failed = |error: io::Error| format!("{}: {error}", folder.display());
    let mut scripts = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let script = Script::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            scripts.push(script);
        }
    }
    scripts.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(scripts)
}

impl Script {
    fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        let script: Self = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        if path.file_stem() != Some(script.name.as_ref()) {
            return Err(format!("rename it to {}.json, or change its `name`", script.name));
        }
        for exchange in &script.exchanges {
            let bytes = exchange.response.iter().map(Step::len).fold(0, usize::saturating_add);
            if bytes > MAX_BYTES {
                return Err(format!("a response has at most {MAX_BYTES} bytes, not {bytes}; repeat less"));
            }
        }
        Ok(script)
    }
}

impl Step {
    /// The number of bytes, except those around a chunk. A repeated pause counts, too.
    fn len(&self) -> usize {
        match self {
            Self::Send(text) | Self::Chunk(text) => text.len(),
            Self::SendBase64(bytes) => bytes.0.len(),
            Self::Repeat { times, step } => step.len().max(1).saturating_mul(*times),
            Self::PauseMs(_) => 0,
        }
    }
}

/// Bytes that a script has in base64, without their padding.
#[derive(Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Base64(pub(super) Vec<u8>);

impl TryFrom<String> for Base64 {
    type Error = String;

    fn try_from(text: String) -> Result<Self> {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
        for digit in text.trim_end_matches('=').bytes() {
            let value = DIGITS.iter().position(|known| *known == digit);
            let value = value.ok_or_else(|| format!("`send_base64` is base64, not {text}"))?;
            (bits, count) = ((bits << 6) | value as u32, count + 6);
            if count >= 8 {
                count -= 8;
                bytes.push((bits >> count) as u8);
                bits &= (1 << count) - 1;
            }
        }
        Ok(Self(bytes))
    }
}
