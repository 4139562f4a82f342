//! Hunts an admission that ends before its answer does, or that a slow reader holds.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use fencing::tower::{HeldBody, Reason, Rejection, ServerLayer};
use fencing::{Admission, Fence};
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tower::{ServiceExt, service_fn};
use tower_layer::Layer;

use crate::support::{poll_once, wait};

/// The body of a handler, whose frames come from the test; says when it was dropped.
struct Frames {
    frames: mpsc::Receiver<Frame<Bytes>>,
    is_dropped: Arc<AtomicBool>,
    /// Run within each poll and each look.
    during: Option<Box<dyn Fn() + Send>>,
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = self.frames.poll_recv(cx);
        if let Some(during) = &self.during {
            during();
        }
        frame.map(|frame| frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        if let Some(during) = &self.during {
            during();
        }
        false
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        self.is_dropped.store(true, Ordering::SeqCst);
    }
}

/// An answer under token 5 whose frames the test sends.
struct Answer {
    fence: Fence,
    body: HeldBody<Frames>,
    frames: mpsc::Sender<Frame<Bytes>>,
    is_dropped: Arc<AtomicBool>,
}

fn answer(is_grpc: bool) -> Answer {
    answer_by(Fence::new(), is_grpc, None)
}

fn answer_by(fence: Fence, is_grpc: bool, during: Option<Box<dyn Fn() + Send>>) -> Answer {
    let (frames, received) = mpsc::channel(8);
    let is_dropped = Arc::<AtomicBool>::default();
    let body = Frames {
        frames: received,
        is_dropped: Arc::clone(&is_dropped),
        during,
    };
    let body = Arc::new(Mutex::new(Some(body)));
    let resource = service_fn(move |_: Request<()>| {
        let body = body.lock().unwrap().take().unwrap();
        async { Ok::<_, Infallible>(Response::new(body)) }
    });
    let server = ServerLayer::new(fence.clone()).layer(resource);
    let mut request = Request::builder().header("fencing-token", "5");
    if is_grpc {
        request = request.header("content-type", "application/grpc");
    }
    let response = wait(server.oneshot(request.body(()).unwrap())).unwrap();
    Answer {
        fence,
        body: response.into_body(),
        frames,
        is_dropped,
    }
}

fn next(body: &mut HeldBody<Frames>) -> Poll<Option<Result<Frame<Bytes>, String>>> {
    let frame = poll_once(pin!(body.frame()));
    frame.map(|frame| frame.map(|frame| frame.map_err(|error| error.to_string())))
}

fn is_held(fence: &Fence) -> bool {
    poll_once(pin!(fence.admit(6))).is_pending()
}

#[test]
fn an_answer_holds_its_admission_until_its_last_frame() {
    for trailers in [false, true] {
        let mut answer = answer(trailers);
        answer.frames.try_send(Frame::data("one".into())).unwrap();
        assert!(matches!(next(&mut answer.body), Poll::Ready(Some(Ok(_)))));
        assert!(next(&mut answer.body).is_pending());
        assert!(!answer.is_dropped.load(Ordering::SeqCst));
        if trailers {
            let last = Frame::trailers(HeaderMap::new());
            answer.frames.try_send(last).unwrap();
            assert!(matches!(next(&mut answer.body), Poll::Ready(Some(Ok(_)))));
        } else {
            drop(answer.frames);
            assert!(matches!(next(&mut answer.body), Poll::Ready(None)));
        }
        assert!(answer.is_dropped.load(Ordering::SeqCst));
        assert!(!is_held(&answer.fence), "the answer is complete");
        assert!(matches!(next(&mut answer.body), Poll::Ready(None)));
    }
}

#[test]
fn a_dropped_answer_holds_nothing() {
    let answer = answer(false);
    drop(answer.body);
    assert!(answer.is_dropped.load(Ordering::SeqCst));
    assert!(!is_held(&answer.fence));
}

/// The client reads nothing, so nobody polls the body: still no takeover waits for it.
#[test]
fn a_slow_reader_holds_no_takeover_up() {
    for is_grpc in [true, false] {
        let mut answer = answer(is_grpc);
        answer.frames.try_send(Frame::data("one".into())).unwrap();
        let admission = wait(answer.fence.admit(6)).unwrap();
        assert!(answer.is_dropped.load(Ordering::SeqCst), "not polled");
        drop(admission);
        let Poll::Ready(Some(last)) = next(&mut answer.body) else {
            panic!("the end was not told");
        };
        // A part of an answer must not look like the whole.
        match last {
            Ok(frame) if is_grpc => {
                let trailers = frame.into_trailers().expect("trailers");
                assert_eq!(trailers["grpc-status"], "9");
                let rejection = Rejection::from_headers(&trailers).unwrap();
                assert_eq!(rejection.reason(), Reason::Revoked);
                assert_eq!(rejection.highest(), Some(6));
            }
            Err(error) if !is_grpc => assert!(error.contains("revoked during"), "{error}"),
            other => panic!("{other:?}"),
        }
        assert!(matches!(next(&mut answer.body), Poll::Ready(None)));
        assert!(answer.body.is_end_stream());
    }
}

#[test]
fn a_reader_that_waits_is_told_at_once() {
    let answer = answer(true);
    let (fence, mut body) = (answer.fence.clone(), answer.body);
    let wakes = Arc::<crate::support::Wakes>::default();
    let waker = Arc::clone(&wakes).into();
    let frame = pin!(body.frame());
    assert!(frame.poll(&mut Context::from_waker(&waker)).is_pending());
    drop(wait(fence.admit(6)).unwrap());
    assert_eq!(wakes.count(), 1);
    assert!(matches!(next(&mut body), Poll::Ready(Some(Ok(_)))));
}

