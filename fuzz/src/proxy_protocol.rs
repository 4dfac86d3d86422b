//! Headers of the PROXY protocol: the bytes after one stay unchanged, and truncated ones aren't
//! accepted.

use rowstream::fuzzing::proxy_header;

/// Reads the first bytes of a proxy.
pub fn proxy_protocol(data: &[u8]) {
    let Some((client, rest)) = proxy_header(data) else { return };
    assert!(data.ends_with(rest), "nothing after it is changed");
    let header = &data[..data.len() - rest.len()];
    assert!(header.len() <= 16 + 4096, "{}", header.len());
    assert_eq!(proxy_header(header), Some((client, &[][..])), "what follows does not count");
    for cut in 0..header.len().min(128) {
        assert_eq!(proxy_header(&header[..cut]), None, "{cut}");
    }
    if let Some(line) = header.strip_prefix(b"PROXY ") {
        let text = std::str::from_utf8(line).expect("version 1 is text");
        let said = text.split(' ').nth(1).and_then(|word| word.parse().ok());
        assert_eq!(client, said.filter(|_| !text.starts_with("UNKNOWN")));
    }
}
