//! HTTP/2 frames as people read them.

use std::fmt::Write as _;

use httlib_hpack::Decoder;

use super::tap::Side;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADER_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Renders the frames of streams; those of the connection itself are left out.
pub(crate) fn render(records: &[(Side, Vec<u8>)]) -> Vec<String> {
    let mut controller = Reader::new(Side::Controller, PREFACE.len());
    let mut worker = Reader::new(Side::Worker, 0);
    let mut lines = Vec::new();
    for (side, bytes) in records {
        match side {
            Side::Controller => controller.read(bytes, &mut lines),
            Side::Worker => worker.read(bytes, &mut lines),
        }
    }
    lines
}

/// One direction of a connection.
struct Reader {
    side: Side,
    buffer: Vec<u8>,
    // Bytes before the first frame.
    skip: usize,
    headers: Decoder<'static>,
}

// ===== impl Reader =====

impl Reader {
    fn new(side: Side, skip: usize) -> Self {
        Self {
            side,
            buffer: Vec::new(),
            skip,
            headers: Decoder::with_dynamic_size(4096),
        }
    }

    fn read(&mut self, bytes: &[u8], lines: &mut Vec<String>) {
        self.buffer.extend_from_slice(bytes);
        if self.skip > 0 && self.buffer.len() >= self.skip {
            let preface: Vec<u8> = self.buffer.drain(..self.skip).collect();
            assert_eq!(preface, PREFACE);
            self.skip = 0;
        }
        while self.skip == 0 && self.buffer.len() >= HEADER_BYTES {
            let head: [u8; HEADER_BYTES] = std::array::from_fn(|at| self.buffer[at]);
            let [a, b, c, kind, flags, stream @ ..] = head;
            let end = HEADER_BYTES + u32::from_be_bytes([0, a, b, c]) as usize;
            if self.buffer.len() < end {
                return;
            }
            let frame: Vec<u8> = self.buffer.drain(..end).collect();
            let stream = u32::from_be_bytes(stream);
            self.frame(kind, flags, stream, &frame[HEADER_BYTES..], lines);
        }
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, body: &[u8], lines: &mut Vec<String>) {
        let sign = match self.side {
            Side::Controller => '>',
            Side::Worker => '<',
        };
        let end = if flags & END_STREAM == 0 {
            ""
        } else {
            " END_STREAM"
        };
        match kind {
            DATA => {
                assert_eq!(flags & !END_STREAM, 0, "padded");
                let mut line = format!("{sign} DATA stream={stream}{end}");
                for byte in body {
                    let _ = write!(line, " {byte:02x}");
                }
                lines.push(line);
            }
            HEADERS => {
                assert_eq!(flags & !END_STREAM, END_HEADERS, "padded or continued");
                lines.push(format!("{sign} HEADERS stream={stream}{end}"));
                let mut fields = Vec::new();
                let decoded = self.headers.decode(&mut body.to_vec(), &mut fields);
                decoded.expect("compressed headers");
                lines.extend(fields.iter().map(|(name, value, _)| field(name, value)));
            }
            // RST_STREAM follows the end of a stream, or does not: a matter of chance.
            _ => {}
        }
    }
}

fn field(name: &[u8], value: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    let value = String::from_utf8_lossy(value);
    // What differs from run to run, or with versions.
    let value = match &*name {
        "date" => "(now)",
        "user-agent" => value.split('/').next().unwrap_or_default(),
        _ => &value,
    };
    format!("    {name}: {value}").trim_end().to_owned()
}
