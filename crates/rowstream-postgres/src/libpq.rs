//! The parameters that libpq uses if a URL lacks them: a service file, environment variables, and
//! the password file (PostgreSQL manual, "Environment Variables", "The Connection Service File",
//! "The Password File").

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rowstream_core::diagnostic::shown;
use rowstream_core::log;
use rowstream_database::url::{UrlError, refuse};

/// The variables that we read.
pub(super) const VARIABLES: &[&str] = &[
    "PGHOST",
    "PGHOSTADDR",
    "PGLOADBALANCEHOSTS",
    "PGPORT",
    "PGUSER",
    "PGPASSWORD",
    "PGDATABASE",
    "PGSSLMODE",
    "PGSSLROOTCERT",
    "PGSSLCERT",
    "PGSSLKEY",
    "PGCONNECT_TIMEOUT",
    "PGAPPNAME",
    "PGOPTIONS",
    "PGTARGETSESSIONATTRS",
    "PGCHANNELBINDING",
    "PGPASSFILE",
    SERVICE,
    SERVICE_FILE,
    SYSTEM_FOLDER,
    HOME,
    USER,
];

/// The parameters of a URL and their variables.
const PARAMETERS: [(&str, &str); 17] = [
    ("host", "PGHOST"),
    ("hostaddr", "PGHOSTADDR"),
    ("load_balance_hosts", "PGLOADBALANCEHOSTS"),
    ("port", "PGPORT"),
    ("user", "PGUSER"),
    ("password", "PGPASSWORD"),
    ("dbname", "PGDATABASE"),
    ("sslmode", "PGSSLMODE"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
    ("connect_timeout", "PGCONNECT_TIMEOUT"),
    ("application_name", "PGAPPNAME"),
    ("options", "PGOPTIONS"),
    ("target_session_attrs", "PGTARGETSESSIONATTRS"),
    ("channel_binding", "PGCHANNELBINDING"),
    ("passfile", "PGPASSFILE"),
];

const SERVICE: &str = "PGSERVICE";
const SERVICE_FILE: &str = "PGSERVICEFILE";
const SYSTEM_FOLDER: &str = "PGSYSCONFDIR";
const HOME: &str = "HOME";
const USER: &str = "USER";

/// The longest file that we read, in bytes.
const LONGEST: u64 = 1 << 20;

/// The parameters of a connection, by libpq's names.
#[derive(Default)]
pub(super) struct LibpqParameters(BTreeMap<String, Value>);

struct Value {
    text: String,
    /// The source of the value, if it isn't the URL.
    origin: Option<String>,
}

impl LibpqParameters {
    /// Records a parameter of the URL. If it's there twice, the last value counts.
    pub(super) fn insert(&mut self, name: &str, text: String) {
        self.0.insert(name.to_owned(), Value { text, origin: None });
    }

    /// Fills in the parameters that the URL lacks: from the service that it or PGSERVICE names,
    /// then from variables.
    ///
    /// # Errors
    /// There's no such service, or its file can't be read.
    pub(super) fn fill(&mut self, variables: &BTreeMap<&str, String>) -> Result<(), UrlError> {
        let service = self.0.remove("service").map(|value| value.text);
        if let Some(service) = service.or_else(|| variables.get(SERVICE).cloned()) {
            for (name, text) in of_service(&service, variables)? {
                let origin = Some(format!("service {}", shown(&service)));
                self.0.entry(name).or_insert(Value { text, origin });
            }
        }
        for (name, variable) in PARAMETERS {
            if let Some(text) = variables.get(variable) {
                let value = Value { text: text.clone(), origin: Some(variable.to_owned()) };
                self.0.entry(name.to_owned()).or_insert(value);
            }
        }
        Ok(())
    }

    /// Removes a parameter, and returns its value.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).map(|value| value.text)
    }

    /// Calls `set` for each parameter that is left. An error names the origin of the value, unless
    /// that's the URL.
    pub(super) fn each(
        self,
        mut set: impl FnMut(&str, String) -> Result<(), UrlError>,
    ) -> Result<(), UrlError> {
        for (name, Value { text, origin }) in self.0 {
            set(&name, text).map_err(|error| match origin {
                Some(origin) => UrlError::new(format!("{origin}: {error}")),
                None => error,
            })?;
        }
        Ok(())
    }
}

/// The default user: the operating system's.
pub(super) fn user(variables: &BTreeMap<&str, String>) -> String {
    variables.get(USER).cloned().unwrap_or_else(|| "postgres".to_owned())
}

/// The parameters of a service.
fn of_service(service: &str, variables: &BTreeMap<&str, String>) -> Result<Vec<(String, String)>, UrlError> {
    let of_user = match variables.get(SERVICE_FILE) {
        Some(path) => Some(PathBuf::from(path)),
        None => variables.get(HOME).map(|home| Path::new(home).join(".pg_service.conf")),
    };
    let of_system = variables.get(SYSTEM_FOLDER).map(|folder| Path::new(folder).join("pg_service.conf"));
    for path in [of_user, of_system].into_iter().flatten() {
        let text = match read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return refuse(format!("{}: {error}", path.display())),
        };
        if let Some(found) = section(&path, &text, service)? {
            return Ok(found);
        }
    }
    refuse(format!("there is no service {} in ~/.pg_service.conf or $PGSERVICEFILE", shown(service)))
}

