//! Reads the command line with clap, and adds what all commands have in common. Each flag has an
//! environment variable, named by one rule, so that no flag can lack one. The file `.env` may set
//! these variables too.

use std::env;
use std::ffi::OsString;
use std::path::Path;

use clap::builder::BoolishValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches};
use rowstream_core::log;

use super::Cli;
use crate::config::Config;
use crate::database::DatabaseKind;

/// The command that the variables of its flags don't name, because it's the main purpose of the
/// program.
const SERVE: &str = "serve";

/// Flags that mean the same in every command, and have a single variable.
const SHARED: [&str; 4] = ["config", "listen", "log-format", "port"];

/// The two ways to name a configuration: as a position and as a flag. Only one of them may be used.
const CONFIGURATION: [&str; 2] = ["given", "config"];

/// Reads the arguments. The environment sets flags that they lack, and `.env` beside the
/// configuration sets those that the environment lacks.
///
/// # Errors
/// Wrong usage, or a request for help.
pub(super) fn parse() -> Result<Cli, clap::Error> {
    let cli = read()?;
    match cli.command.folder().is_some_and(|folder| take_flags_from(&folder)) {
        true => read(),
        false => Ok(cli),
    }
}

/// Exits with clap's error, without showing a password.
pub(super) fn refuse(error: &clap::Error) -> ! {
    let words: Vec<_> = env::args().collect();
    let passwords: Vec<_> = words.iter().filter_map(|word| password(word)).collect();
    if passwords.is_empty() {
        error.exit();
    }
    let hidden = |text: String, password: &&str| text.replace(password, "…");
    eprint!("{}", passwords.iter().fold(error.to_string(), hidden));
    std::process::exit(error.exit_code());
}

/// Warns of passwords in the arguments.
pub(super) fn warn_of_passwords() {
    if env::args().any(|word| word == "--token" || word.starts_with("--token=")) {
        log::warning!(
            "every user of this machine can read a token on the command line: put it into ROWSTREAM_TOKEN, \
             or into a file with --token-file"
        );
    }
    if let Some(word) = env::args().find(|word| password(word).is_some()) {
        log::warning!(
            "every user of this machine can read a password on the command line: put it into {}a variable that `url = \"${{SHOP_URL}}\"` of a rowstream.toml names",
            password_places(&word)
        );
    }
}

/// Other sources of the password for this URL, which its driver reads.
fn password_places(word: &str) -> String {
    let before = word.split_once("://").map_or("", |(before, _)| before);
    let mut urls = DatabaseKind::ALL.iter().map(|database| &database.dialect().urls);
    let urls = urls.find(|urls| urls.schemes.iter().any(|scheme| before.ends_with(scheme)));
    match urls.map_or(&[][..], |urls| urls.password_places) {
        [] => String::new(),
        places => format!("{}, or into ", places.join(", into ")),
    }
}

/// The password in a URL.
fn password(word: &str) -> Option<&str> {
    let (login, _) = word.split_once("://")?.1.rsplit_once('@')?;
    let (_, password) = login.split_once(':')?;
    Some(password).filter(|password| !password.is_empty())
}

fn read() -> Result<Cli, clap::Error> {
    let mut command = command();
    let matches = command
        .try_get_matches_from_mut(env::args_os())
        .map_err(|error| of_variable(&error, &mut command).unwrap_or(error))?;
    if let Some((name, arguments)) = matches.subcommand()
        && names_two_configurations(arguments)
    {
        let message = format!("`{name}` takes one configuration: by its position, or by --config");
        return Err(command.error(ErrorKind::ArgumentConflict, message));
    }
    Cli::from_arg_matches(&matches)
}

/// The error of a value from a variable. It names the variable, but doesn't show the value, which
/// may be a secret. `None`: the value is from the command line.
fn of_variable(error: &clap::Error, command: &mut Command) -> Option<clap::Error> {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_value = matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue);
    let words: Vec<_> = env::args().skip(1).collect();
    let name = words.first().filter(|_| is_value)?;
    let of_command = command.find_subcommand(name)?;
    let flag = of_command.get_arguments().find(|flag| flag.to_string() == *argument)?;
    let (variable, long) = (flag.get_env()?.to_str()?, format!("--{}", flag.get_long()?));
    let short = flag.get_short().map(|short| format!("-{short}"));
    let is_written = |word: &String| {
        *word == long
            || word.starts_with(&format!("{long}="))
            || short.as_ref().is_some_and(|short| word.starts_with(short.as_str()))
    };
    if words.iter().any(is_written) || env::var_os(variable).is_none() {
        return None;
    }
    let why = match (error.get(ContextKind::ValidValue), std::error::Error::source(error)) {
        (Some(ContextValue::Strings(values)), _) => format!("the choices are {}", values.join(", ")),
        (_, Some(source)) => source.to_string(),
        _ => format!("it isn't a value of {argument}"),
    };
    let message = format!("the variable {variable} has an invalid value: {why}");
    Some(command.error(ErrorKind::ValueValidation, message))
}

/// All commands, with a variable for each of their flags.
pub(super) fn command() -> Command {
    Cli::command().mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        command.mut_args(|argument| with_variable(argument, &name))
    })
}

