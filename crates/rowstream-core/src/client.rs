//! Identifies the client of a request: by address when streams are counted per client, and by token
//! (or else address) when clients take turns for a connection.
//!
//! Behind a trusted proxy, it's the address that the proxy reports. Behind several of them, it's
//! the last reported address that isn't a trusted proxy's. Other peers' headers are ignored,
//! because anyone can write them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue};
use ipnet::IpNet;

/// Represents the peers of Unix sockets, which have no address. No packet has this source address.
pub const UNIX: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// A client that takes turns with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Client {
    /// Not known, for example in a command.
    #[default]
    Unknown,
    /// The client at this address.
    Address(IpAddr),
    /// The hash of the client's token, independent of its address.
    Token([u8; 32]),
}

/// The trusted proxies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proxies {
    /// Their addresses.
    pub trusted: Vec<IpNet>,
    /// The header that reports the client.
    pub header: ClientHeader,
    /// Proxies that report it with the PROXY protocol at the start of a connection.
    pub announcing: Vec<IpNet>,
}

/// The header that names the client of a proxy. Only this one is read: a proxy that writes one
/// of them may pass the other on as its client sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientHeader {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

impl Proxies {
    /// True if `peer` is a trusted proxy.
    pub fn trusts(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.trusted.iter().any(|network| network.contains(&peer))
    }

    /// True if a connection from `peer` begins with the PROXY protocol.
    pub fn announces(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.announcing.iter().any(|network| network.contains(&peer))
    }

    /// The address of the client of a request that arrived from `peer`.
    pub fn address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        if !self.trusts(client) {
            return client;
        }
        let name = match self.header {
            ClientHeader::XForwardedFor => HeaderName::from_static("x-forwarded-for"),
            ClientHeader::Forwarded => header::FORWARDED,
        };
        let hops = headers.get_all(name).iter().filter_map(text).flat_map(|text| text.split(','));
        for hop in hops.collect::<Vec<_>>().into_iter().rev() {
            if !self.trusts(client) {
                break;
            }
            // The proxy reported no usable address, so it counts as the client.
            let Some(address) = self.hop(hop) else { break };
            client = address.to_canonical();
        }
        client
    }

    fn hop(&self, hop: &str) -> Option<IpAddr> {
        match self.header {
            ClientHeader::XForwardedFor => node(hop.trim()),
            ClientHeader::Forwarded => {
                let pairs = hop.split(';').filter_map(|pair| pair.split_once('='));
                let mut names = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case("for"));
                node(names.next()?.1.trim().trim_matches('"'))
            }
        }
    }
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

/// An address with or without a port: `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80`.
fn node(text: &str) -> Option<IpAddr> {
    if let Some((address, _)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address.parse().ok();
    }
    let without_port = || text.split_once(':').and_then(|(address, _)| address.parse().ok());
    text.parse().ok().or_else(without_port)
}

/// One client owns 2^64 IPv6 addresses, so we count the /64 network.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        address @ IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(header: ClientHeader, peer: &str, values: &[&str]) -> String {
        let trusted = ["10.0.0.0/8", "2001:db8:1::/48"].map(|network| network.parse().unwrap()).to_vec();
        let name = match header {
            ClientHeader::XForwardedFor => "x-forwarded-for",
            ClientHeader::Forwarded => "forwarded",
        };
        let name = HeaderName::from_static(name);
        let headers = values.iter().map(|value| (name.clone(), HeaderValue::from_str(value).unwrap()));
        let client = Proxies { trusted, header, announcing: Vec::new() }
            .address(peer.parse().unwrap(), &headers.collect());
        network_of(client).to_string()
    }

    #[test]
    fn clients_behind_proxies() {
        for (peer, values, expected) in [
            ("192.0.2.1", &[][..], "192.0.2.1"),
            ("::ffff:192.0.2.1", &[], "192.0.2.1"),
            // Only our own proxies are trusted.
            ("192.0.2.1", &["198.51.100.7"], "192.0.2.1"),
            ("10.0.0.1", &["198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &["198.51.100.7:4711"], "198.51.100.7"),
            ("::ffff:10.0.0.1", &["198.51.100.7"], "198.51.100.7"),
            // The client itself wrote the values on the left.
            ("10.0.0.1", &["203.0.113.9, 198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &["203.0.113.9", "198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &["198.51.100.7, 10.0.0.2"], "198.51.100.7"),
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["unknown"], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.7, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["2001:db8:2::7"], "2001:db8:2::"),
            ("10.0.0.1", &["[2001:db8:2::7]:80"], "2001:db8:2::"),
            ("2001:db8:1::1", &["198.51.100.7"], "198.51.100.7"),
            ("2001:db8:2:3:4:5:6:7", &[], "2001:db8:2:3::"),
        ] {
            assert_eq!(client(ClientHeader::XForwardedFor, peer, values), expected, "{peer} {values:?}");
        }
    }

    #[test]
    fn clients_behind_proxies_of_rfc_7239() {
        for (values, expected) in [
            (&["for=198.51.100.7"][..], "198.51.100.7"),
            (&["by=10.0.0.1;For=\"198.51.100.7:4711\";proto=https"], "198.51.100.7"),
            (&["for=203.0.113.9, for=198.51.100.7;by=10.0.0.9", "for=10.0.0.2"], "198.51.100.7"),
            (&["for=\"[2001:db8:2::7]:4711\""], "2001:db8:2::"),
            (&["for=_hidden"], "10.0.0.1"),
            (&["proto=https"], "10.0.0.1"),
        ] {
            assert_eq!(client(ClientHeader::Forwarded, "10.0.0.1", values), expected, "{values:?}");
        }
    }
}
