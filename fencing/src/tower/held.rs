//! The body of an answer, which holds its admission until it ends.

use std::fmt;
use std::future::Future;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::atomic::{self, AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::fence::{Admission, Fence};
use crate::tower::BoxError;
use crate::tower::rejection::Rejection;

/// The body of an answer that a [`Server`](crate::tower::Server) gives.
///
/// It holds the admission until it ends or is dropped. When a higher token comes it drops
/// the handler's body and the admission *at once*, in the very call that brings the higher
/// token, so that a client that does not read holds no takeover up. Then it ends with the
/// gRPC status, or with an error where the call is not gRPC, so that a part of an answer is
/// never taken for the whole.
pub struct HeldBody<B> {
    kind: Kind<B>,
}

enum Kind<B> {
    /// Of a route without a fence.
    Open(Pin<Box<B>>),
    Held {
        slot: Arc<Slot<B>>,
        /// Keeps the slot registered for the end of the term.
        _revoked: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
        ending: Ending,
    },
    /// The text of a rejection.
    Text(Bytes),
}

/// What the client is told when the answer is cut.
struct Ending {
    fence: Fence,
    is_grpc: bool,
}

/// What the holder of the body and the one who revokes it share.
struct Slot<B> {
    state: Mutex<State<B>>,
    /// The term is over; set before the state is tried, looked at after it was used.
    is_revoked: AtomicBool,
}

enum State<B> {
    Live {
        body: Pin<Box<B>>,
        admission: Arc<Admission>,
        /// Of who polls the body.
        waker: Waker,
    },
    /// A higher token came; the client has not heard of it yet.
    Cut(crate::Token),
    Over,
}

// ===== impl HeldBody =====

impl<B: Send + 'static> HeldBody<B> {
    pub(super) fn open(body: B) -> Self {
        let kind = Kind::Open(Box::pin(body));
        Self { kind }
    }

    pub(super) fn text(text: String) -> Self {
        let kind = Kind::Text(text.into());
        Self { kind }
    }

    pub(super) fn held(body: B, admission: Arc<Admission>, fence: Fence, is_grpc: bool) -> Self {
        let mut revoked = Box::pin(admission.revoked());
        let slot = Arc::new(Slot {
            state: Mutex::new(State::Live {
                body: Box::pin(body),
                admission,
                waker: Waker::noop().clone(),
            }),
            is_revoked: AtomicBool::new(false),
        });
        let waker = Waker::from(Arc::clone(&slot));
        if revoked
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_ready()
        {
            slot.cut();
        }
        let ending = Ending { fence, is_grpc };
        let kind = Kind::Held {
            slot,
            _revoked: revoked,
            ending,
        };
        Self { kind }
    }
}

impl<B> Body for HeldBody<B>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.kind {
            Kind::Open(body) => body.as_mut().poll_frame(cx).map_err(Into::into),
            Kind::Text(text) => {
                let text = mem::take(text);
                Poll::Ready((!text.is_empty()).then(|| Ok(Frame::data(text))))
            }
            Kind::Held { slot, ending, .. } => slot.poll(cx, ending),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Open(body) => body.is_end_stream(),
            Kind::Text(text) => text.is_empty(),
            Kind::Held { slot, .. } => slot.with(|state| match state {
                State::Live { body, .. } => body.is_end_stream(),
                State::Cut(_) => false,
                State::Over => true,
            }),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Open(body) => body.size_hint(),
            Kind::Text(text) => SizeHint::with_exact(text.len() as u64),
            Kind::Held { slot, .. } => slot.with(|state| match state {
                State::Live { body, .. } => body.size_hint(),
                State::Cut(_) => SizeHint::default(),
                State::Over => SizeHint::with_exact(0),
            }),
        }
    }
}

impl<B> fmt::Debug for HeldBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.kind {
            Kind::Open(_) => "open",
            Kind::Text(_) => "rejection",
            Kind::Held { slot, .. } => match slot.is_revoked.load(Ordering::Relaxed) {
                true => "revoked",
                false => "held",
            },
        };
        f.debug_tuple("HeldBody").field(&state).finish()
    }
}

// ===== impl Slot =====

impl<B> Slot<B> {
    /// Uses the state, and cuts the answer if that could not be done meanwhile.
    fn with<T>(&self, f: impl FnOnce(&mut State<B>) -> T) -> T {
        let value = f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        // Beside the one in `cut`: either it finds the state free, or this finds the mark.
        atomic::fence(Ordering::SeqCst);
        if self.is_revoked.load(Ordering::Relaxed) {
            self.cut();
        }
        value
    }

    /// Lets go of the handler's body and of the admission, unless the state is being
    /// used right now: who uses it looks afterwards.
    fn cut(&self) {
        self.is_revoked.store(true, Ordering::Relaxed);
        atomic::fence(Ordering::SeqCst);
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let token = match &*state {
            State::Live { admission, .. } => admission.token().clone(),
            State::Cut(_) | State::Over => return,
        };
        let live = mem::replace(&mut *state, State::Cut(token));
        drop(state);
        let State::Live {
            body,
            admission,
            waker,
        } = live
        else {
            return;
        };
        // The body first: with it ends whatever it has under way. Foreign code, on the
        // thread of the one who raises.
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| drop(body))) {
            mem::forget(payload);
        }
        drop(admission);
        waker.wake();
    }
}

impl<B> Slot<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    fn poll(
        &self,
        cx: &mut Context<'_>,
        ending: &Ending,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let (polled, over) = self.with(|state| {
            let State::Live { body, waker, .. } = state else {
                return (Poll::Ready(ending.take(state)), None);
            };
            waker.clone_from(cx.waker());
            let polled = body.as_mut().poll_frame(cx).map_err(Into::into);
            let is_over = match &polled {
                Poll::Pending => false,
                Poll::Ready(Some(Ok(frame))) => frame.is_trailers(),
                Poll::Ready(None | Some(Err(_))) => true,
            };
            let over = is_over.then(|| mem::replace(state, State::Over));
            (polled, over)
        });
        // Foreign code, which may ask this body again.
        drop(over);
        polled
    }
}

impl<B: Send> Wake for Slot<B> {
    fn wake(self: Arc<Self>) {
        self.cut();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.cut();
    }
}

// ===== impl Ending =====

impl Ending {
    /// What follows the last frame of an answer, once.
    fn take<B>(&self, state: &mut State<B>) -> Option<Result<Frame<Bytes>, BoxError>> {
        let State::Cut(token) = state else {
            return None;
        };
        let rejection = Rejection::revoked(token, self.fence.highest());
        *state = State::Over;
        Some(match self.is_grpc {
            true => Ok(Frame::trailers(rejection.trailers())),
            false => Err(rejection.into()),
        })
    }
}
