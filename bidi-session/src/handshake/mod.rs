//! The handshake's fields and the names of its headers: the only place that has them.
//!
//! A controller sends [`Hello`] as the metadata of its call; a worker answers with
//! [`Welcome`] in the metadata of its response, or with a refusal in the metadata
//! of its status. Numbers are decimal digits, texts are percent-encoded.
//!
//! Fields are pairs of a header's name and its value here; a transport puts them
//! where its metadata is.

mod controller;

use std::fmt::{self, Write as _};

/// Version of this handshake; the value of [`VERSION_HEADER`].
pub(crate) const VERSION: &str = "1";

/// Both ways: the version.
pub(crate) const VERSION_HEADER: &str = "bidi-session-version";
/// Controller: the scope of the term; absent for the empty scope.
pub(crate) const SCOPE_HEADER: &str = "bidi-session-scope";
/// Controller: the leader's term, above zero.
pub(crate) const TERM_HEADER: &str = "bidi-session-term";
/// Controller: the pool's id, 32 lower-case hexadecimal digits.
pub(crate) const POOL_HEADER: &str = "bidi-session-pool";
/// Controller: the generation of this stream within the pool.
pub(crate) const GENERATION_HEADER: &str = "bidi-session-generation";
/// Controller: the worker that is meant; worker: the worker that answers.
pub(crate) const WORKER_HEADER: &str = "bidi-session-worker";
/// Controller: the incarnation that is expected, where one is; worker: its own.
pub(crate) const INCARNATION_HEADER: &str = "bidi-session-incarnation";
/// Worker, in a refusal: why, one of the `REFUSED_` words.
pub(crate) const REFUSED_HEADER: &str = "bidi-session-refused";
/// Worker, in a refusal for a lower term: the highest term it has seen.
pub(crate) const HIGHEST_HEADER: &str = "bidi-session-highest";

/// Values of [`REFUSED_HEADER`], one for each kind of [`Refusal`].
const REFUSED_LOWER_TERM: &str = "lower-term";
const REFUSED_WRONG_SCOPE: &str = "wrong-scope";
const REFUSED_WRONG_WORKER: &str = "wrong-worker";
const REFUSED_WRONG_INCARNATION: &str = "wrong-incarnation";
const REFUSED_STALE_GENERATION: &str = "stale-generation";
const REFUSED_TERM_TAKEN: &str = "term-taken";
const REFUSED_MALFORMED: &str = "malformed";

/// What a controller says at the start of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) scope: String,
    pub(crate) term: u64,
    pub(crate) pool: u128,
    pub(crate) generation: u64,
    pub(crate) worker: String,
    /// Only where the owner of the pool gave one.
    pub(crate) incarnation: Option<u64>,
}

/// What a worker says when it admits the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub(crate) worker: String,
    pub(crate) incarnation: u64,
}

/// Why a worker does not admit a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It has seen a higher term.
    LowerTerm { highest: u64 },
    /// The term is of another scope.
    WrongScope,
    /// It is another worker.
    WrongWorker { actual: String },
    /// It is another incarnation than the expected one.
    WrongIncarnation { actual: u64 },
    /// Within this term and pool a generation at least as high was seen.
    StaleGeneration,
    /// Another pool of the same term holds the session.
    TermTaken,
    /// The handshake is missing or cannot be read.
    Malformed(String),
}

