//! The addresses that an upstream may have. They're checked after its name is resolved, and we
//! connect to the very address that we checked. So it doesn't matter if the name resolves to
//! another address later, or for other clients.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// An entry of `allow`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowEntry {
    /// Every address of the public internet.
    Public,
    /// A network, or one address.
    Network(IpNet),
}

impl AllowEntry {
    /// Reads `"public"`, an address or a network.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "public" => Some(Self::Public),
            _ => text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).ok().map(Self::Network),
        }
    }

    /// Returns true if it allows `address`.
    pub fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        match self {
            Self::Public => is_public(address),
            Self::Network(network) => network.contains(&address),
        }
    }
}

/// Returns true if an address belongs to the public internet. Loopback and private addresses don't,
/// nor do addresses that contain another one or are reserved (IANA's special-purpose registries).
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let special = match address.octets() {
        [0, ..] => true,
        // Shared by providers and their customers (RFC 6598).
        [100, b, ..] => b & 0xc0 == 64,
        [192, 0, 0, _] => true,
        // 6to4's relays (RFC 7526).
        [192, 88, 99, _] => true,
        // Benchmarks (RFC 2544).
        [198, b, ..] => b & 0xfe == 18,
        [a, ..] => a >= 224,
    };
    let own = address.is_loopback() || address.is_private() || address.is_link_local();
    !special && !own && !address.is_documentation()
}

/// Only 2000::/3 is allocated. In it, 2001::/23 is for protocols (Teredo is one), and the addresses
/// in 2002::/16 contain IPv4 addresses.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    let documentation = (a == 0x2001 && b == 0xdb8) || (a == 0x3fff && b < 0x1000);
    a & 0xe000 == 0x2000 && !(a == 0x2001 && b < 0x200) && a != 0x2002 && !documentation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses() {
        for (address, public) in [
            ("1.1.1.1", true),
            ("93.184.216.34", true),
            ("172.32.0.1", true),
            ("100.128.0.1", true),
            ("198.20.0.1", true),
            ("223.255.255.254", true),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("10.1.2.3", false),
            ("100.64.0.1", false),
            ("100.127.255.255", false),
            ("127.0.0.1", false),
            ("127.8.8.8", false),
            ("169.254.169.254", false),
            ("172.16.0.1", false),
            ("172.31.255.255", false),
            ("192.0.0.8", false),
            ("192.0.2.1", false),
            ("192.88.99.1", false),
            ("192.168.1.1", false),
            ("198.18.0.1", false),
            ("198.19.255.255", false),
            ("198.51.100.1", false),
            ("203.0.113.1", false),
            ("224.0.0.1", false),
            ("240.0.0.1", false),
            ("255.255.255.255", false),
            ("2606:4700::1111", true),
            ("2001:4860:4860::8888", true),
            ("::", false),
            ("::1", false),
            ("::ffff:10.0.0.1", false),
            ("::ffff:1.1.1.1", true),
            ("::10.0.0.1", false),
            ("64:ff9b::a00:1", false),
            ("100::1", false),
            ("2001::1", false),
            ("2001:db8::1", false),
            ("2002:a00:1::", false),
            ("3fff::1", false),
            ("fc00::1", false),
            ("fd12:3456::1", false),
            ("fe80::1", false),
            ("ff02::1", false),
        ] {
            assert_eq!(AllowEntry::Public.has(address.parse().unwrap()), public, "{address}");
        }
    }

    #[test]
    fn networks() {
        for (allowed, address, has) in [
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("fd00::/8", "fd12::1", true),
            ("0.0.0.0/0", "::1", false),
        ] {
            assert_eq!(
                AllowEntry::parse(allowed).unwrap().has(address.parse().unwrap()),
                has,
                "{allowed} {address}"
            );
        }
        assert_eq!(AllowEntry::parse("private"), None);
        assert_eq!(AllowEntry::parse("example.org"), None);
    }
}
