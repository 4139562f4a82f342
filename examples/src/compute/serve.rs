//! The server of a compute node.

use std::net::TcpListener;
use std::time::Duration;

use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::node::Node;
use crate::wire::compute_server::ComputeServer;

/// How often the server asks whether a silent controller is still there, and how
/// long it waits for the answer.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// Serves a node on a listener that does not block, until it is dropped.
///
/// # Errors
///
/// Those of the listener.
///
/// # Cancel safety
///
/// Dropping it closes the listener; connections end with the runtime.
pub async fn serve(
    node: Node,
    listener: TcpListener,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    // Of a listener that is handed over, the server's own builder sets no option: without
    // this a report that follows an answer waits some 40 ms for the acknowledgment.
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .add_optional_service(node.snapshots())
        .add_service(ComputeServer::new(node))
        .serve_with_incoming(incoming)
        .await?;
    Ok(())
}
