//! `cargo xtask wire`: plays the scripts of `testdata/wire` to a client, until Ctrl-C.

mod peer;
mod script;

use std::net::TcpListener;

use crate::Result;
use crate::test::workspace;
use peer::serve;
use script::{Script, read};

/// The default address of the peer.
const LISTEN: &str = "127.0.0.1:8095";

/// Plays the scripts whose names contain one of the words, or all.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let (listen, names) = match words {
        ["--listen", address, names @ ..] => (*address, names),
        ["--listen"] => return Err("`--listen` needs an address, such as 127.0.0.1:0".to_owned()),
        names => (LISTEN, names),
    };
    let scripts = chosen(read(&workspace().join("testdata/wire"))?, names)?;
    let listener = TcpListener::bind(listen)
        .map_err(|error| format!("{listen}: {error}; choose another address with `--listen 127.0.0.1:0`"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    println!("http://{address} plays {} scripts until Ctrl-C", scripts.len());
    println!("http://{address}/_results has the requests that it saw");
    serve(&listener, scripts)
}

fn chosen(mut scripts: Vec<Script>, names: &[&str]) -> Result<Vec<Script>> {
    scripts.retain(|script| names.is_empty() || names.iter().any(|name| script.name.contains(name)));
    if scripts.is_empty() {
        return Err(format!("no script is named {}; see testdata/wire", names.join(" or ")));
    }
    Ok(scripts)
}