/// The headers of one message.
pub(crate) type Fields = Vec<(&'static str, String)>;

// ===== impl Hello =====

impl Hello {
    pub(crate) fn to_fields(&self) -> Fields {
        let mut fields = vec![
            (VERSION_HEADER, VERSION.to_owned()),
            (TERM_HEADER, self.term.to_string()),
            (POOL_HEADER, format!("{:032x}", self.pool)),
            (GENERATION_HEADER, self.generation.to_string()),
            (WORKER_HEADER, percent_encode(&self.worker)),
        ];
        if !self.scope.is_empty() {
            fields.push((SCOPE_HEADER, percent_encode(&self.scope)));
        }
        if let Some(incarnation) = self.incarnation {
            fields.push((INCARNATION_HEADER, incarnation.to_string()));
        }
        fields
    }

    /// Reads a handshake; the error says which header is wrong.
    pub(crate) fn from_fields<'a>(
        get: impl Fn(&'static str) -> Option<&'a str>,
    ) -> Result<Self, String> {
        let need = |name| get(name).ok_or_else(|| format!("no {name} header"));
        let version = need(VERSION_HEADER)?;
        if version != VERSION {
            return Err(format!("handshake version {version:.16} is not {VERSION}"));
        }
        let pool = need(POOL_HEADER)?;
        let hello = Self {
            scope: text(SCOPE_HEADER, get(SCOPE_HEADER).unwrap_or_default())?,
            term: number(TERM_HEADER, need(TERM_HEADER)?)?,
            pool: pool_id(pool).ok_or_else(|| unreadable(POOL_HEADER, pool))?,
            generation: number(GENERATION_HEADER, need(GENERATION_HEADER)?)?,
            worker: text(WORKER_HEADER, need(WORKER_HEADER)?)?,
            incarnation: get(INCARNATION_HEADER)
                .map(|digits| number(INCARNATION_HEADER, digits))
                .transpose()?,
        };
        if hello.term == 0 {
            return Err("the term is zero".to_owned());
        }
        Ok(hello)
    }
}

// ===== impl Welcome =====

impl Welcome {
    pub(crate) fn to_fields(&self) -> Fields {
        vec![
            (VERSION_HEADER, VERSION.to_owned()),
            (WORKER_HEADER, percent_encode(&self.worker)),
            (INCARNATION_HEADER, self.incarnation.to_string()),
        ]
    }

    /// Reads a welcome; `Ok(None)` where the answer carries no handshake at all.
    pub(crate) fn from_fields<'a>(
        get: impl Fn(&'static str) -> Option<&'a str>,
    ) -> Result<Option<Self>, String> {
        let Some(version) = get(VERSION_HEADER) else {
            return Ok(None);
        };
        if version != VERSION {
            return Err(format!("handshake version {version:.16} is not {VERSION}"));
        }
        let need = |name| get(name).ok_or_else(|| format!("no {name} header"));
        Ok(Some(Self {
            worker: text(WORKER_HEADER, need(WORKER_HEADER)?)?,
            incarnation: number(INCARNATION_HEADER, need(INCARNATION_HEADER)?)?,
        }))
    }
}

// ===== impl Refusal =====

impl Refusal {
    pub(crate) fn to_fields(&self) -> Fields {
        let mut fields = vec![
            (VERSION_HEADER, VERSION.to_owned()),
            (REFUSED_HEADER, self.word().to_owned()),
        ];
        match self {
            Self::LowerTerm { highest } => fields.push((HIGHEST_HEADER, highest.to_string())),
            Self::WrongWorker { actual } => fields.push((WORKER_HEADER, percent_encode(actual))),
            Self::WrongIncarnation { actual } => {
                fields.push((INCARNATION_HEADER, actual.to_string()));
            }
            Self::WrongScope | Self::StaleGeneration | Self::TermTaken | Self::Malformed(_) => {}
        }
        fields
    }

    /// Reads a refusal; `None` where the status is no refusal of this handshake.
    ///
    /// `message` is the status's own text.
    pub(crate) fn from_fields<'a>(
        get: impl Fn(&'static str) -> Option<&'a str>,
        message: &str,
    ) -> Option<Self> {
        let word = get(REFUSED_HEADER)?;
        let digits = |name| get(name).and_then(|digits| number(name, digits).ok());
        let known = match word {
            REFUSED_LOWER_TERM => digits(HIGHEST_HEADER).map(|highest| Self::LowerTerm { highest }),
            REFUSED_WRONG_SCOPE => Some(Self::WrongScope),
            REFUSED_WRONG_WORKER => get(WORKER_HEADER)
                .and_then(|encoded| text(WORKER_HEADER, encoded).ok())
                .map(|actual| Self::WrongWorker { actual }),
            REFUSED_WRONG_INCARNATION => {
                digits(INCARNATION_HEADER).map(|actual| Self::WrongIncarnation { actual })
            }
            REFUSED_STALE_GENERATION => Some(Self::StaleGeneration),
            REFUSED_TERM_TAKEN => Some(Self::TermTaken),
            _ => None,
        };
        // A word of a later version still is a refusal.
        Some(known.unwrap_or_else(|| Self::Malformed(message.to_owned())))
    }

    fn word(&self) -> &'static str {
        match self {
            Self::LowerTerm { .. } => REFUSED_LOWER_TERM,
            Self::WrongScope => REFUSED_WRONG_SCOPE,
            Self::WrongWorker { .. } => REFUSED_WRONG_WORKER,
            Self::WrongIncarnation { .. } => REFUSED_WRONG_INCARNATION,
            Self::StaleGeneration => REFUSED_STALE_GENERATION,
            Self::TermTaken => REFUSED_TERM_TAKEN,
            Self::Malformed(_) => REFUSED_MALFORMED,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LowerTerm { highest } => {
                write!(f, "the worker has seen term {highest}, a higher one")
            }
            Self::WrongScope => f.write_str("the term is of another scope than the worker's"),
            Self::WrongWorker { actual } => write!(f, "another worker answers: {actual:.64}"),
            Self::WrongIncarnation { actual } => {
                write!(
                    f,
                    "the worker is another incarnation than expected: {actual}"
                )
            }
            Self::StaleGeneration => f.write_str("a newer stream of this pool came first"),
            Self::TermTaken => f.write_str("another pool of the same term holds the session"),
            Self::Malformed(text) => write!(f, "the handshake cannot be read: {text:.128}"),
        }
    }
}

// ===== Values =====

fn number(name: &str, digits: &str) -> Result<u64, String> {
    // `parse` alone would take a leading plus sign.
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(unreadable(name, digits));
    }
    digits.parse().map_err(|_| unreadable(name, digits))
}

fn pool_id(digits: &str) -> Option<u128> {
    let is_lower_hex = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    let is_pool = digits.len() == 32 && digits.bytes().all(is_lower_hex);
    is_pool.then(|| u128::from_str_radix(digits, 16).ok())?
}

fn text(name: &str, encoded: &str) -> Result<String, String> {
    percent_decode(encoded).ok_or_else(|| unreadable(name, encoded))
}

fn unreadable(name: &str, value: &str) -> String {
    format!("{name} header cannot be read: {value:.64}")
}

/// Keeps what is visible ASCII but the percent sign.
fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

fn percent_decode(encoded: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
