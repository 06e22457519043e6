//! The settings of TLS connections.

use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::asked::Trust;
use crate::checked_load::Load;
use crate::error::Error;

/// What each TLS connection of a load begins with.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// The settings of a load; `None` without TLS.
    pub(crate) fn of(load: &Load) -> Result<Option<Self>, Error> {
        let target = load.target();
        if !target.tls {
            return Ok(None);
        }
        let unusable =
            |source: Box<dyn std::error::Error + Send + Sync>| Error::Tls { host: target.host.clone(), source };
        let name = ServerName::try_from(target.host.clone()).map_err(|error| unusable(error.into()))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| unusable(error.into()))?;
        let mut config = match &load.asked().trust {
            Trust::System => builder.with_root_certificates(of_system()?).with_no_client_auth(),
            Trust::File(path) => builder.with_root_certificates(of_file(path)?).with_no_client_auth(),
            Trust::Anything => {
                let verifier = Arc::new(Unchecked(provider));
                builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
            }
        };
        // A new user has no session to resume.
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Some(Self { config: Arc::new(config), name }))
    }

    /// A new connection.
    pub(crate) fn connection(&self) -> Result<ClientConnection, rustls::Error> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
    }
}

/// Why TLS failed, in words. What `openssl req -x509` makes without further options is the certificate of an authority.
pub(crate) fn cause(error: &rustls::Error) -> String {
    let text = error.to_string();
    if !text.contains("CaUsedAsEndEntity") {
        return text;
    }
    "the server's certificate is that of an authority, which no server may use (`openssl req -x509` makes one for a server with \
     `-addext basicConstraints=critical,CA:FALSE`)"
        .to_owned()
}

fn of_system() -> Result<RootCertStore, Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let cause = found.errors.first().map_or_else(|| "there are none".to_owned(), ToString::to_string);
        return Err(Error::Certificates { place: "the system's store".to_owned(), cause });
    }
    Ok(roots)
}

fn of_file(path: &Path) -> Result<RootCertStore, Error> {
    let text = std::fs::read(path).map_err(|source| Error::ReadFile { path: path.to_owned(), source })?;
    let fault = |cause: String| Error::Certificates { place: format!("`{}`", path.display()), cause };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| fault(error.to_string()))?;
        roots.add(certificate).map_err(|error| fault(error.to_string()))?;
    }
    if roots.is_empty() { Err(fault("it contains none in PEM form".to_owned())) } else { Ok(roots) }
}

/// Accepts every certificate. Signatures are checked: they are part of the work of a handshake.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
