//! How tokens and texts are written into headers, and read strictly.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};

use crate::token::{MAX_SCOPE_LEN, Token};
use crate::tower::rejection::{Reason, Rejection};
use crate::tower::{SCOPE_HEADER, TOKEN_HEADER};

/// Digits of the longest number.
const MAX_DIGITS: usize = 20;

/// Says whether the request is a gRPC call, whose outcome is in its trailers.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let rest = content_type.and_then(|text| text.strip_prefix(b"application/grpc"));
    // Not gRPC-Web: its trailers are in the body.
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// Reads the token of a request, `None` when it has none.
pub(crate) fn token(headers: &HeaderMap) -> Result<Option<Token>, Rejection> {
    let scope = match single(headers, SCOPE_HEADER)? {
        None => String::new(),
        Some(value) => {
            decode(value).ok_or_else(|| invalid(SCOPE_HEADER, "is no percent-encoded text"))?
        }
    };
    let Some(value) = single(headers, TOKEN_HEADER)? else {
        return Ok(None);
    };
    let Some(number) = number(value) else {
        let problem = "is no number from 1 to 18446744073709551615 in plain digits";
        return Err(invalid(TOKEN_HEADER, problem));
    };
    let token = Token::scoped(scope, number);
    match token.validate() {
        Ok(()) => Ok(Some(token)),
        Err(error) => Err(Rejection::new(Reason::InvalidToken, error.to_string())),
    }
}

/// Reads a number in its one canonical form.
pub(crate) fn number(value: &[u8]) -> Option<u64> {
    let is_canonical = value.iter().all(u8::is_ascii_digit) && value.first() != Some(&b'0');
    if !is_canonical || value.len() > MAX_DIGITS {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Finds the value of a header, of which one that is given twice has none.
fn single<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a [u8]>, Rejection> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().map(HeaderValue::as_bytes);
    match values.next() {
        None => Ok(value),
        Some(_) => Err(invalid(name, "is given more than once")),
    }
}

fn invalid(name: &str, problem: &str) -> Rejection {
    Rejection::new(Reason::InvalidToken, format!("the header {name} {problem}"))
}

/// Writes any text with visible ASCII characters only.
pub(crate) fn encode(text: &str, is_plain: impl Fn(u8) -> bool) -> HeaderValue {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut bytes = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        if byte != b'%' && is_plain(byte) {
            bytes.push(byte);
        } else {
            let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
            bytes.extend([b'%', DIGITS[high], DIGITS[low]]);
        }
    }
    HeaderValue::from_bytes(&bytes).expect("visible ASCII characters")
}

pub(crate) fn encode_scope(scope: &str) -> HeaderValue {
    encode(scope, |byte| byte.is_ascii_graphic())
}

/// As the gRPC protocol wants its message: spaces stay.
pub(crate) fn encode_message(message: &str) -> HeaderValue {
    encode(message, |byte| matches!(byte, b' '..=b'~'))
}

/// Reads what [`encode_scope`] writes; a text that cannot be a scope is nothing.
pub(crate) fn decode(value: &[u8]) -> Option<String> {
    if value.len() > MAX_SCOPE_LEN * 3 {
        return None;
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.iter();
    while let Some(&byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex(*rest.next()?)? << 4 | hex(*rest.next()?)?,
            byte if byte.is_ascii_graphic() => byte,
            _ => return None,
        });
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_have_one_form() {
        for (text, expected) in [
            ("1", Some(1)),
            ("42", Some(42)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("99999999999999999999", None),
            ("111111111111111111111", None),
            ("", None),
            ("0", None),
            ("01", None),
            ("+1", None),
            ("-1", None),
            ("1 ", None),
            ("1,2", None),
            ("1.0", None),
            ("0x1", None),
            ("seven", None),
            ("٣", None),
        ] {
            assert_eq!(number(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn texts_that_are_no_scope_are_nothing() {
        for text in ["%", "%4", "%zz", "a b", "\t", "%FF", "é"] {
            assert_eq!(decode(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(decode(&[b'a'; 3 * 128 + 1]), None);
    }

    #[test]
    fn only_grpc_is_grpc() {
        for (text, expected) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc;charset=utf-8", true),
            ("application/grpc-web", false),
            ("application/json", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(text));
            assert_eq!(is_grpc(&headers), expected, "{text}");
        }
        assert!(!is_grpc(&HeaderMap::new()));
    }

    proptest! {
        #[test]
        fn every_scope_is_read_as_it_was_written(scope in ".{0,32}|\n|%41| ") {
            let value = encode_scope(&scope);
            prop_assert_eq!(decode(value.as_bytes()), Some(scope));
        }

        #[test]
        fn no_bytes_are_read_with_a_panic(bytes: Vec<u8>) {
            let _ = (decode(&bytes), number(&bytes));
        }
    }
}
