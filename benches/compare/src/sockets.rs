//! The kernel's buffers for a server's sockets, from `ss -tmn`.
//!
//! ```text
//! ESTAB 0 2565120 127.0.0.1:8080 127.0.0.1:51234
//!      skmem:(r0,rb131072,t0,tb2626560,f3840,w2625280,o0,bl0,d0)
//! ```
//!
//! `r` is received and not yet read, `w` is written and not yet acknowledged. `t` is the part of
//! `w` in the lower layers, so we count the larger of the two.

use std::process::Command;

use crate::Result;

/// The kernel's bytes for all sockets of a server: those at its own port, and those to the
/// database.
pub(crate) fn memory(server_port: u16, database_port: u16) -> Result<u64> {
    let output =
        Command::new("ss").arg("-tmn").output().map_err(|error| format!("cannot run ss: {error}"))?;
    Ok(sum(&String::from_utf8_lossy(&output.stdout), server_port, database_port))
}

fn sum(listing: &str, server_port: u16, database_port: u16) -> u64 {
    let mut total = 0;
    let mut ours = false;
    for line in listing.lines() {
        if let Some(memory) = line.trim_start().strip_prefix("skmem:(") {
            total += if ours { held(memory) } else { 0 };
        } else {
            ours = is_ours(line, server_port, database_port).unwrap_or(false);
        }
    }
    total
}

/// Returns true if a line is for a socket on the server's side. The other end has a separate line.
fn is_ours(line: &str, server_port: u16, database_port: u16) -> Option<bool> {
    let mut words = line.split_whitespace().skip(3);
    let (local, peer) = (port(words.next()?)?, port(words.next()?)?);
    Some(local == server_port || peer == database_port)
}

fn port(address: &str) -> Option<u16> {
    address.rsplit_once(':')?.1.parse().ok()
}

fn held(memory: &str) -> u64 {
    let field = |name: char| {
        let fields = memory.trim_end().trim_end_matches(')').split(',');
        fields.filter_map(|field| field.strip_prefix(name)?.parse::<u64>().ok()).sum::<u64>()
    };
    field('r') + field('w').max(field('t'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "\
State Recv-Q Send-Q Local Address:Port Peer Address:Port
ESTAB 0      2565120 127.0.0.1:8080   127.0.0.1:51234
\t skmem:(r0,rb131072,t100,tb2626560,f3840,w2625280,o0,bl0,d7)
ESTAB 512    0       127.0.0.1:51234  127.0.0.1:8080
\t skmem:(r999,rb131072,t0,tb2626560,f0,w0,o0,bl0,d0)
ESTAB 4096   0       127.0.0.1:40000  127.0.0.1:5432
\t skmem:(r8448,rb131072,t0,tb87040,f0,w0,o0,bl0,d0)
ESTAB 0      4096    127.0.0.1:5432   127.0.0.1:40000
\t skmem:(r0,rb131072,t77,tb87040,f0,w777,o0,bl0,d0)
ESTAB 0      0       [::ffff:127.0.0.1]:8080 [::ffff:127.0.0.1]:51236
\t skmem:(r1,rb1,t5,tb1,f0,w0,o0,bl0,d0)
";

    #[test]
    fn the_servers_side_counts() {
        assert_eq!(sum(LISTING, 8080, 5432), 2_625_280 + 8448 + 1 + 5);
    }

    #[test]
    fn others_do_not() {
        assert_eq!(sum(LISTING, 1, 2), 0);
    }
}
