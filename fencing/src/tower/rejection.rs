//! Why a request was not admitted, as both sides write and read it.

use std::fmt;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use crate::fence::AdmitError;
use crate::token::Token;
use crate::tower::wire;
use crate::tower::{HIGHEST_HEADER, REASON_HEADER, SCOPE_HEADER};

const GRPC_STATUS: &str = "grpc-status";
const GRPC_MESSAGE: &str = "grpc-message";

/// Why nothing was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// A higher token was seen. Stop: a retry cannot help.
    StaleToken,
    /// The token is of another scope than the fence. A retry cannot help before a reset.
    WrongScope,
    /// A higher token came while the answer was under way. Stop.
    Revoked,
    /// Effects of lower tokens are still under way. Try again.
    Busy,
    /// The mark could not be stored. Try again.
    NotStored,
    /// The request has no token. Fix the caller.
    MissingToken,
    /// The headers are not those of a token. Fix the caller.
    InvalidToken,
}

/// The answer of a fence that did not admit a request.
///
/// Its `Display` is the text that the answer carries; of one that was read from an answer, it
/// is the reason only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    reason: Reason,
    highest: Option<u64>,
    scope: Option<String>,
    message: String,
}

// ===== impl Reason =====

impl Reason {
    const ALL: [Self; 7] = [
        Self::StaleToken,
        Self::WrongScope,
        Self::Revoked,
        Self::Busy,
        Self::NotStored,
        Self::MissingToken,
        Self::InvalidToken,
    ];

    /// Returns the text of the header.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StaleToken => "stale-token",
            Self::WrongScope => "wrong-scope",
            Self::Revoked => "revoked",
            Self::Busy => "busy",
            Self::NotStored => "not-stored",
            Self::MissingToken => "missing-token",
            Self::InvalidToken => "invalid-token",
        }
    }

    /// Returns the status of an answer that is not gRPC.
    #[must_use]
    pub fn http_status(self) -> StatusCode {
        match self {
            Self::StaleToken | Self::WrongScope | Self::Revoked => StatusCode::PRECONDITION_FAILED,
            Self::Busy | Self::NotStored => StatusCode::SERVICE_UNAVAILABLE,
            Self::MissingToken | Self::InvalidToken => StatusCode::BAD_REQUEST,
        }
    }

    /// Returns the number of the gRPC status.
    #[must_use]
    pub fn grpc_status(self) -> u8 {
        match self {
            Self::StaleToken | Self::WrongScope | Self::Revoked => 9,
            Self::Busy | Self::NotStored => 14,
            Self::MissingToken | Self::InvalidToken => 3,
        }
    }
}

// ===== impl Rejection =====

impl Rejection {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            highest: None,
            scope: None,
            message: message.into(),
        }
    }

    /// What the fence said to `token`.
    pub(crate) fn of(token: &Token, error: &AdmitError) -> Self {
        let reason = match error {
            AdmitError::Stale(_) => Reason::StaleToken,
            AdmitError::WrongScope(_) => Reason::WrongScope,
            AdmitError::Invalid(_) => Reason::InvalidToken,
            AdmitError::Busy { .. } => Reason::Busy,
            AdmitError::Storage(_) => Reason::NotStored,
        };
        let mut rejection = Self::new(reason, error.to_string());
        match error {
            AdmitError::Stale(stale) => {
                rejection.highest = Some(stale.highest);
                rejection.scope = Some(token.scope().to_owned());
            }
            AdmitError::WrongScope(wrong) => rejection.scope = Some(wrong.scope.clone()),
            AdmitError::Invalid(_) | AdmitError::Busy { .. } | AdmitError::Storage(_) => {}
        }
        rejection
    }

    pub(crate) fn missing() -> Self {
        Self::new(
            Reason::MissingToken,
            "the request has no header fencing-token, and this route is fenced",
        )
    }

    /// What cuts an answer to `token`. A reset has cut it if nothing higher was seen.
    pub(crate) fn revoked(token: &Token, highest: u64) -> Self {
        let number = token.number();
        let message = format!("token {number} was revoked during the answer");
        let mut rejection = Self::new(Reason::Revoked, message);
        rejection.highest = (highest > number).then_some(highest);
        rejection.scope = Some(token.scope().to_owned());
        rejection
    }

    /// Reads the rejection in the headers or trailers of an answer, if they have one.
    #[must_use]
    pub fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let reason = headers.get(REASON_HEADER)?.as_bytes();
        let reason = Reason::ALL
            .into_iter()
            .find(|known| known.as_str().as_bytes() == reason)?;
        let highest = headers.get(HIGHEST_HEADER);
        let scope = headers.get(SCOPE_HEADER);
        Some(Self {
            reason,
            highest: highest.and_then(|value| wire::number(value.as_bytes())),
            scope: match scope {
                Some(value) => Some(wire::decode(value.as_bytes())?),
                None => None,
            },
            message: format!("the fence said {}", reason.as_str()),
        })
    }

    /// Returns why nothing was admitted.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Returns the highest number seen, where the reason is that there is one.
    #[must_use]
    pub fn highest(&self) -> Option<u64> {
        self.highest
    }

    /// Returns the scope of the fence, where it matters.
    #[must_use]
    pub fn scope(&self) -> Option<&str> {
        self.scope.as_deref()
    }

    /// Writes the headers of the reason.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        headers.insert(
            REASON_HEADER,
            HeaderValue::from_static(self.reason.as_str()),
        );
        if let Some(highest) = self.highest {
            headers.insert(HIGHEST_HEADER, highest.into());
        }
        if let Some(scope) = &self.scope {
            headers.insert(SCOPE_HEADER, wire::encode_scope(scope));
        }
    }

    /// The last headers of a gRPC answer.
    pub(crate) fn trailers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(GRPC_STATUS, u16::from(self.reason.grpc_status()).into());
        headers.insert(GRPC_MESSAGE, wire::encode_message(&self.message));
        self.write(&mut headers);
        headers
    }

    /// The whole answer, with the body that `body` makes of its text.
    pub(crate) fn response<B>(self, is_grpc: bool, body: impl FnOnce(String) -> B) -> Response<B> {
        if is_grpc {
            let mut response = Response::new(body(String::new()));
            *response.headers_mut() = self.trailers();
            let content_type = HeaderValue::from_static("application/grpc");
            response.headers_mut().insert(CONTENT_TYPE, content_type);
            return response;
        }
        let mut headers = HeaderMap::new();
        self.write(&mut headers);
        let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
        headers.insert(CONTENT_TYPE, content_type);
        let status = self.reason.http_status();
        let mut response = Response::new(body(self.message));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Rejection {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for reason in Reason::ALL {
            for (highest, scope) in [
                (None, None),
                (Some(u64::MAX), Some("life/étage\n%")),
                (Some(1), Some("")),
            ] {
                let mut rejection =
                    Rejection::new(reason, format!("the fence said {}", reason.as_str()));
                rejection.highest = highest;
                rejection.scope = scope.map(str::to_owned);
                assert_eq!(
                    Rejection::from_headers(&rejection.trailers()),
                    Some(rejection)
                );
            }
        }
    }

    #[test]
    fn an_answer_of_others_is_no_rejection() {
        assert_eq!(Rejection::from_headers(&HeaderMap::new()), None);
        let mut headers = HeaderMap::new();
        headers.insert(REASON_HEADER, HeaderValue::from_static("tired"));
        assert_eq!(Rejection::from_headers(&headers), None);
    }
}
