//! The start of a server: its address, the browser that it opens, and changed files.

use std::path::{Path, PathBuf};

use crate::support::{Launch, get, program, rowstream, wait_until};
use crate::worked::Started;

const CONFIG: &str = "endpoints = \"own\"\n[source.main]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n";
const FILES: [(&str, &str); 3] =
    [("rowstream.toml", CONFIG), ("t.sql", "create table t(a)"), ("own/a.sql", "select 1 as a")];

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// `--port` uses the configuration's host.
#[tokio::test]
async fn a_port_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let [(name, config), sql, endpoint] = FILES;
    let config = format!("listen = \"localhost:1\"\n{config}");
    write(folder.path(), &[(name, &config), sql, endpoint]);
    let folder = folder.path().to_str().unwrap();
    let server = Started::new(program(), &["serve", folder, "--port", "0"]).listening().await;
    assert_eq!(get(&server.url("/a")).await.text(), "[{\"a\":1}]");
    let loopback = ["127.0.0.1:", "[::1]:"];
    assert!(loopback.iter().any(|host| server.address.starts_with(host)), "{}", server.address);
}

#[tokio::test]
async fn a_port_alone_is_all_addresses() {
    let server = Launch::files(&FILES).listen(":0").start().await;
    assert!(server.address().starts_with("0.0.0.0:"), "{}", server.address());
    let port = server.address().rsplit_once(':').unwrap().1;
    assert_eq!(get(&format!("http://127.0.0.1:{port}/a")).await.text(), "[{\"a\":1}]");
}

#[tokio::test]
async fn what_is_no_address_is_wrong_usage() {
    for (arguments, expected) in [
        (&["--listen", "8080"][..], "write a host before the port: 127.0.0.1:8080, or `--port 8080`"),
        (&["--listen", "localhost"], "write host and port"),
        (&["--port", "65536"], "65536"),
    ] {
        let ran = rowstream(&[&["serve"], arguments].concat()).await;
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

/// A program in `PATH`.
fn found(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").expect("a PATH");
    let mut all = std::env::split_paths(&path).map(|folder| folder.join(name));
    all.find(|path| path.is_file()).unwrap_or_else(|| panic!("there is no {name}"))
}

/// curl replaces the browser, under the name of the program that opens browsers.
#[tokio::test]
async fn a_browser_is_opened() {
    let programs = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(found("curl"), programs.path().join("xdg-open")).unwrap();
    for address in ["127.0.0.1:0", "0.0.0.0:0"] {
        let launch = Launch::files(&FILES).listen(address).argument("--open");
        let server = launch.variable("PATH", programs.path().to_str().unwrap()).start().await;
        server.wait_for_stdout("GET /_rowstream/ HTTP/1.1 200 complete").await;
    }
}

#[tokio::test]
async fn a_server_needs_no_browser() {
    let nothing = tempfile::tempdir().unwrap();
    let launch = Launch::files(&FILES).argument("--open");
    let server = launch.variable("PATH", nothing.path().to_str().unwrap()).start().await;
    server.wait_for_stderr("no browser could be opened").await;
    assert_eq!(get(&server.url("/a")).await.text(), "[{\"a\":1}]");
}

/// Existing files in the folder of a demo are used unchanged, and their changes are noticed.
#[tokio::test]
async fn a_demo_is_watched() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &FILES);
    let dir = folder.path().to_str().unwrap();
    let arguments = ["demo", "--dir", dir, "--port", "0", "--watch"];
    let server = Started::new(program(), &arguments).listening().await;
    assert_eq!(get(&server.url("/a")).await.text(), "[{\"a\":1}]");
    write(folder.path(), &[("own/a.sql", "select 2 as another")]);
    let changed = async || get(&server.url("/a")).await.text() == "[{\"another\":2}]";
    wait_until("the change is seen", changed).await;
}