/// The parameters below `[service]`.
fn section(path: &Path, text: &str, service: &str) -> Result<Option<Vec<(String, String)>>, UrlError> {
    let mut found = None;
    let mut is_inside = false;
    for (at, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            // Only the first section of a name counts.
            is_inside = found.is_none() && name == service;
            if is_inside {
                found = Some(Vec::new());
            }
        } else if is_inside {
            // We don't quote the line, because it may be half of a password.
            let Some((name, value)) = line.split_once('=') else {
                return refuse(format!("{}:{}: write `name=value`", path.display(), at + 1));
            };
            found.get_or_insert_default().push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }
    Ok(found)
}

/// The login that a password is for.
pub(super) struct Login<'a> {
    pub(super) host: &'a str,
    pub(super) port: u16,
    pub(super) database: &'a str,
    pub(super) user: &'a str,
}

/// The password file: the one that a URL or PGPASSFILE names, or else `~/.pgpass`.
pub(super) fn password_file(named: Option<String>, variables: &BTreeMap<&str, String>) -> Option<PathBuf> {
    named.map(PathBuf::from).or_else(|| variables.get(HOME).map(|home| Path::new(home).join(".pgpass")))
}

/// The password that the file has for a login. Like libpq, we ignore a file that other users may
/// read, with a warning.
pub(super) fn password(file: &Path, login: &Login<'_>) -> Option<String> {
    let found = fs::metadata(file).ok().filter(fs::Metadata::is_file)?;
    if found.permissions().mode() & 0o077 != 0 {
        log::warning!(
            "the password file {} is ignored, because others may read it: `chmod 600` it",
            file.display()
        );
        return None;
    }
    let text = read(file)
        .inspect_err(|error| log::warning!("the password file {}: {error}", file.display()))
        .ok()?;
    text.lines().find_map(|line| of_line(line, login))
}

/// The password of a line `host:port:database:user:password` that is for this login.
fn of_line(line: &str, login: &Login<'_>) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let port = login.port.to_string();
    let mut rest = line;
    for wanted in [login.host, &port, login.database, login.user] {
        let (field, after) = field(rest);
        let is_any = rest.starts_with("*:");
        if !is_any && field != wanted {
            return None;
        }
        rest = after?;
    }
    Some(field(rest).0)
}

/// A field without its escapes, and the text after its colon; `None` if it's the last field.
fn field(text: &str) -> (String, Option<&str>) {
    let mut field = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            ':' => return (field, Some(&text[at + 1..])),
            '\\' => field.extend(chars.next().map(|(_, c)| c)),
            c => field.push(c),
        }
    }
    (field, None)
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(LONGEST).read_to_string(&mut text)?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login<'a>(host: &'a str, port: u16, database: &'a str, user: &'a str) -> Login<'a> {
        Login { host, port, database, user }
    }

    #[test]
    fn a_line_of_the_password_file_is_for_a_login() {
        let ann = login("db.example", 5432, "shop", "ann");
        for (line, password) in [
            ("db.example:5432:shop:ann:secret", Some("secret")),
            ("*:*:*:*:secret", Some("secret")),
            ("*:*:*:ann:a\\:b\\\\c", Some("a:b\\c")),
            ("db.example:5432:shop:ann:", Some("")),
            ("other:5432:shop:ann:secret", None),
            ("db.example:5433:shop:ann:secret", None),
            ("db.example:5432:shop:bob:secret", None),
            ("db.example:5432:shop:ann", None),
            ("#*:*:*:*:secret", None),
            ("\\*:*:*:*:secret", None),
            ("", None),
        ] {
            assert_eq!(of_line(line, &ann).as_deref(), password, "{line}");
        }
        assert_eq!(of_line("a\\:b:1:d\\\\e:*:p", &login("a:b", 1, "d\\e", "u")).as_deref(), Some("p"));
    }

    #[test]
    fn a_password_file_that_others_may_read_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pass");
        fs::write(&file, "h:1:d:v:other\nh:1:d:u:first\n*:*:*:*:last\n").unwrap();
        let ask = || password(&file, &login("h", 1, "d", "u"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(ask().as_deref(), Some("first"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(ask(), None);
        assert_eq!(password(&folder.path().join("none"), &login("h", 1, "d", "u")), None);
    }

    #[test]
    fn the_url_comes_before_the_service_and_the_service_before_variables() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("services");
        let text = "# ours\n[other]\nhost=other\n[shop]\nhost = service\nuser=service\n\n[shop]\nport=1\n";
        fs::write(&file, text).unwrap();
        let path = file.display().to_string();
        let variables = BTreeMap::from([
            ("PGHOST", "variable".to_owned()),
            ("PGUSER", "variable".to_owned()),
            ("PGSSLMODE", "require".to_owned()),
            (SERVICE, "shop".to_owned()),
            (SERVICE_FILE, path.clone()),
        ]);
        let filled = |said: &[(&str, &str)]| -> Result<Vec<String>, String> {
            let mut all = LibpqParameters::default();
            said.iter().for_each(|(name, value)| all.insert(name, (*value).to_owned()));
            all.fill(&variables).map_err(|error| error.to_string())?;
            Ok(all.0.iter().map(|(name, value)| format!("{name}={}", value.text)).collect())
        };
        assert_eq!(filled(&[]).unwrap(), ["host=service", "sslmode=require", "user=service"]);
        assert_eq!(filled(&[("host", "url")]).unwrap(), ["host=url", "sslmode=require", "user=service"]);
        assert_eq!(
            filled(&[("service", "other")]).unwrap(),
            ["host=other", "sslmode=require", "user=variable"]
        );
        let missing = filled(&[("service", "none")]).unwrap_err();
        assert!(missing.contains("there is no service `none`"), "{missing}");
        fs::write(&file, "[shop]\nsecret\n").unwrap();
        assert_eq!(filled(&[]).unwrap_err(), format!("{path}:2: write `name=value`"));
    }
}
