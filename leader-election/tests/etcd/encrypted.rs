//! An etcd that speaks TLS, and clients that trust it, do not, or speak plain text.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{path::Path, time::Duration};

use leader_election::{
    Error, ErrorKind,
    etcd::{EtcdElection, EtcdEndpoint},
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::{net::TcpStream, time::sleep};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

use crate::{
    config, lead,
    server::{Etcd, Flags, free_port},
    soon,
    wrong_input::told,
};

/// Signs certificates, and is trusted by whom it is given to.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes a certificate for this machine, and returns the flags that make etcd use it.
    fn issue(&self, dir: &Path) -> Vec<String> {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let cert = params.signed_by(&key, &self.0).unwrap();
        let write = |name: &str, pem: String| {
            let path = dir.join(name);
            std::fs::write(&path, pem).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (cert, key) = (write("cert", cert.pem()), write("key", key.serialize_pem()));
        vec!["--cert-file".into(), cert, "--key-file".into(), key]
    }
}

/// Starts an etcd that speaks TLS, and waits until it listens.
async fn start(authority: &Authority) -> (Etcd, TempDir) {
    let dir = TempDir::new().unwrap();
    let (port, peer_port) = (free_port(), free_port());
    let etcd = Etcd::spawn(Flags {
        name: "m".to_owned(),
        port,
        peer_port,
        advertised_peer_port: peer_port,
        members: format!("m=http://127.0.0.1:{peer_port}"),
        scheme: "https",
        extra: authority.issue(dir.path()),
    });
    let listens = async {
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    soon(listens).await;
    (etcd, dir)
}

async fn connect(endpoint: impl Into<EtcdEndpoint>) -> Result<EtcdElection, Error> {
    soon(EtcdElection::connect([endpoint], "e", config(5))).await
}

fn trusting(etcd: &Etcd, authority: &Authority) -> Endpoint {
    let pem = Certificate::from_pem(authority.0.pem());
    let endpoint = Endpoint::from_shared(format!("https://127.0.0.1:{}", etcd.port())).unwrap();
    let tls = ClientTlsConfig::new().ca_certificate(pem);
    endpoint.tls_config(tls).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_with_tls_is_used_by_who_trusts_it_and_told_of_by_who_does_not() {
    let (known, unknown) = (Authority::new(), Authority::new());
    let (etcd, _dir) = start(&known).await;
    let election = connect(trusting(&etcd, &known)).await.unwrap();
    assert!(lead(&election, b"a").await.is_valid());

    // No error of the settings: the certificate may be replaced.
    let stranger = connect(trusting(&etcd, &unknown)).await.unwrap();
    let error = stranger.scope().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(told(&error).contains("certificate"), "{}", told(&error));

    // Such an endpoint is retried, too: etcd may be on its way to another setting.
    let plain = connect(format!("http://127.0.0.1:{}", etcd.port())).await;
    let error = plain.unwrap().scope().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(!told(&error).contains("refused"), "{}", told(&error));
    println!("{}", told(&error));
}
