//! Where etcd is reached, and what no retry can help of it.

use std::time::Duration;

use tonic::transport::Endpoint;

use super::tls;
use crate::{Error, ErrorKind};

/// One address of etcd.
///
/// Made from a text such as `http://127.0.0.1:2379`, or from a tonic `Endpoint`. TLS needs
/// the latter, with a `tls_config`; a list of addresses is several of these.
#[derive(Clone, Debug)]
pub struct EtcdEndpoint(Given);

#[derive(Clone, Debug)]
enum Given {
    Text(String),
    Endpoint(Box<Endpoint>),
}

// ===== impl EtcdEndpoint =====

impl EtcdEndpoint {
    /// Refuses what nobody can mean, and lets connections with calls be pinged.
    pub(super) fn check(self, ping: Duration) -> Result<Endpoint, Error> {
        let is_text = matches!(self.0, Given::Text(_));
        let endpoint = self.parse()?;
        let uri = endpoint.uri();
        let authority = uri.authority().map_or("", |name| name.as_str());
        if authority.contains('@') {
            // Not shown: it may be a password.
            let text = "an endpoint holds a user: give it to EtcdOptions::with_user instead";
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        // Any other scheme, mistyped perhaps, would be spoken to in plain text.
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        if !is_http || uri.host().is_none() {
            let text = format!("the endpoint {uri} is no address such as http://host:2379");
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        // A port that is none stays in the text, and nobody could ever be connected to.
        let is_given = authority.len() > uri.host().map_or(0, str::len);
        if is_given && uri.port_u16().is_none() {
            let text =
                format!("the port of the endpoint {uri} is none from 0 to 65535: correct it");
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        let is_https = uri.scheme_str() == Some("https");
        if is_https && !tls::is_built_in() {
            let text = format!(
                "the endpoint {uri} wants TLS, which tonic is built without: turn on one of its \
                 TLS features, and give an Endpoint with a tls_config"
            );
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        if is_https && is_text {
            let text = format!(
                "the endpoint {uri} wants TLS, for which a text has no settings: give a tonic \
                 Endpoint with a tls_config"
            );
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        Ok(endpoint
            .http2_keep_alive_interval(ping)
            .keep_alive_timeout(ping))
    }

    fn parse(self) -> Result<Endpoint, Error> {
        let text = match self.0 {
            Given::Endpoint(endpoint) => return Ok(*endpoint),
            Given::Text(text) => text,
        };
        if text.contains(',') {
            let text = "an endpoint holds a comma: give several endpoints instead, such as \
                        [\"http://one:2379\", \"http://two:2379\"]";
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        Endpoint::from_shared(text).map_err(|error| {
            let text = "an endpoint is no address such as http://host:2379";
            Error::new(ErrorKind::Invalid, text).with_source(error)
        })
    }
}

impl From<String> for EtcdEndpoint {
    fn from(text: String) -> Self {
        Self(Given::Text(text))
    }
}

impl From<&String> for EtcdEndpoint {
    fn from(text: &String) -> Self {
        Self(Given::Text(text.clone()))
    }
}

impl From<&str> for EtcdEndpoint {
    fn from(text: &str) -> Self {
        Self(Given::Text(text.to_owned()))
    }
}

impl From<Endpoint> for EtcdEndpoint {
    fn from(endpoint: Endpoint) -> Self {
        Self(Given::Endpoint(Box::new(endpoint)))
    }
}
