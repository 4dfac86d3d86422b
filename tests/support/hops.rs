//! Real proxies in front of a server: nginx and HAProxy, each on free ports for HTTP/1.1 and HTTP/2
//! without TLS.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tokio::net::TcpStream;

use super::ports::free_ports;
use super::upstream::Certificate;
use super::wait_until;

/// nginx's settings for upstream connections that stream.
pub const HTTP1_1: &str = "proxy_http_version 1.1; proxy_set_header Connection \"\";";

/// nginx's `location` for all paths, with these settings.
fn all(settings: &str) -> String {
    format!("location / {{ proxy_pass http://replicas; {settings} }} ")
}

/// A running proxy. Dropping it ends it.
pub struct Hop {
    child: Child,
    /// The address for HTTP/1.1.
    pub http1: SocketAddr,
    /// The address for HTTP/2 by prior knowledge.
    pub http2: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Hop {
    /// nginx in its usual configuration: its defaults and the response's headers control buffering.
    pub async fn nginx(target: SocketAddr) -> Self {
        Self::nginx_with(&format!("server {target};"), HTTP1_1).await
    }

    /// nginx without settings for upstream connections, so it uses HTTP/1.0.
    pub async fn nginx_by_default(target: SocketAddr) -> Self {
        Self::nginx_with(&format!("server {target};"), "").await
    }

    /// nginx in front of replicas, with persistent connections. It has no health checks: if a
    /// replica refuses a request, nginx sends it to another one. The header `Upstream` of a response
    /// is the address of its replica.
    pub async fn nginx_of(replicas: &[SocketAddr]) -> Self {
        let replica = |replica| format!("server {replica} max_fails=0; ");
        let replicas: String = replicas.iter().map(replica).collect();
        let asks = format!("{HTTP1_1} add_header Upstream $upstream_addr always;");
        Self::nginx_with(&format!("{replicas}keepalive 16;"), &asks).await
    }

    /// nginx in front of a Unix socket, with settings for upstream connections.
    pub async fn nginx_of_socket(path: &Path, asks: &str) -> Self {
        Self::nginx_with(&format!("server unix:{};", path.display()), asks).await
    }

    /// nginx with settings for its `location`.
    pub async fn nginx_set(target: SocketAddr, settings: &str) -> Self {
        Self::nginx_with(&format!("server {target};"), &format!("{HTTP1_1} {settings}")).await
    }

    /// nginx that requires client certificates, signed by the authority of its own certificate.
    pub async fn nginx_for_certificates(target: SocketAddr, own: &Certificate) -> Self {
        let tls = format!(
            "ssl_certificate {}; ssl_certificate_key {}; ssl_client_certificate {}; ssl_verify_client on;",
            own.certificate().display(),
            own.key().display(),
            own.ca().display()
        );
        Self::nginx_over(&tls, &format!("server {target};"), &all(HTTP1_1)).await
    }

    async fn nginx_with(upstream: &str, asks: &str) -> Self {
        Self::nginx_over("", upstream, &all(asks)).await
    }

    /// nginx in front of replicas, with an additional `location` for `http://replicas`.
    pub async fn nginx_with_location(replicas: &[SocketAddr], location: &str) -> Self {
        let replicas: String = replicas.iter().map(|replica| format!("server {replica}; ")).collect();
        Self::nginx_over("", &replicas, &(all(HTTP1_1) + location)).await
    }

    /// Uses TLS if there are settings for it.
    async fn nginx_over(tls: &str, upstream: &str, locations: &str) -> Self {
        let ssl = if tls.is_empty() { "" } else { "ssl" };
        let config = |http1: SocketAddr, http2: SocketAddr, folder: &Path| {
            let folder = folder.display();
            format!(
                "daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
                 events {{ worker_connections 1024; }}
                 http {{
                   access_log off; proxy_temp_path {folder}/proxy; client_body_temp_path {folder}/body;
                   fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
                   upstream replicas {{ {upstream} }}
                   server {{
                     listen {http1} {ssl}; listen {http2} {ssl} http2; {tls}
                     {locations}
                   }}
                 }}"
            )
        };
        Self::start("nginx", &["-c"], config).await
    }

    /// HAProxy in HTTP mode.
    pub async fn haproxy(target: SocketAddr) -> Self {
        Self::haproxy_with(&format!("  server one {target}\n")).await
    }

    /// HAProxy that announces its clients with the PROXY protocol (`send-proxy`, `send-proxy-v2`),
    /// to an address or `unix@/path`.
    pub async fn haproxy_announcing(target: &str, how: &str) -> Self {
        Self::haproxy_with(&format!("  server one {target} {how}\n")).await
    }

    /// HAProxy with additional lines for its backend, and its protocol to the server.
    pub async fn haproxy_set(target: SocketAddr, lines: &str, protocol: &str) -> Self {
        Self::haproxy_with(&format!("{lines}\n  server one {target} {protocol}\n")).await
    }

    /// HAProxy in front of replicas, with ten health checks a second. It speaks HTTP/1.1 or HTTP/2
    /// (`proto h2`) with them. Health checks always use HTTP/1.1, because HAProxy 2.6 limits a
    /// check over HTTP/2 to the interval between two of them.
    pub async fn haproxy_of(replicas: &[SocketAddr], protocol: &str) -> Self {
        let servers = |server: &dyn Fn(usize, &SocketAddr) -> String| -> String {
            replicas.iter().enumerate().map(|(at, replica)| server(at, replica)).collect()
        };
        let used =
            servers(&|at, replica| format!("  server s{at} {replica} {protocol} track checks/s{at}\n"));
        let checked = servers(&|at, replica| format!("  server s{at} {replica}\n"));
        Self::haproxy_with(&format!(
            "{used}backend checks\n  option httpchk GET /_rowstream/ready\n  timeout check 10s\n\
             \x20 default-server check inter 100ms fall 1 rise 1\n{checked}"
        ))
        .await
    }

    /// HAProxy in front of replicas, with additional lines for its frontend and a backend of its
    /// own for these.
    pub async fn haproxy_with_backend(replicas: &[SocketAddr], rule: &str, backend: &str) -> Self {
        let replica = |(at, replica): (usize, &SocketAddr)| format!("  server s{at} {replica}\n");
        let replicas: String = replicas.iter().enumerate().map(replica).collect();
        Self::haproxy_over(rule, &format!("{replicas}{backend}\n{replicas}")).await
    }

    async fn haproxy_with(backend: &str) -> Self {
        Self::haproxy_over("", backend).await
    }

    async fn haproxy_over(rule: &str, backend: &str) -> Self {
        let config = |http1: SocketAddr, http2: SocketAddr, _: &Path| {
            format!(
                "global\n  maxconn 1024\ndefaults\n  mode http\n  timeout connect 10s\n  timeout client 60s\n  timeout server 60s\n\
                 frontend all\n  bind {http1}\n  bind {http2} proto h2\n{rule}\n  default_backend server\n\
                 backend server\n{backend}"
            )
        };
        Self::start("haproxy", &["-db", "-f"], config).await
    }

    /// Another process can take the port before the proxy uses it. Then we choose another one.
    async fn start(
        program: &str,
        arguments: &[&str],
        config: impl Fn(SocketAddr, SocketAddr, &Path) -> String,
    ) -> Self {
        for _ in 0..5 {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let (http1, http2) = free_ports();
            let file = folder.path().join("conf");
            std::fs::write(&file, config(http1, http2, folder.path())).expect("the folder is writable");
            let mut command = Command::new(program);
            command
                .args(arguments)
                .arg(&file)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let child =
                command.spawn().unwrap_or_else(|fault| panic!("{program}: {fault}: run `cargo xtask test`"));
            let mut hop = Self { child, http1, http2, _folder: folder };
            if hop.listens().await {
                return hop;
            }
        }
        panic!("{program} does not start");
    }

    async fn listens(&mut self) -> bool {
        wait_until("it listens or ends", async || match self.child.try_wait() {
            Ok(None) => TcpStream::connect(self.http2).await.is_ok().then_some(true),
            _ => Some(false),
        })
        .await
    }
}

impl Drop for Hop {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
