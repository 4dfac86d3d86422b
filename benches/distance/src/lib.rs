//! Two distant places on one machine, to test and measure how a network affects a stream.
//!
//! ```text
//!  namespace        threads that carry packets        namespace
//!  10.83.N.1 ── TUN ─── each arrives `delay` later ─── TUN ── 10.83.N.2
//! ```
//!
//! A place is a network namespace (network_namespaces(7)). TCP between the two is the kernel's own,
//! with all its windows and buffers. We only implement the line, because not every kernel has
//! `netem`. The line loses nothing, and has no limit on its rate.
//!
//! It needs root, `/dev/net/tun`, `ip` from iproute2 and `nsenter` from util-linux.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns, unshare};
use tappers::{Interface, Tun};

/// The size of a packet in bytes, as in networks of data centres.
const MTU: usize = 9000;
/// The most packets on the line. A sender that exceeds it has to wait, as with a queue of the
/// kernel.
const PACKETS: usize = 1 << 16;

/// Each line of a process has its own network.
static LINES: AtomicU8 = AtomicU8::new(0);

/// A packet with its arrival time.
type Sent = (Instant, Vec<u8>);

/// The network at an end of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    /// This process's.
    Ours,
    /// A new one for this place only.
    New,
}

/// A place. Programs in it see only its network. Files and Unix sockets are shared by all places.
pub struct Place {
    /// The address that the other place uses.
    pub address: Ipv4Addr,
    namespace: File,
}

/// Creates two places with a packet delay of `delay` between them. They exist as long as the
/// process.
///
/// # Errors
/// Something that it needs is missing.
pub fn places(delay: Duration) -> io::Result<[Place; 2]> {
    line([Network::New, Network::New], delay)
}

/// The same, with the first place in our own network, which gets a device for the line.
///
/// # Errors
/// Something that it needs is missing.
pub fn from_here(delay: Duration) -> io::Result<[Place; 2]> {
    line([Network::Ours, Network::New], delay)
}

fn line(networks: [Network; 2], delay: Duration) -> io::Result<[Place; 2]> {
    let number = LINES.fetch_add(1, Ordering::Relaxed);
    let [one, other] = [1, 2].map(|end| Ipv4Addr::new(10, 83, number, end));
    let name = format!("line{number}");
    let (one, from_one) = place(networks[0], &name, [one, other])?;
    let (other, from_other) = place(networks[1], &name, [other, one.address])?;
    carry(Arc::clone(&from_one), Arc::clone(&from_other), delay);
    carry(from_other, from_one, delay);
    Ok([one, other])
}

fn place(network: Network, name: &str, [address, peer]: [Ipv4Addr; 2]) -> io::Result<(Place, Arc<Tun>)> {
    let make = || {
        // A thread enters a namespace, and everything that it opens and starts belongs to it.
        if network == Network::New {
            unshare(CloneFlags::CLONE_NEWNET)?;
            ip("link set lo up")?;
        }
        let tun = Tun::new_named(Interface::new(name)?)?;
        ip(&format!("address add {address} peer {peer} dev {name}"))?;
        ip(&format!("link set {name} mtu {MTU} txqueuelen 10000 up"))?;
        let namespace = File::open("/proc/thread-self/ns/net")?;
        Ok((Place { address, namespace }, Arc::new(tun)))
    };
    let made = thread::scope(|scope| scope.spawn(make).join());
    made.unwrap_or_else(|_| Err(io::Error::other("the thread of a place has failed")))
}

fn ip(arguments: &str) -> io::Result<()> {
    let status = Command::new("ip").args(arguments.split(' ')).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("ip {arguments}: {status}"))) }
}

/// Carries packets in one direction, as long as the process lives.
fn carry(from: Arc<Tun>, to: Arc<Tun>, delay: Duration) {
    let (sender, receiver) = sync_channel(PACKETS);
    thread::spawn(move || take(&from, &sender, delay));
    thread::spawn(move || give(&to, &receiver));
}

fn take(tun: &Tun, sender: &SyncSender<Sent>, delay: Duration) {
    let mut packet = vec![0; MTU];
    while let Ok(length) = tun.recv(&mut packet) {
        if sender.send((Instant::now() + delay, packet[..length].to_vec())).is_err() {
            return;
        }
    }
}

fn give(tun: &Tun, receiver: &Receiver<Sent>) {
    for (arrival, packet) in receiver {
        thread::sleep(arrival.saturating_duration_since(Instant::now()));
        // A device refuses packets that its namespace doesn't know, for example at the start.
        // Networks do the same.
        let _ = tun.send(&packet);
    }
}

impl Place {
    /// The words before a command that runs it at this place.
    pub fn words(&self) -> [String; 2] {
        let (process, descriptor) = (std::process::id(), self.namespace.as_raw_fd());
        ["nsenter".into(), format!("--net=/proc/{process}/fd/{descriptor}")]
    }

    /// A program that runs at this place.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let [nsenter, namespace] = self.words();
        let mut command = Command::new(nsenter);
        command.arg(namespace).arg(program);
        command
    }

    /// Connects the returned port with the Unix socket at `path`, so that its server is also at
    /// this place. It works as long as the process lives.
    ///
    /// # Errors
    /// There's no free port.
    pub fn relay(&self, path: PathBuf) -> io::Result<u16> {
        let (address, namespace) = (self.address, self.namespace.try_clone()?);
        let listening = thread::spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
            TcpListener::bind((address, 0))
        });
        let listener =
            listening.join().unwrap_or_else(|_| Err(io::Error::other("the thread of a relay has failed")))?;
        let port = listener.local_addr()?.port();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // If the server doesn't run, the connection ends.
                if let Ok(server) = UnixStream::connect(&path) {
                    let _ = connect(client, server);
                }
            }
        });
        Ok(port)
    }
}

/// Carries bytes between the two until either ends.
fn connect(client: TcpStream, server: UnixStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    let (mut requests, mut to_server) = (client.try_clone()?, server.try_clone()?);
    let (mut answers, mut to_client) = (server, client);
    thread::spawn(move || {
        let _ = io::copy(&mut requests, &mut to_server);
        to_server.shutdown(std::net::Shutdown::Both)
    });
    thread::spawn(move || {
        let _ = io::copy(&mut answers, &mut to_client);
        to_client.shutdown(std::net::Shutdown::Both)
    });
    Ok(())
}
