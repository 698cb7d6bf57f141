//! A certificate of the run, and files of root certificates for its clients.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring::default_provider,
        pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};

use crate::error::{BenchError, cannot};

/// Root certificates of the system. Lambda's image has the second file.
const BUNDLES: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// Returns the system's file of root certificates.
pub(crate) fn system_bundle() -> Option<&'static str> {
    BUNDLES.into_iter().find(|path| Path::new(path).is_file())
}

/// A certificate for `localhost`, for both ends of a TLS connection.
#[derive(Clone)]
pub(crate) struct Certificate {
    pub(crate) acceptor: TlsAcceptor,
    /// The certificate authority of the run, in PEM.
    pub(crate) authority: PathBuf,
    /// The root certificates of this system and the authority: a function on AWS reads a file of the same size.
    pub(crate) bundle: PathBuf,
}

impl Certificate {
    pub(crate) fn create(folder: &Path) -> Result<Self, BenchError> {
        let (authority, certificate, key) = signed().map_err(cannot("create the certificate"))?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(vec![certificate], key))
            .map_err(cannot("set up TLS"))?;
        let system = system_bundle().map(fs::read_to_string).transpose()?;
        let (alone, bundle) = (folder.join("authority.pem"), folder.join("bundle.pem"));
        fs::write(&alone, &authority)?;
        fs::write(&bundle, format!("{}\n{authority}", system.unwrap_or_default()))?;
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            authority: alone,
            bundle,
        })
    }
}

/// Returns an authority in PEM, a certificate that it signs, and the key of the certificate.
fn signed() -> Result<(String, CertificateDer<'static>, PrivateKeyDer<'static>), rcgen::Error> {
    let authority_key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    // OpenSSL regards a certificate as self-signed if issuer and subject have the same name.
    params
        .distinguished_name
        .push(DnType::CommonName, "authority of the bench");
    let authority = params.self_signed(&authority_key)?;
    let issuer = Issuer::new(params, authority_key);
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, "localhost");
    params.use_authority_key_identifier_extension = true;
    let server = params.signed_by(&key, &issuer)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    Ok((authority.pem(), server.der().clone(), key.into()))
}
