use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

use super::*;

const SHORT: Duration = Duration::from_millis(100);
const PART_OF_FLOOD: usize = 64 * 1024;

/// One connection through a proxy: the proxy, and both of its ends.
struct Line {
    proxy: FaultProxy,
    near: TcpStream,
    far: TcpStream,
    target: TcpListener,
}

impl Line {
    async fn new() -> Self {
        let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = FaultProxy::start(target.local_addr().unwrap()).unwrap();
        let near = TcpStream::connect(proxy.address()).await.unwrap();
        let (far, _) = soon(target.accept()).await.unwrap();
        Self {
            proxy,
            near,
            far,
            target,
        }
    }
}

async fn soon<F: Future>(what: F) -> F::Output {
    let in_time = timeout(Duration::from_secs(10), what).await;
    in_time.expect("it did not come in time")
}

async fn until(claim: impl Fn() -> bool) {
    soon(async {
        while !claim() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

async fn says_nothing(stream: &mut TcpStream) {
    let read = timeout(SHORT, stream.read_u8()).await;
    assert!(read.is_err(), "{read:?}");
}

async fn is_reset(stream: &mut TcpStream) {
    let read = soon(stream.read_u8()).await;
    assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn bytes_and_ends_pass_both_ways() {
    let mut line = Line::new().await;
    line.near.write_all(b"to").await.unwrap();
    line.far.write_all(b"from").await.unwrap();
    drop(line.near.shutdown().await);
    let (mut to, mut from) = (Vec::new(), [0; 4]);
    soon(line.far.read_to_end(&mut to)).await.unwrap();
    soon(line.near.read_exact(&mut from)).await.unwrap();
    assert_eq!((&to[..], &from), (&b"to"[..], b"from"));
    // One end leaves the other way open.
    line.far.write_u8(7).await.unwrap();
    assert_eq!(soon(line.near.read_u8()).await.unwrap(), 7);
    drop(line.far);
    assert_eq!(soon(line.near.read(&mut from)).await.unwrap(), 0);
    let counts = line.proxy.counts();
    assert_eq!((counts.connections, counts.resets), (1, 0));
    assert_eq!((counts.to_target.passed, counts.to_client.passed), (2, 5));
}

#[tokio::test]
async fn a_delay_keeps_the_order_and_adds_up_for_nobody() {
    let mut line = Line::new().await;
    line.proxy.set(Way::ToTarget, Flow::Delay(SHORT));
    let start = Instant::now();
    for byte in 0..5 {
        line.near.write_u8(byte).await.unwrap();
        tokio::time::sleep(SHORT / 10).await;
    }
    for byte in 0..5 {
        assert_eq!(soon(line.far.read_u8()).await.unwrap(), byte);
        assert!(start.elapsed() >= SHORT + SHORT / 10 * u32::from(byte));
    }
    // The way back has none.
    line.proxy
        .set(Way::ToTarget, Flow::Delay(Duration::from_secs(3600)));
    line.far.write_u8(9).await.unwrap();
    assert_eq!(soon(line.near.read_u8()).await.unwrap(), 9);
}

#[tokio::test]
async fn what_is_held_comes_in_order_after_its_release_and_the_end_with_it() {
    let mut line = Line::new().await;
    line.proxy.set_both(Flow::Hold);
    line.near.write_all(b"later").await.unwrap();
    line.near.shutdown().await.unwrap();
    says_nothing(&mut line.far).await;
    assert_eq!(line.proxy.counts().to_target.held, 5);
    line.proxy.set_both(Flow::Pass);
    let mut bytes = Vec::new();
    soon(line.far.read_to_end(&mut bytes)).await.unwrap();
    assert_eq!(bytes, b"later");
    assert_eq!(line.proxy.counts().to_target.held, 0);
}

#[tokio::test]
async fn what_is_swallowed_is_gone_and_what_comes_after_it_too() {
    let mut line = Line::new().await;
    line.proxy.set(Way::ToTarget, Flow::Swallow);
    line.near.write_all(b"lost").await.unwrap();
    until(|| line.proxy.counts().to_target.swallowed == 4).await;
    line.proxy.set(Way::ToTarget, Flow::Pass);
    line.near.write_all(b"beyond").await.unwrap();
    until(|| line.proxy.counts().to_target.swallowed == 10).await;
    // The other way lives on, and hears nothing of the end either.
    line.far.write_u8(7).await.unwrap();
    assert_eq!(soon(line.near.read_u8()).await.unwrap(), 7);
    drop(line.near);
    says_nothing(&mut line.far).await;
    let mut next = TcpStream::connect(line.proxy.address()).await.unwrap();
    let (mut far, _) = soon(line.target.accept()).await.unwrap();
    next.write_u8(1).await.unwrap();
    assert_eq!(soon(far.read_u8()).await.unwrap(), 1);
}

#[tokio::test]
async fn a_reset_of_one_side_is_not_heard_through_a_hole() {
    let mut line = Line::new().await;
    line.proxy.set(Way::ToClient, Flow::Swallow);
    #[allow(deprecated, reason = "zero never blocks")]
    line.far.set_linger(Some(Duration::ZERO)).unwrap();
    drop(line.far);
    says_nothing(&mut line.near).await;
    // Nor by whoever writes into it.
    line.near.write_all(b"hello?").await.unwrap();
    says_nothing(&mut line.near).await;
    assert_eq!(line.proxy.counts().resets, 0);
}

#[tokio::test]
async fn a_stalled_way_fills_the_sender_s_buffers() {
    let mut line = Line::new().await;
    line.proxy.set_both(Flow::Stall);
    let flood = async { while line.near.write_all(&[0; PART_OF_FLOOD]).await.is_ok() {} };
    assert!(timeout(SHORT * 5, flood).await.is_err());
    let counts = line.proxy.counts().to_target;
    assert_eq!((counts.passed, counts.swallowed, counts.held), (0, 0, 0));
    line.proxy.set_both(Flow::Pass);
    assert_eq!(soon(line.far.read_u8()).await.unwrap(), 0);
}

#[tokio::test]
async fn a_reset_is_seen_on_both_sides_and_only_by_those_that_were_there() {
    let mut line = Line::new().await;
    line.proxy.reset();
    is_reset(&mut line.near).await;
    is_reset(&mut line.far).await;
    assert_eq!(line.proxy.counts().resets, 1);
    let mut next = TcpStream::connect(line.proxy.address()).await.unwrap();
    let (mut far, _) = soon(line.target.accept()).await.unwrap();
    far.write_u8(1).await.unwrap();
    assert_eq!(soon(next.read_u8()).await.unwrap(), 1);
}

#[tokio::test]
async fn a_refused_connection_is_refused_by_the_kernel_and_the_port_is_kept() {
    let mut line = Line::new().await;
    for _ in 0..3 {
        line.proxy.set_refusing(true).unwrap();
        let refused = TcpStream::connect(line.proxy.address()).await;
        let kind = refused.unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::ConnectionRefused);
        line.proxy.set_refusing(false).unwrap();
        let mut next = TcpStream::connect(line.proxy.address()).await.unwrap();
        let (mut far, _) = soon(line.target.accept()).await.unwrap();
        far.write_u8(1).await.unwrap();
        assert_eq!(soon(next.read_u8()).await.unwrap(), 1);
    }
    line.near.write_u8(2).await.unwrap();
    assert_eq!(soon(line.far.read_u8()).await.unwrap(), 2);
    assert_eq!(line.proxy.counts().connections, 4);
}

#[tokio::test]
async fn a_target_that_moves_is_followed_and_one_that_is_gone_resets() {
    let line = Line::new().await;
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    line.proxy.set_target(other.local_addr().unwrap());
    let mut next = TcpStream::connect(line.proxy.address()).await.unwrap();
    let (mut far, _) = soon(other.accept()).await.unwrap();
    next.write_u8(1).await.unwrap();
    assert_eq!(soon(far.read_u8()).await.unwrap(), 1);
    drop(other);
    let mut lost = TcpStream::connect(line.proxy.address()).await.unwrap();
    is_reset(&mut lost).await;
    assert_eq!(line.proxy.counts().unreached, 1);
}

#[tokio::test]
async fn dropping_the_proxy_ends_everything() {
    let mut line = Line::new().await;
    let address = line.proxy.address();
    line.proxy.set_both(Flow::Stall);
    drop(line.proxy);
    assert_eq!(soon(line.near.read(&mut [0])).await.unwrap(), 0);
    assert_eq!(soon(line.far.read(&mut [0])).await.unwrap(), 0);
    let refused = TcpStream::connect(address).await;
    assert_eq!(
        refused.unwrap_err().kind(),
        io::ErrorKind::ConnectionRefused
    );
}
