//! `rowstream token`: a bearer token and the hash that stands for it in the configuration.

use std::fs::File;
use std::io::Read;

use sha2::{Digest, Sha256};

use super::Failure;

/// Makes a bearer token, and the hash to put into the configuration.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The token's name in the configuration.
    #[arg(default_value = "reader")]
    name: String,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    // 256 bits from the kernel: enough that a plain hash of it cannot be reversed by guessing.
    let mut secret = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut secret)?;
    let token = hex(&secret);
    println!("{token}");
    eprintln!("\nThis is the token; it is shown once. Put its hash into the configuration:\n");
    eprintln!("[token.{}]\nsha256 = \"{}\"", args.name, hex(&Sha256::digest(&token)));
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