/// The higher token comes while the body is being polled, on the same thread.
#[test]
fn a_token_that_comes_during_a_poll_cuts_the_answer_after_it() {
    for has_frame in [false, true] {
        let fence = Fence::new();
        let raise = fence.clone();
        let during = move || drop(poll_once(pin!(raise.admit(6))));
        let mut answer = answer_by(fence, true, Some(Box::new(during)));
        if has_frame {
            answer.frames.try_send(Frame::data("one".into())).unwrap();
        }
        let wakes = Arc::<crate::support::Wakes>::default();
        let waker = Arc::clone(&wakes).into();
        let first = pin!(answer.body.frame()).poll(&mut Context::from_waker(&waker));
        match first {
            Poll::Ready(Some(Ok(frame))) => assert!(has_frame && frame.is_data()),
            Poll::Pending => assert!(!has_frame),
            other => panic!("{other:?}"),
        }
        // Without another poll in between, which the reader is told to make.
        assert!(answer.is_dropped.load(Ordering::SeqCst));
        assert_eq!(wakes.count(), 1);
        let Poll::Ready(Some(Ok(frame))) = next(&mut answer.body) else {
            panic!("the end was not told");
        };
        assert!(frame.is_trailers() && !is_held(&answer.fence));
    }
}

/// The higher token comes while the body is only asked whether it is at its end.
#[test]
fn a_token_that_comes_during_a_look_cuts_the_answer_after_it() {
    let fence = Fence::new();
    let raise = fence.clone();
    let during = move || drop(poll_once(pin!(raise.admit(6))));
    let answer = answer_by(fence, true, Some(Box::new(during)));
    assert!(!answer.body.is_end_stream());
    assert!(
        answer.is_dropped.load(Ordering::SeqCst),
        "nobody polls it again"
    );
    assert!(!is_held(&answer.fence));
}

#[test]
fn an_answer_that_begins_after_its_term_is_cut_before_its_first_frame() {
    let fence = Fence::new();
    let raise = fence.clone();
    let resource = service_fn(move |_: Request<()>| {
        // The term ends while the handler runs; what it has done counts, it was admitted.
        drop(poll_once(pin!(raise.admit(6))));
        async {
            Ok::<_, Infallible>(Response::new(http_body_util::Full::new(Bytes::from(
                "late",
            ))))
        }
    });
    let server = ServerLayer::new(fence.clone()).layer(resource);
    let request = Request::builder()
        .header("fencing-token", "5")
        .body(())
        .unwrap();
    let response = wait(server.oneshot(request)).unwrap();
    let error = wait(response.into_body().collect()).unwrap_err();
    assert!(error.to_string().contains("revoked during"), "{error}");
    assert!(!is_held(&fence));
}

#[test]
fn a_handler_in_the_middle_of_its_effect_is_told_and_waited_for() {
    let fence = Fence::new();
    let seen = Arc::new(Mutex::new(None));
    let (handler_seen, handler_done) = (Arc::clone(&seen), Arc::new(AtomicBool::new(false)));
    let done = Arc::clone(&handler_done);
    let resource = service_fn(move |request: Request<()>| {
        let admission = request.extensions().get::<Arc<Admission>>().cloned();
        *handler_seen.lock().unwrap() = admission;
        let done = Arc::clone(&done);
        async move {
            poll_fn(|_| match done.load(Ordering::SeqCst) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
            Ok::<_, Infallible>(Response::new(http_body_util::Empty::<Bytes>::new()))
        }
    });
    let server = ServerLayer::new(fence.clone()).layer(resource);
    let request = Request::builder()
        .header("fencing-token", "5")
        .body(())
        .unwrap();
    let mut call = pin!(server.oneshot(request));
    assert!(poll_once(call.as_mut()).is_pending());
    let mut takeover = pin!(fence.admit(6));
    assert!(poll_once(takeover.as_mut()).is_pending());
    let admission = seen.lock().unwrap().take().unwrap();
    assert!(admission.is_revoked());
    handler_done.store(true, Ordering::SeqCst);
    let Poll::Ready(Ok(response)) = poll_once(call) else {
        panic!("the handler is done");
    };
    drop(response);
    // Queued with its work: not over before that is.
    assert!(poll_once(takeover.as_mut()).is_pending());
    drop(admission);
    assert!(poll_once(takeover).is_ready());
}

/// F09 for a queue: what waits in it holds its admission, and is not applied once revoked.
#[test]
fn what_is_queued_beyond_a_raise_is_never_applied() {
    let fence = Fence::new();
    let (queue, mut queued) = mpsc::channel::<Arc<Admission>>(8);
    let resource = service_fn(move |mut request: Request<()>| {
        let admission = request.extensions_mut().remove::<Arc<Admission>>().unwrap();
        queue.try_send(admission).unwrap();
        async { Ok::<_, Infallible>(Response::new(http_body_util::Empty::<Bytes>::new())) }
    });
    let mut server = ServerLayer::new(fence.clone()).layer(resource);
    for _ in 0..3 {
        let request = Request::builder()
            .header("fencing-token", "5")
            .body(())
            .unwrap();
        drop(wait(tower::Service::call(&mut server, request)).unwrap());
    }
    let mut takeover = pin!(fence.admit(6));
    assert!(poll_once(takeover.as_mut()).is_pending(), "work is queued");
    let (mut applied, mut skipped) = (0, 0);
    while let Ok(admission) = queued.try_recv() {
        *if admission.is_revoked() {
            &mut skipped
        } else {
            &mut applied
        } += 1;
    }
    println!("CASE F09 fault={skipped}");
    assert_eq!((applied, skipped), (0, 3));
    assert!(poll_once(takeover).is_ready());
}
