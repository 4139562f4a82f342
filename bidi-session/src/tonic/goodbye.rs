//! What a server says when it closes a connection: HTTP/2's GOAWAY.
//!
//! The HTTP/2 library tells a stream that was open then only that its connection broke.
//! A server that forbids frequent pings says so in that frame and nowhere else (gRPC in
//! Go does), so the frame is read on its way in. Layout: RFC 9113, 4.1 and 6.8.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const HEAD_BYTES: usize = 9;
const GOAWAY: u8 = 7;

/// Last stream and error code, in front of the text.
const FIXED_BYTES: usize = 8;

/// Longest text that is kept, bytes.
const MAX_TEXT_BYTES: usize = 64;

/// Names of the error codes, as RFC 9113 numbers them.
const CODES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

/// The last goodbye that was heard on a connection; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Goodbye(Arc<Mutex<Option<String>>>);

/// An I/O whose incoming frames are looked at.
pub(super) struct Overheard<T> {
    io: T,
    // None where the bytes are encrypted.
    frames: Option<Frames>,
}

/// Finds the goodbyes in a stream of frames.
struct Frames {
    goodbye: Goodbye,
    /// The head of the frame that is being read, and how much of it is there.
    head: [u8; HEAD_BYTES],
    head_len: usize,
    /// Bytes of its payload that are still to come.
    rest: usize,
    /// The payload of a goodbye, as far as it is of use.
    said: Vec<u8>,
}

// ===== impl Goodbye =====

impl Goodbye {
    /// Returns the error's name and the text, if the server has said goodbye.
    pub(super) fn heard(&self) -> Option<String> {
        self.lock().clone()
    }

    /// Looks at what an I/O reads; at nothing where it `is_encrypted`.
    pub(super) fn overhear<T>(self, io: T, is_encrypted: bool) -> Overheard<T> {
        let frames = (!is_encrypted).then(|| Frames::new(self));
        Overheard { io, frames }
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        // Only replaced under the lock, so it is consistent even if poisoned.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// ===== impl Frames =====

impl Frames {
    fn new(goodbye: Goodbye) -> Self {
        Self {
            goodbye,
            head: [0; HEAD_BYTES],
            head_len: 0,
            rest: 0,
            said: Vec::new(),
        }
    }

    fn read(&mut self, mut bytes: &[u8]) {
        loop {
            if self.head_len == 0 {
                bytes = pass(bytes);
            }
            if bytes.is_empty() {
                return;
            }
            bytes = if self.head_len < HEAD_BYTES {
                self.read_head(bytes)
            } else {
                self.read_payload(bytes)
            };
        }
    }

    fn read_head<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (now, later) = bytes.split_at(bytes.len().min(HEAD_BYTES - self.head_len));
        self.head[self.head_len..][..now.len()].copy_from_slice(now);
        self.head_len += now.len();
        if self.head_len == HEAD_BYTES {
            let [high, middle, low, ..] = self.head;
            self.rest = u32::from_be_bytes([0, high, middle, low]) as usize;
            self.end_frame();
        }
        later
    }

    fn read_payload<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (now, later) = bytes.split_at(bytes.len().min(self.rest));
        self.rest -= now.len();
        if self.head[3] == GOAWAY {
            let room = FIXED_BYTES + MAX_TEXT_BYTES - self.said.len();
            self.said.extend_from_slice(&now[..now.len().min(room)]);
        }
        self.end_frame();
        later
    }

    /// Goes on to the next frame where this one is complete.
    fn end_frame(&mut self) {
        if self.rest > 0 {
            return;
        }
        self.head_len = 0;
        let said = std::mem::take(&mut self.said);
        if let [_, _, _, _, a, b, c, d, text @ ..] = &said[..] {
            let code = u32::from_be_bytes([*a, *b, *c, *d]);
            *self.goodbye.lock() = Some(describe(code, text));
        }
    }
}

/// Passes over frames that lie there whole and are no goodbyes, as nearly all do.
fn pass(mut bytes: &[u8]) -> &[u8] {
    while let [high, middle, low, kind, _, _, _, _, _, rest @ ..] = bytes {
        let len = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
        match rest.get(len..) {
            Some(next) if *kind != GOAWAY => bytes = next,
            _ => break,
        }
    }
    bytes
}

fn describe(code: u32, text: &[u8]) -> String {
    let name = usize::try_from(code).ok().and_then(|code| CODES.get(code));
    let name = name.map_or_else(|| format!("error {code}"), |name| (*name).to_owned());
    let text = String::from_utf8_lossy(text);
    let text: String = text.chars().filter(|sign| !sign.is_control()).collect();
    if text.is_empty() {
        name
    } else {
        format!("{name}: {text}")
    }
}

// ===== impl Overheard =====

impl<T: AsyncRead + Unpin> AsyncRead for Overheard<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.io).poll_read(cx, buffer);
        if let (Poll::Ready(Ok(())), Some(frames)) = (&read, &mut this.frames) {
            frames.read(&buffer.filled()[before..]);
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Overheard<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

impl<T> fmt::Debug for Overheard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overheard").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, 0, 0, 0, 0, 0], payload].concat()
    }

    fn goaway(code: u32, text: &str) -> Vec<u8> {
        let fixed = [1, code].map(u32::to_be_bytes).concat();
        frame(GOAWAY, &[&fixed, text.as_bytes()].concat())
    }

    fn heard<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<String> {
        let goodbye = Goodbye::default();
        let mut frames = Frames::new(goodbye.clone());
        pieces.into_iter().for_each(|piece| frames.read(piece));
        goodbye.heard()
    }

    #[test]
    fn a_goodbye_is_heard_between_other_frames_and_the_last_one_counts() {
        let said = [
            frame(4, &[]),
            goaway(0, ""),
            frame(0, b"\0\0\0\x08\x07 looks like one"),
            goaway(11, "too_many_pings"),
            frame(6, &[0; 8]),
        ];
        let whole = said.concat();
        assert_eq!(
            heard([&whole[..]]).unwrap(),
            "ENHANCE_YOUR_CALM: too_many_pings"
        );
        assert_eq!(heard([&said[1][..]]).unwrap(), "NO_ERROR");
        assert_eq!(heard([&said[2][..]]), None);
        assert_eq!(heard([&goaway(99, "")[..]]).unwrap(), "error 99");
    }

    #[test]
    fn a_text_is_bounded_and_has_no_control_signs() {
        let text = heard([&goaway(2, &"\n\u{7}x".repeat(100_000))[..]]).unwrap();
        assert!(text.starts_with("INTERNAL_ERROR: xx"), "{text}");
        assert!(text.len() < 100, "{text}");
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_the_bytes_are_cut(
            frames in prop::collection::vec((0..10_u8, prop::collection::vec(any::<u8>(), 0..40)), 0..10),
            cut in 1..30_usize,
        ) {
            let whole: Vec<u8> = frames.iter().flat_map(|(kind, payload)| frame(*kind, payload)).collect();
            prop_assert_eq!(heard(whole.chunks(cut)), heard([&whole[..]]));
        }

        #[test]
        fn no_bytes_are_too_odd(bytes: Vec<u8>) {
            heard([&bytes[..]]);
        }
    }
}
