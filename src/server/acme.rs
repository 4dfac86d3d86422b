//! Gets this server's certificate from a certificate authority and renews it before it expires
//! (ACME, RFC 8555). We prove each domain on our own TLS port (TLS-ALPN-01, RFC 8737).
//!
//! ```text
//! a stored one, or none ──► two thirds of its lifetime pass ──► order, prove each name, finalize ──► store it ──► new handshakes use it
//!                                    ▲                               └── an error ──► logged, a longer pause ──┐
//!                                    └─────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Handshakes don't wait for this task: without a certificate they fail. `ready` doesn't depend on
//! the certificate, because the authority has to reach a server that doesn't have one yet.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use instant_acme::{
    Account, AuthorizationStatus, BodyWrapper, BytesResponse, ChallengeType, Error, ExternalAccountKey,
    HttpClient, Identifier, NewAccount, NewOrder, Order, OrderStatus, Problem, RetryPolicy,
};
use rowstream_core::fetch::{self, Failure};
use rowstream_core::log;

use crate::certificate::issued::{Certificate, proof};
use crate::config::Acme;

/// The pause after the first failure. Each further failure doubles it, so there are five attempts
/// in the first hour: the number of failures that Let's Encrypt allows ("Rate Limits").
const FIRST_PAUSE: Duration = Duration::from_secs(120);
const LONGEST_PAUSE: Duration = Duration::from_secs(6 * 60 * 60);
/// The time limit for the authority to check the proofs, and to issue the certificate.
const PATIENCE: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(180));
/// The longest sleep before we look at the clock again, because it can be set meanwhile.
const NAP: Duration = Duration::from_secs(60 * 60);
const ACCOUNT: &str = "account.json";
const CERTIFICATE: &str = "certificate.pem";
/// The error of an authority that no longer knows the account (RFC 8555, section 6.7).
const NO_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";
const HINT: &str = "the authority must reach this server at port 443 of each name";

