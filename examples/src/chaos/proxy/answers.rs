//! Counts whole answers in what a gRPC server sends.

/// Length of what precedes each frame of HTTP/2, bytes.
const PREFIX: usize = 9;

/// A frame that ends the answer to a call: HEADERS with END_STREAM.
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;

/// What was sent on one connection so far.
#[derive(Debug, Default)]
pub(super) struct Answers {
    prefix: Vec<u8>,
    /// Bytes of the present frame that are still to come.
    left: usize,
}

impl Answers {
    /// Takes the next bytes; returns how many answers end in them.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> u64 {
        let mut ended = 0;
        while !bytes.is_empty() {
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            bytes = &bytes[skipped..];
            let taken = (PREFIX - self.prefix.len()).min(bytes.len());
            self.prefix.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if let [a, b, c, kind, flags, _, _, _, _] = self.prefix[..] {
                self.left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                ended += u64::from(kind == HEADERS && flags & END_STREAM != 0);
                self.prefix.clear();
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, len: usize) -> Vec<u8> {
        let mut frame = vec![0, (len >> 8) as u8, len as u8, kind, flags, 0, 0, 0, 1];
        // Bytes that would be taken for an end, were they taken for a prefix.
        frame.extend(vec![1; len]);
        frame
    }

    #[test]
    fn each_end_of_an_answer_counts_once_however_the_bytes_are_cut() {
        // Settings, headers, data, the end, a ping, the end of another.
        let frames = [
            (4, 0, 18),
            (1, 4, 30),
            (0, 0, 300),
            (1, 5, 20),
            (6, 0, 8),
            (1, 5, 9),
        ];
        let all: Vec<u8> = frames
            .iter()
            .flat_map(|(k, f, n)| frame(*k, *f, *n))
            .collect();
        for size in [1, 2, 7, 9, 10, 64, all.len()] {
            let mut answers = Answers::default();
            let ended: u64 = all.chunks(size).map(|bytes| answers.take(bytes)).sum();
            assert_eq!(ended, 2, "in chunks of {size}");
        }
    }
}
