//! A client of any kind: a call with whatever headers a test wants.

use std::net::SocketAddr;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::real::{Command, Reply, WorkerClient, endpoint, soon};

/// A stream that nothing ends but its drop.
pub(crate) struct Line {
    pub(crate) headers: tonic::metadata::MetadataMap,
    _commands: mpsc::Sender<Command>,
    _replies: Streaming<Reply>,
}

pub(crate) type Headers = Vec<(&'static str, String)>;

/// Opens a stream with these headers.
pub(crate) async fn call(address: SocketAddr, headers: &Headers) -> Result<Line, Status> {
    let channel = endpoint(address).connect().await;
    let mut client = WorkerClient::new(channel.expect("the worker listens"));
    let (commands, outgoing) = mpsc::channel(16);
    let mut request = Request::new(ReceiverStream::new(outgoing));
    for (name, value) in headers {
        let value = value.parse().expect("a header's value");
        request.metadata_mut().append(*name, value);
    }
    let response: Response<Streaming<Reply>> = soon(client.control(request)).await?;
    let (headers, replies, _) = response.into_parts();
    Ok(Line {
        headers,
        _commands: commands,
        _replies: replies,
    })
}

/// The headers of a controller of worker `w1`.
pub(crate) fn hello(term: u64, pool: u128, generation: u64) -> Headers {
    vec![
        ("bidi-session-version", "1".to_owned()),
        ("bidi-session-term", term.to_string()),
        ("bidi-session-pool", format!("{pool:032x}")),
        ("bidi-session-generation", generation.to_string()),
        ("bidi-session-worker", "w1".to_owned()),
    ]
}

/// Replaces a header, or adds it.
pub(crate) fn with(mut headers: Headers, name: &'static str, value: &str) -> Headers {
    headers.retain(|(known, _)| *known != name);
    headers.push((name, value.to_owned()));
    headers
}

/// Returns the word of a refusal.
pub(crate) fn word(status: &Status) -> String {
    header(status, "bidi-session-refused").unwrap_or_else(|| panic!("no refusal: {status:?}"))
}

pub(crate) fn header(status: &Status, name: &str) -> Option<String> {
    let value = status.metadata().get(name)?;
    value.to_str().ok().map(str::to_owned)
}
