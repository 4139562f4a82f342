//! What the suite needs to know of a resource.

use std::sync::Arc;

use async_trait::async_trait;
use fencing::Token;

use crate::write::{Entry, WriteError};

/// A client of a fenced resource. Calls may come at the same time.
#[async_trait]
pub trait Resource: Send + Sync {
    /// Refuses lower tokens from here on, and writes nothing.
    async fn raise(&self, token: &Token) -> Result<(), WriteError>;

    /// Appends an entry, once for each `id`.
    async fn append(&self, token: &Token, id: &str, value: &[u8]) -> Result<(), WriteError>;

    /// The operator's step after the store of the tokens was rebuilt.
    async fn reset(&self, scope: &str) -> Result<(), WriteError>;

    /// Reads the resource's own history, in the order in which it was written.
    async fn entries(&self) -> Vec<Entry>;
}

/// Starts resources, and does harm to them.
#[async_trait]
pub trait Harness: Send + Sync {
    /// Connects one more client to the resource of this name, which is empty at first.
    async fn open(&self, name: &str) -> Arc<dyn Resource>;

    /// Connects a client whose next write meets the fault.
    async fn open_faulty(&self, name: &str, fault: Fault) -> Box<dyn FaultyClient>;

    /// Hands out the next token for the resource of this name: the one before is over.
    async fn next_token(&self, name: &str) -> Token;

    /// Whether a token may have any number and scope. False where only the winner of an
    /// election can have one.
    fn takes_any_token(&self) -> bool {
        true
    }

    /// Ends the process that keeps the resource as `kill -9` does, and starts it again.
    /// Returns how many processes the kernel has seen die; zero where the resource lives
    /// and dies with its process, which leaves out the case.
    async fn crash(&self) -> u64;
}

/// What happens to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It is carried out; its reply is thrown away.
    LostReply,
    /// It is kept back on its way to the resource, until it is let go.
    Held,
}

/// A client with a wire that is broken on purpose.
#[async_trait]
pub trait FaultyClient: Send + Sync {
    /// The client.
    fn resource(&self) -> Arc<dyn Resource>;

    /// How often the fault has happened so far, counted where it is made.
    fn faults(&self) -> u64;

    /// Ends the fault: what was held goes on. What was lost stays so.
    fn heal(&self);
}