/// Adds the variable of a flag. Help never shows the value of a variable, because it may be a
/// secret. An empty variable counts as not set, as authors of `.env` files expect.
fn with_variable(argument: Arg, command: &str) -> Arg {
    let Some(name) = variable(&argument, command) else { return argument };
    let argument = match argument.get_action() {
        ArgAction::SetTrue => argument.value_parser(BoolishValueParser::new()),
        _ => argument,
    };
    match env::var_os(&name).is_some_and(|value| value.is_empty()) {
        true => argument,
        false => argument.env(name).hide_env_values(true),
    }
}

/// The variable of a flag: `ROWSTREAM_LISTEN`, or `ROWSTREAM_QUERY_FORMAT` for commands other than
/// `serve`. `None` if it isn't a flag.
fn variable(argument: &Arg, command: &str) -> Option<String> {
    if argument.is_positional() {
        return None;
    }
    let flag = argument.get_long().unwrap_or(argument.get_id().as_str());
    let of_serve = command == SERVE || SHARED.contains(&flag);
    let name = if of_serve { flag.to_owned() } else { format!("{command}-{flag}") };
    Some(format!("ROWSTREAM_{}", name.replace('-', "_").to_ascii_uppercase()))
}

fn names_two_configurations(matches: &ArgMatches) -> bool {
    let is_written = |id| {
        let is_known = matches.try_contains_id(id).is_ok();
        is_known && matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    CONFIGURATION.into_iter().all(is_written)
}

/// Sets the flags' variables that `.env` in `folder` has and the environment lacks. Returns true if
/// there were any.
fn take_flags_from(folder: &Path) -> bool {
    let beside = Config::variables_beside(folder);
    let is_set = |name: &str| env::var_os(name).is_some_and(|value: OsString| !value.is_empty());
    let taken: Vec<_> = beside.iter().filter(|(name, _)| is_variable(name) && !is_set(name)).collect();
    for (name, value) in &taken {
        #[expect(unsafe_code, reason = "clap reads the environment and nothing else")]
        // SAFETY: a command does this first, when the process has no other thread yet.
        unsafe {
            env::set_var(name, value);
        }
    }
    !taken.is_empty()
}

/// Returns true if a name is the variable of a flag.
fn is_variable(name: &str) -> bool {
    let commands = Cli::command();
    let mut flags = commands
        .get_subcommands()
        .flat_map(|command| command.get_arguments().filter_map(|flag| variable(flag, command.get_name())));
    flags.any(|variable| variable == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Flags that clap adds itself, and handles before it reads any variable.
    const CLAPS: [&str; 2] = ["help", "version"];

    fn flags(command: &Command) -> impl Iterator<Item = &Arg> {
        let own = |flag: &&Arg| !flag.is_positional() && !CLAPS.contains(&flag.get_id().as_str());
        command.get_arguments().filter(own)
    }

    #[test]
    fn each_flag_has_a_variable_of_its_own() {
        let mut commands = command();
        commands.build();
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        for command in commands.get_subcommands().filter(|command| command.get_name() != "help") {
            assert_eq!(command.get_subcommands().count(), 0, "{}: its flags are missed", command.get_name());
            for flag in flags(command) {
                let name = flag.get_id().to_string();
                let variable = flag.get_env().map(|variable| variable.to_string_lossy().into_owned());
                let variable = variable.unwrap_or_else(|| panic!("{name} has no variable"));
                assert!(flag.is_hide_env_values_set(), "{variable} is shown");
                let other = seen.insert(variable.clone(), name.clone());
                let is_alone = other
                    .is_none_or(|other| other == name && SHARED.contains(&name.replace('_', "-").as_str()));
                assert!(is_alone, "{variable} is of two flags");
            }
        }
        for (variable, flag) in [
            ("ROWSTREAM_LISTEN", "listen"),
            ("ROWSTREAM_CONFIG", "config"),
            ("ROWSTREAM_LOG_FORMAT", "log_format"),
            ("ROWSTREAM_WATCH", "watch"),
            ("ROWSTREAM_DEMO_DIR", "dir"),
            ("ROWSTREAM_QUERY_FORMAT", "format"),
            ("ROWSTREAM_BENCH_CONNECTIONS", "connections"),
        ] {
            assert_eq!(seen.get(variable).map(String::as_str), Some(flag), "{variable}");
            assert!(is_variable(variable));
        }
    }

    #[test]
    fn a_password_is_found_in_a_url() {
        for (word, found) in [
            ("postgres://ann:secret@h/d", Some("secret")),
            ("postgres://ann:se/c@ret@h/d", Some("se/c@ret")),
            ("--url=mysql://ann:secret@h", Some("secret")),
            ("postgres://ann@h/d", None),
            ("postgres://ann:@h/d", None),
            ("http://host:80/a", None),
            ("shop.db", None),
        ] {
            assert_eq!(password(word), found, "{word}");
        }
    }

    /// A user who gave MySQL's password was once sent to a variable that only PostgreSQL's sources
    /// read.
    #[test]
    fn only_what_is_read_is_advised() {
        for (word, names) in [
            ("postgres://ann:secret@h/d", true),
            ("--url=postgresql://ann:secret@h/d", true),
            ("mysql://ann:secret@h/d", false),
            ("--url=mariadb://ann:secret@h/postgres", false),
            ("https://ann:secret@h/postgres://", false),
        ] {
            assert_eq!(password_places(word).contains("PGPASSWORD"), names, "{word}");
        }
    }

    #[test]
    fn clap_finds_no_fault() {
        command().debug_assert();
    }
}
