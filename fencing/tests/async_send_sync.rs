//! Fixes which public types and futures may cross threads.

use std::error::Error;
use std::fmt::Debug;

use fencing::{
    Admission, AdmitError, ConfigError, Fence, Guard, GuardError, GuardState, InvalidToken,
    OpenError, Permit, Policy, Refused, ResetError, StaleToken, StartError, Stopped, StorageError,
    Token, Watchdog, WatchdogConfig, WrongScope,
};

fn shared<T: Send + Sync + Unpin + Debug + 'static>() {}
fn error<T: Error + Send + Sync + 'static>() {}
fn send<T: Send>(_: T) {}
fn spawnable<T: Send + 'static>(_: T) {}

/// Compiling it is the test.
#[test]
fn public_types_cross_threads() {
    shared::<Admission>();
    shared::<Fence>();
    shared::<Guard>();
    shared::<GuardState>();
    shared::<Permit>();
    shared::<Policy>();
    shared::<Token>();
    shared::<Watchdog>();
    shared::<WatchdogConfig>();
    error::<AdmitError>();
    error::<ConfigError>();
    error::<GuardError>();
    error::<InvalidToken>();
    error::<Stopped>();
    error::<OpenError>();
    error::<Refused>();
    error::<ResetError>();
    error::<StaleToken>();
    error::<StartError>();
    error::<StorageError>();
    error::<WrongScope>();
}

/// Compiling it is the test.
#[cfg(feature = "test-util")]
#[test]
fn simulations_cross_threads() {
    shared::<fencing::Action>();
    shared::<fencing::Simulation>();
}

/// Compiling it is the test.
#[cfg(feature = "tower")]
#[test]
fn layers_cross_threads() {
    use fencing::tower::{
        CallError, Client, ClientLayer, GuardedBody, HeardBody, HeldBody, Reason, Rejection,
        Server, ServerLayer,
    };

    shared::<ClientLayer>();
    shared::<ServerLayer>();
    shared::<Client<()>>();
    shared::<Server<()>>();
    shared::<Reason>();
    shared::<Rejection>();
    shared::<HeldBody<()>>();
    shared::<HeardBody<()>>();
    send(None::<GuardedBody<()>>);
    error::<CallError>();
    error::<Rejection>();
}

/// Compiling it is the test.
#[cfg(feature = "tonic")]
#[test]
fn channels_cross_threads() {
    shared::<fencing::tonic::ChannelLayer>();
    shared::<fencing::tonic::FencedChannel<()>>();
}

/// Compiling it is the test.
#[expect(dead_code, reason = "never called")]
fn futures(guard: &Guard, fence: &Fence, admission: &Admission) {
    spawnable(guard.cancelled());
    spawnable(admission.revoked());
    send(guard.finish());
    send(guard.run(async {}));
    send(fence.admit(1));
    send(fence.admit(Token::scoped("a", 1)));
    send(fence.admit(admission.token()));
    // A future that is not `Send` and borrows may be run too.
    let local = std::rc::Rc::new(1);
    drop(guard.run(async { *local }));
}