/// Keeps a valid certificate available to handshakes for as long as the server runs.
pub(super) async fn keep_certificate(acme: Acme, files: AcmeFiles) {
    let mut due = match files.certificate(&acme) {
        Some(certificate) => serve(&acme, certificate),
        None => SystemTime::now(),
    };
    let mut pause = FIRST_PAUSE;
    loop {
        sleep_until(due).await;
        let issued = issue(&acme, &files).await;
        acme.issued.forget_proofs();
        let failure = match issued {
            Ok(certificate) => {
                due = serve(&acme, certificate);
                if due > SystemTime::now() {
                    pause = FIRST_PAUSE;
                    continue;
                }
                Failure::from("the new certificate has already expired: check the clock of this machine")
            }
            Err(cause) => cause,
        };
        report(&acme, &failure, pause);
        due = SystemTime::now() + pause;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn report(acme: &Acme, cause: &Failure, pause: Duration) {
    let cause = cause.to_string();
    let cause = cause.strip_prefix("API error: ").unwrap_or(&cause);
    let (names, minutes) = (acme.domains.join(", "), pause.as_secs() / 60);
    log::warning!(
        "ACME: no certificate for {names}: {cause}\n    hint: {HINT}; the next try is in {minutes} min"
    );
}

/// Makes a certificate available to handshakes. Returns the time of its renewal.
fn serve(acme: &Acme, certificate: Certificate) -> SystemTime {
    let (until, renewal) = (certificate.until, certificate.renewal());
    acme.issued.set(certificate);
    log::info!("ACME: the certificate for {} expires {}", acme.domains.join(", "), shown(until));
    renewal
}

fn shown(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).map_or_else(|_| "some day".to_owned(), |time| format!("{time:.0}"))
}

async fn sleep_until(due: SystemTime) {
    while let Ok(rest) = due.duration_since(SystemTime::now()) {
        tokio::time::sleep(rest.min(NAP)).await;
    }
}

/// Gets a certificate from the authority and stores it.
async fn issue(acme: &Acme, files: &AcmeFiles) -> Result<Certificate, Failure> {
    let mut order = order(acme, files).await?;
    prove(acme, &mut order).await?;
    match order.poll_ready(&PATIENCE).await {
        Ok(OrderStatus::Ready) => {}
        Ok(_) => return Err(refusal(&mut order, None).await.into()),
        Err(Error::Api(problem)) => return Err(refusal(&mut order, problem.detail).await.into()),
        Err(error) => return Err(error.into()),
    }
    let key = order.finalize().await?;
    let chain = order.poll_certificate(&PATIENCE).await?;
    let pem = [key, chain].concat().into_bytes();
    let certificate = Certificate::read(&pem)?;
    files.write(CERTIFICATE, &pem)?;
    Ok(certificate)
}

/// Orders a certificate with the stored account, or with a new one.
async fn order(acme: &Acme, files: &AcmeFiles) -> Result<Order, Failure> {
    let names: Vec<_> = acme.domains.iter().cloned().map(Identifier::Dns).collect();
    let wanted = NewOrder::new(&names);
    if let Some(account) = files.account(acme).await? {
        match account.new_order(&wanted).await {
            Err(Error::Api(Problem { r#type: Some(kind), .. })) if kind == NO_ACCOUNT => {}
            order => return Ok(order?),
        }
    }
    Ok(new_account(acme, files).await?.new_order(&wanted).await?)
}

async fn new_account(acme: &Acme, files: &AcmeFiles) -> Result<Account, Failure> {
    let contact: Vec<_> = acme.contact.iter().map(String::as_str).collect();
    let wanted = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
    let external = acme.external_account.as_ref();
    let external = external.map(|account| ExternalAccountKey::new(account.id.clone(), &account.key));
    let builder = Account::builder_with_http(Box::new(Client::of(acme)));
    let (account, credentials) =
        builder.create(&wanted, acme.directory.to_string(), external.as_ref()).await?;
    files.write(ACCOUNT, &serde_json::to_vec(&credentials)?)?;
    Ok(account)
}

/// Prepares the proof of each name that isn't proven yet, and asks the authority to check it.
async fn prove(acme: &Acme, order: &mut Order) -> Result<(), Failure> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let mut challenge = authorization
            .challenge(ChallengeType::TlsAlpn01)
            .ok_or("the authority doesn't offer proofs by TLS (tls-alpn-01)")?;
        let name = challenge.identifier().to_string();
        let digest = challenge.key_authorization().digest();
        acme.issued.prove(&name, proof(&name, digest.as_ref())?);
        challenge.set_ready().await?;
    }
    Ok(())
}

/// The authority's reasons for refusing an order: one for each name, or else one for the whole
/// order.
async fn refusal(order: &mut Order, whole: Option<String>) -> String {
    let mut reasons = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let Ok(state) = authorization.refresh().await else { continue };
        let errors = state.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
        let details = errors.filter_map(|error| error.detail.as_deref());
        reasons.extend(details.map(|detail| format!("{}: {}", state.identifier(), detail.escape_debug())));
    }
    if reasons.is_empty() {
        let whole = whole.unwrap_or_else(|| "the authority refuses the order".to_owned());
        reasons.push(whole.escape_debug().to_string());
    }
    reasons.join("; ")
}

/// The files that outlive the process, in one folder per authority. So a test authority's
/// certificate is never used in place of another's.
pub(super) struct AcmeFiles(PathBuf);

impl AcmeFiles {
    /// # Errors
    /// The folder isn't writable. Without this check we would order a certificate at each start,
    /// until the authority refuses.
    pub(super) fn open(acme: &Acme) -> Result<Self, String> {
        let host = acme.directory.authority().map_or("", |authority| authority.as_str());
        let files = Self(acme.folder.join(host.replace(':', "-")));
        let tried =
            std::fs::create_dir_all(&files.0).and_then(|()| tempfile::NamedTempFile::new_in(&files.0));
        let folder = files.0.display();
        let failed =
            |error| format!("[tls.acme]: {folder}: {error}\n    hint: let the server's user write there");
        tried.map_err(failed)?;
        Ok(files)
    }

    /// The stored account, if it's usable.
    async fn account(&self, acme: &Acme) -> Result<Option<Account>, Failure> {
        let Some(text) = self.read(ACCOUNT)? else { return Ok(None) };
        let Ok(credentials) = serde_json::from_slice(&text) else { return Ok(None) };
        let builder = Account::builder_with_http(Box::new(Client::of(acme)));
        Ok(Some(builder.from_credentials(credentials).await?))
    }

    /// The stored certificate, if it's usable and covers all names.
    fn certificate(&self, acme: &Acme) -> Option<Certificate> {
        let read = self
            .read(CERTIFICATE)
            .map_err(Failure::from)
            .and_then(|pem| pem.as_deref().map(Certificate::read).transpose());
        match read {
            Ok(certificate) => certificate.filter(|certificate| certificate.is_for(&acme.domains)),
            Err(cause) => {
                log::warning!("ACME: {}: {cause}", self.0.join(CERTIFICATE).display());
                None
            }
        }
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match std::fs::read(self.0.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// Writes a whole file or nothing. Only our user can read it.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.0)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(self.0.join(name))?;
        Ok(())
    }
}

/// Sends requests to the authority.
struct Client {
    roots: Option<PathBuf>,
}

impl Client {
    fn of(acme: &Acme) -> Self {
        Self { roots: acme.roots.clone() }
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let roots = self.roots.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let url = head.uri.clone();
            let Ok(body) = body.collect().await;
            let text =
                String::from_utf8(body.to_bytes().into()).map_err(|error| Error::Other(error.into()))?;
            let answer = fetch::send_trusting(Request::from_parts(head, text), roots.as_deref()).await;
            let answer = answer.map_err(|cause| Error::Other(format!("{url}: {cause}").into()))?;
            Ok(answer.map(|body| Full::new(Bytes::from(body))).into())
        })
    }
}
