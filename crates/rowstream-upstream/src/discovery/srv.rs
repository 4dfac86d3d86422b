//! Queries SRV records (RFC 2782) from a DNS server over TCP (RFC 7766, section 5). If the server
//! doesn't speak TCP, we use UDP. Consul's server returns only three records over UDP, and doesn't
//! indicate that there are more. We ignore weights: instances take turns.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use rowstream_core::fetch::Failure;
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};

use super::Instance;

/// The number of queries over UDP, which may lose some, and the time limit of each.
const TRIES: u32 = 3;
const PATIENCE: Duration = Duration::from_millis(800);
/// The longest answer over UDP (RFC 1035, section 4.2.1; a longer one is truncated).
const MOST: usize = 4096;
const PORT: u16 = 53;

/// The instances of a name.
pub(super) async fn ask(name: &str, resolver: Option<SocketAddr>) -> Result<Vec<Instance>, Failure> {
    let server = match resolver {
        Some(server) => server,
        None => system_resolver(&fs::read_to_string("/etc/resolv.conf")?)
            .ok_or("/etc/resolv.conf names no DNS server")?,
    };
    let id = getrandom::u32()? as u16;
    let question = question(id, name)?;
    if let Ok(Ok(answer)) = tokio::time::timeout(PATIENCE, over_tcp(server, &question)).await {
        return read(&answer, resolver.is_some());
    }
    for _ in 0..TRIES {
        let asked = tokio::time::timeout(PATIENCE, over_udp(server, id, &question)).await;
        let Ok(answer) = asked else { continue };
        let answer = answer?;
        if Packet::parse(&answer)?.has_flags(PacketFlag::TRUNCATION) {
            return Err(format!(
                "{server}: the answer is too long for UDP, and the server doesn't answer over TCP"
            )
            .into());
        }
        return read(&answer, resolver.is_some());
    }
    Err(format!("{server}: no answer").into())
}

/// The first server in the system's file.
fn system_resolver(text: &str) -> Option<SocketAddr> {
    let servers = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    let address = servers.filter_map(|rest| rest.trim().split('%').next()?.parse::<IpAddr>().ok()).next();
    address.map(|address| SocketAddr::new(address, PORT))
}

fn question(id: u16, name: &str) -> Result<Vec<u8>, Failure> {
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let asked = (QTYPE::TYPE(TYPE::SRV), QCLASS::CLASS(CLASS::IN));
    packet.questions.push(Question::new(Name::new(name)?, asked.0, asked.1, false));
    Ok(packet.build_bytes_vec()?)
}

/// Waits for the answer with this id. Packets from other hosts are ignored.
async fn over_udp(server: SocketAddr, id: u16, question: &[u8]) -> Result<Vec<u8>, Failure> {
    let own: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((own, 0)).await?;
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut answer = vec![0; MOST];
    loop {
        let length = socket.recv(&mut answer).await.map_err(|error| format!("{server}: {error}"))?;
        if simple_dns::header_buffer::id(&answer[..length]).is_ok_and(|its| its == id) {
            answer.truncate(length);
            return Ok(answer);
        }
    }
}

async fn over_tcp(server: SocketAddr, question: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(&[&u16::try_from(question.len())?.to_be_bytes(), question].concat()).await?;
    let mut answer = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

/// The instances in an answer. A name that doesn't exist has none. If we query a DNS server other
/// than the system's, the system's may not know the target names, so we use the addresses that the
/// answer includes (`takes_addresses`).
pub(super) fn read(answer: &[u8], takes_addresses: bool) -> Result<Vec<Instance>, Failure> {
    let packet = Packet::parse(answer)?;
    match packet.rcode() {
        RCODE::NoError | RCODE::NameError => {}
        code => return Err(format!("the DNS server answers {code:?}").into()),
    }
    let address = |target: &Name<'_>| {
        let beside =
            packet.additional_records.iter().filter(|record| takes_addresses && record.name == *target);
        beside.filter_map(|record| address(&record.rdata)).next()
    };
    let instance = |data: &RData<'_>| match data {
        // A root target means that there's no such service.
        RData::SRV(srv) if srv.port > 0 && !srv.target.get_labels().is_empty() => {
            let host =
                address(&srv.target).map_or_else(|| srv.target.to_string(), |address| address.to_string());
            Some(Instance { rank: srv.priority, host, port: srv.port })
        }
        _ => None,
    };
    Ok(packet.answers.iter().filter_map(|record| instance(&record.rdata)).collect())
}

fn address(data: &RData<'_>) -> Option<IpAddr> {
    match data {
        RData::A(one) => Some(Ipv4Addr::from(one.address).into()),
        RData::AAAA(one) => Some(Ipv6Addr::from(one.address).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_resolver() {
        for (text, expected) in [
            ("# a\nsearch b\nnameserver 10.0.0.2\nnameserver 10.0.0.3", Some("10.0.0.2:53")),
            ("nameserver fe80::1%eth0", Some("[fe80::1]:53")),
            ("options ndots:5", None),
        ] {
            assert_eq!(
                system_resolver(text).map(|address| address.to_string()).as_deref(),
                expected,
                "{text}"
            );
        }
    }
}
