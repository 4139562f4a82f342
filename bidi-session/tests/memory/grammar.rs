//! The order of one worker's events.

use bidi_session::{Event, EventKind};

use crate::rig::Word;

/// The events of one worker in one pool.
#[derive(Debug, Default)]
pub(crate) struct Grammar {
    session: Option<u64>,
    last: u64,
    pub(crate) is_over: bool,
}

// ===== impl Grammar =====

impl Grammar {
    /// Accepts `(AttemptFailed* Connected Message* Disconnected)* AttemptFailed* Removed?`,
    /// with messages whose tag names the session they were sent on.
    pub(crate) fn check(&mut self, event: &Event<Word>) {
        let generation = event.generation;
        if self.is_over {
            // A new entry of a removed worker begins anew, above all before it.
            *self = Self {
                last: self.last,
                ..Self::default()
            };
            assert!(generation > self.last || generation == 0, "{event:?}");
        }
        match &event.kind {
            EventKind::Connected { .. } => {
                assert_eq!(self.session, None, "{event:?}");
                assert!(generation > self.last, "{event:?}");
                self.session = Some(generation);
            }
            EventKind::Message(word) => {
                assert_eq!(self.session, Some(generation), "{event:?}");
                assert_eq!(word.tag >> 32, generation, "sent on another session");
            }
            EventKind::Disconnected { .. } => {
                assert_eq!(self.session.take(), Some(generation), "{event:?}");
            }
            EventKind::AttemptFailed { .. } | EventKind::HigherTerm { .. } => {
                assert_eq!(self.session, None, "{event:?}");
                assert!(generation > self.last, "{event:?}");
            }
            EventKind::Removed => {
                assert_eq!(self.session, None, "{event:?}");
                self.is_over = true;
            }
            _ => panic!("an unknown kind of event: {event:?}"),
        }
        self.last = self.last.max(generation);
    }
}
