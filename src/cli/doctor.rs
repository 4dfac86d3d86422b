//! `rowstream doctor`: sends requests to a running server through every hop on the way, and reports
//! how the hops change its responses.
//!
//! The server's [probes](crate::respond::probe) are responses with known bytes and times, so every
//! difference is due to a hop. [`asking`] sends one request, [`findings`] judges the response, and
//! [`cures`] knows the settings that help.

mod asking;
mod cures;
mod findings;

use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::{join, join_all};
use http::header::{self, HeaderName};
use http::{HeaderValue, Uri, Version};
use rowstream_core::log::text::{bounded, one_line};

use self::asking::{ProbeResponse, ProbedServer};
use self::cures::Hops;
use self::findings::{Finding, ReceivedRequest, Verdict};
use super::{Failure, block_on};
use crate::respond::probe::TRICKLE;

/// The longest text from a hop that we show, in bytes.
const MOST_SHOWN: usize = 200;
/// The header fields of every probe.
const ASKED: [(HeaderName, &str); 2] = [(header::TE, "trailers"), (header::ACCEPT_ENCODING, "gzip")];

/// Checks what the proxies before a server do to its answers: buffer or recompress them, strip
/// trailers, time out early, or end cut answers cleanly. Exit status 0: no problem, 1: a problem.
#[derive(Debug, clap::Args)]
pub(super) struct DoctorArgs {
    /// The server's URL for its clients: http://HOST or https://HOST, with the path at the proxy if
    /// there's one.
    #[arg(long, value_name = "URL")]
    via: Uri,
    /// The number of seconds that one stream stays silent and another one flows, to see if
    /// either is cut. Choose at least the longest silence of your streams; many proxies have a limit
    /// of 60.
    #[arg(long, value_name = "SECONDS", default_value_t = 65)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=600))]
    silence: u64,
    /// A header to send with every request, such as 'Authorization: Bearer …'.
    #[arg(short = 'H', value_name = "NAME: VALUE", value_parser = super::bench::header)]
    header: Vec<(HeaderName, HeaderValue)>,
    /// A PEM file of the authorities to trust for the server's certificate, instead of the
    /// system's.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

pub(super) fn run(args: DoctorArgs) -> Result<(), Failure> {
    let (via, silence) = (args.via, Duration::from_secs(args.silence));
    let refused = |error: asking::ProbeError| Failure::Message(error.to_string());
    let server = ProbedServer::read(&via, args.ca.as_ref(), args.header).map_err(refused)?;
    eprintln!("sending probes over HTTP/1.1 and HTTP/2, for {} s", args.silence);
    let is_well = block_on(async {
        let examined = |version| examine(&server, version, silence);
        let answers = join(examined(Version::HTTP_11), examined(Version::HTTP_2)).await;
        if let (Err(error), Err(_)) = &answers {
            return Err(Failure::Message(format!("{via} can't be reached: {error}")));
        }
        let is_well = report(&via, "HTTP/1.1", &answers.0);
        Ok(report(&via, "HTTP/2", &answers.1) && is_well)
    })?;
    if is_well { Ok(()) } else { Err(Failure::Reported) }
}

/// The findings for one version of HTTP.
struct Examination {
    hops: Hops,
    findings: Vec<Finding>,
}

/// Requests every probe, all at the same time.
async fn examine(
    server: &ProbedServer,
    version: Version,
    silence: Duration,
) -> Result<Examination, asking::ProbeError> {
    let first = server.ask(version, "request", &ASKED, Duration::ZERO).await?;
    if let Some(why) = why_no_probe(&first) {
        return Err(why.into());
    }
    let received = ReceivedRequest::read(&first)?;
    let [silent, flowing] =
        ["silence", "trickle"].map(|name| format!("{name}?seconds={}", silence.as_secs()));
    let probes: [(&str, Duration); 7] = [
        ("trickle", TRICKLE.1 * TRICKLE.0 as u32),
        (&silent, silence),
        (&flowing, silence),
        ("abort", TRICKLE.1 * 2),
        ("trailers", TRICKLE.1 * 2),
        ("plain", Duration::ZERO),
        ("gzip", Duration::ZERO),
    ];
    let asked = join_all(probes.map(|(name, lasts)| server.ask(version, name, &ASKED, lasts))).await;
    let [trickle, silent, flowing, abort, trailers, plain, gzip] =
        <[_; 7]>::try_from(asked).map_err(|_| "a probe is missing")?;
    let findings = [
        received.finding(),
        findings::of(trickle, findings::trickle),
        findings::lasting(&flowing, silent, silence),
        findings::of(abort, findings::abort),
        findings::of(trailers, |response| findings::trailers(response, &received)),
        findings::of(plain, findings::plain),
        findings::of(gzip, |response| findings::gzip(response, &received)),
    ];
    Ok(Examination { hops: Hops::read(&first.headers), findings: findings.into() })
}

/// The reason why a server offers no probes to this client.
fn why_no_probe(response: &ProbeResponse) -> Option<String> {
    Some(match response.status {
        200 => return None,
        401 | 403 => format!(
            "status {}: the server doesn't allow you its probes\n    hint: send a token that [admin] allows: -H \
             'Authorization: Bearer …'",
            response.status
        ),
        404 => "status 404: no Rowstream answers there, or one without probes\n    hint: a proxy that hides \
            /_rowstream/ must pass on /_rowstream/probe/"
            .to_owned(),
        status => format!("status {status}: {}", shown(&String::from_utf8_lossy(&response.body))),
    })
}

/// Prints the findings. Returns true if there's no error. An HTTP version that the server doesn't
/// speak isn't an error.
fn report(via: &Uri, version: &str, examined: &Result<Examination, asking::ProbeError>) -> bool {
    let examined = match examined {
        Ok(examined) => examined,
        Err(error) => {
            println!("{via} over {version}: no answer: {}", shown(&error.to_string()));
            return true;
        }
    };
    println!("{via} over {version}{}", examined.hops);
    for finding in &examined.findings {
        println!("  {:<5}  {}", finding.verdict.name(), shown(&finding.text));
        for cure in finding.ailment.iter().flat_map(|ailment| examined.hops.cures(*ailment)) {
            println!("         {cure}");
        }
    }
    examined.findings.iter().all(|finding| finding.verdict != Verdict::Wrong)
}

/// A text from the network, as a single line for a terminal.
fn shown(text: &str) -> String {
    one_line(bounded(text, MOST_SHOWN)).into_owned()
}
