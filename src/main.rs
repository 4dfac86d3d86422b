//! The command line: see `src/cli`.
fn main() -> std::process::ExitCode {
    rowstream::cli::run()
}
