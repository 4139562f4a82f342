//! Resources that live within one process, served to others: one line for a call, one for
//! its answer, everything that may hold any bytes in hexadecimal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::SeqCst};

use async_trait::async_trait;
use fencing::Token;
use recipes::conformance::Resource;
use recipes::{Entry, WriteError, refusal};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

/// What a call that writes an entry begins with, so that a fault can wait for it.
pub(crate) const APPEND: &[u8] = b"append ";

/// Opens one more client of the resource of a name.
pub(crate) type Open = Arc<dyn Fn(&str) -> Arc<dyn Resource> + Send + Sync>;

pub(crate) async fn serve(listener: TcpListener, open: Open) {
    let mut links = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (client, _) = accepted.unwrap();
                let _ = client.set_nodelay(true);
                links.spawn(answer_all(BufStream::new(client), Arc::clone(&open)));
            }
            Some(_) = links.join_next() => {}
        }
    }
}

async fn answer_all(mut client: BufStream<TcpStream>, open: Open) {
    let mut resource = None;
    let mut call = String::new();
    while let Ok(1..) = client.read_line(&mut call).await {
        let words: Vec<_> = call.trim_end_matches('\n').split(' ').collect();
        let name = text(words[1]);
        let resource = resource.get_or_insert_with(|| open(&name));
        let answer = answer(&**resource, &words).await;
        let sent = client.write_all(format!("{answer}\n").as_bytes()).await;
        if sent.is_err() || client.flush().await.is_err() {
            return;
        }
        call.clear();
    }
}

async fn answer(resource: &dyn Resource, words: &[&str]) -> String {
    let token = || Token::scoped(text(words[2]), words[3].parse().unwrap());
    let outcome = match words[0] {
        "raise" => resource.raise(&token()).await,
        "append" => {
            let (id, value) = (text(words[4]), unhex(words[5]));
            resource.append(&token(), &id, &value).await
        }
        "reset" => resource.reset(&text(words[2])).await,
        _ => {
            let entries = resource.entries().await;
            let bytes: Vec<u8> = entries.iter().flat_map(Entry::to_bytes).collect();
            return hex(&bytes);
        }
    };
    match outcome {
        Ok(()) => "ok".to_owned(),
        Err(WriteError::Stale { highest, .. }) => format!("stale {highest}"),
        Err(WriteError::WrongScope { scope, .. }) => format!("scope {}", hex(scope.as_bytes())),
        Err(WriteError::Invalid { .. }) => "invalid".to_owned(),
        Err(WriteError::Failed(error)) => format!("failed {}", hex(error.to_string().as_bytes())),
        Err(_) => "unknown".to_owned(),
    }
}

/// A client of what is served. Its connection is replaced when it broke.
pub(crate) struct Remote {
    pub(crate) name: String,
    pub(crate) port: Arc<AtomicU16>,
    connection: Mutex<Option<BufStream<TcpStream>>>,
}

// ===== impl Remote =====

impl Remote {
    pub(crate) fn new(name: &str, port: Arc<AtomicU16>) -> Self {
        let (name, connection) = (name.to_owned(), Mutex::default());
        Self {
            name,
            port,
            connection,
        }
    }

    async fn call(&self, what: &str, rest: &str) -> std::io::Result<String> {
        let mut slot = self.connection.lock().await;
        // A connection whose call was dropped is not put back.
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect(("127.0.0.1", self.port.load(SeqCst))).await?;
                stream.set_nodelay(true)?;
                BufStream::new(stream)
            }
        };
        let line = format!("{what} {} {rest}\n", hex(self.name.as_bytes()));
        connection.write_all(line.as_bytes()).await?;
        connection.flush().await?;
        let mut answer = String::new();
        connection.read_line(&mut answer).await?;
        if answer.pop() != Some('\n') {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        *slot = Some(connection);
        Ok(answer)
    }

    async fn ask(&self, what: &str, token: &Token, rest: &str) -> Result<(), WriteError> {
        let token_words = format!(
            "{} {} {rest}",
            hex(token.scope().as_bytes()),
            token.number()
        );
        let answer = self.call(what, &token_words).await;
        let answer = answer.map_err(|error| WriteError::Unknown(error.into()))?;
        let (word, more) = answer.split_once(' ').unwrap_or((&answer, ""));
        match word {
            "ok" => Ok(()),
            "stale" => Err(refusal(token, token.scope(), more.parse().unwrap())),
            "scope" => Err(refusal(token, &text(more), 0)),
            "invalid" => Err(WriteError::invalid("the resource says so")),
            "failed" => Err(WriteError::Failed(text(more).into())),
            word => Err(WriteError::Unknown(word.into())),
        }
    }
}

#[async_trait]
impl Resource for Remote {
    async fn raise(&self, token: &Token) -> Result<(), WriteError> {
        self.ask("raise", token, "").await
    }

    async fn append(&self, token: &Token, id: &str, value: &[u8]) -> Result<(), WriteError> {
        let rest = format!("{} {}", hex(id.as_bytes()), hex(value));
        self.ask("append", token, &rest).await
    }

    async fn reset(&self, scope: &str) -> Result<(), WriteError> {
        self.ask("reset", &Token::scoped(scope, 0), "").await
    }

    async fn entries(&self) -> Vec<Entry> {
        let answer = self.call("entries", "").await.expect("it is served");
        Entry::read_all(&unhex(&answer)).expect("entries")
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = |byte: &u8| [byte >> 4, byte & 15].map(|digit| DIGITS[digit as usize] as char);
    bytes.iter().flat_map(digits).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).expect("a digit") as u8;
    let pair = |pair: &[u8]| (digit(pair[0]) << 4) | digit(pair[1]);
    text.as_bytes().chunks_exact(2).map(pair).collect()
}

fn text(digits: &str) -> String {
    String::from_utf8(unhex(digits)).expect("text")
}
