//! The watches that the fake serves.

use std::sync::Arc;

use etcd_client::proto::{
    PbEvent, PbWatchRequest, PbWatchRequestUnion, PbWatchResponse, PbWatchService,
};
use tokio::sync::mpsc;
use tonic::{
    Request, Response, Status, Streaming, codegen::tokio_stream::wrappers::ReceiverStream,
};

use super::{
    State,
    model::is_within,
    serve::{Answers, QUEUE_LEN, Serves},
};

/// What one watch has asked for, and from which revision on it has told nothing yet.
struct Watcher {
    key: Vec<u8>,
    end: Vec<u8>,
    next: i64,
}

/// One stream of watches.
struct Watching {
    state: Arc<State>,
    watchers: Vec<Watcher>,
    answers: mpsc::Sender<Result<PbWatchResponse, Status>>,
}

#[tonic::async_trait]
impl PbWatchService for Serves {
    type WatchStream = Answers<PbWatchResponse>;

    async fn watch(
        &self,
        request: Request<Streaming<PbWatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (answers, stream) = mpsc::channel(QUEUE_LEN);
        let watching = Watching {
            state: Arc::clone(&self.0),
            watchers: Vec::new(),
            answers,
        };
        self.0.spawn(watching.run(request.into_inner()));
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

// ===== impl Watching =====

impl Watching {
    async fn run(mut self, mut asked: Streaming<PbWatchRequest>) {
        let mut changes = self.state.changes();
        loop {
            let goes_on = tokio::select! {
                asked = asked.message() => match asked {
                    Ok(Some(asked)) => self.asked(asked).await,
                    _ => false,
                },
                changed = changes.changed() => changed.is_ok(),
            };
            if !goes_on || !self.tell_news().await {
                return;
            }
        }
    }

    async fn asked(&mut self, asked: PbWatchRequest) -> bool {
        let mut answer = PbWatchResponse {
            header: Some(self.state.model().header()),
            ..PbWatchResponse::default()
        };
        match asked.request_union {
            Some(PbWatchRequestUnion::CreateRequest(wanted)) => {
                answer.watch_id = self.watchers.len() as i64;
                answer.created = true;
                self.watchers.push(Watcher {
                    key: wanted.key,
                    end: wanted.range_end,
                    next: wanted.start_revision,
                });
                self.state.note_watch();
            }
            Some(PbWatchRequestUnion::ProgressRequest(_)) => {
                answer.watch_id = -1;
                self.state.note_progress();
            }
            Some(PbWatchRequestUnion::CancelRequest(_)) | None => return true,
        }
        self.send(answer).await
    }

    async fn tell_news(&mut self) -> bool {
        for index in 0..self.watchers.len() {
            let (header, events) = {
                let model = self.state.model();
                let watcher = &mut self.watchers[index];
                let news = model.events.iter().filter(|(revision, event)| {
                    let key = event.kv.as_ref().map_or(&[][..], |kv| &kv.key);
                    *revision >= watcher.next && is_within(key, &watcher.key, &watcher.end)
                });
                let events: Vec<PbEvent> = news.map(|(_, event)| event.clone()).collect();
                watcher.next = watcher.next.max(model.revision + 1);
                (model.header(), events)
            };
            if events.is_empty() {
                continue;
            }
            let answer = PbWatchResponse {
                header: Some(header),
                watch_id: index as i64,
                events,
                ..PbWatchResponse::default()
            };
            if !self.send(answer).await {
                return false;
            }
        }
        true
    }

    async fn send(&self, answer: PbWatchResponse) -> bool {
        let fate = {
            let mut model = self.state.model();
            let script = &self.state.script;
            script.fate(&script.watch, &mut model, answer)
        };
        let (sent, goes_on) = fate.streamed().await;
        for answer in sent {
            if self.answers.send(answer).await.is_err() {
                return false;
            }
        }
        goes_on
    }
}
