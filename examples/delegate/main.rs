//! The upstream of this example, and measurements of Rowstream with it.
//!
//! ```sh
//! cargo run --example delegate                 # the upstream, on 127.0.0.1:9090; another address as an argument
//! cargo run --example delegate -- measure      # pools of 5, 25 and 50, over HTTP/1.1 and HTTP/2
//! cargo run --example delegate -- load         # less and more load than a pool of 25 can take, and 5,000 slow calls at once
//! cargo run --example delegate -- enrich       # a call for each of 100,000 rows
//! ```

mod enrich;
mod load;
mod measure;
mod server;
mod upstream;

use std::error::Error;
use std::process::ExitCode;

use tokio::net::TcpListener;

const ADDRESS: &str = "127.0.0.1:9090";

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let argument = std::env::args().nth(1);
    match argument.as_deref() {
        Some("enrich") => enrich::measure(std::env::args().nth(2)).await,
        Some("measure") => measure::measure(std::env::args().nth(2)).await,
        Some("load") => load::load(std::env::args().nth(2)).await,
        address => {
            let listener = TcpListener::bind(address.unwrap_or(ADDRESS)).await?;
            eprintln!("listening on http://{}", listener.local_addr()?);
            upstream::serve(listener).await;
            Ok(ExitCode::SUCCESS)
        }
    }
}
