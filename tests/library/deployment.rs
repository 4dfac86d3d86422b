//! The files in `deploy/kubernetes` and `deploy/compose`: they conform to the schemas of their
//! readers, their parts fit together, and the available programs accept their own files.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Launch, TestDb, get, program, repository};
use rowstream::config::Config;
use serde_json::{Value, json};

fn deploy(name: &str) -> PathBuf {
    repository().join("deploy").join(name)
}

/// The documents of files that conform to their schema.
fn documents(kind: &str, files: &[PathBuf]) -> Result<Vec<Value>, String> {
    let python = std::env::var_os("ROWSTREAM_TEST_PYTHON");
    let python = python.expect("ROWSTREAM_TEST_PYTHON is not set: run `cargo xtask test`");
    let script = repository().join("tests/readers/deployment.py");
    let ran = Command::new(python).arg(script).arg(kind).args(files).output().unwrap();
    if !ran.status.success() {
        return Err(String::from_utf8_lossy(&ran.stderr).into_owned());
    }
    let lines = String::from_utf8(ran.stdout).unwrap();
    Ok(lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// All files of `deploy/kubernetes`, as its kustomization lists them.
fn manifests() -> Vec<Value> {
    let folder = deploy("kubernetes");
    let kustomization = documents("kubernetes", &[folder.join("kustomization.yaml")]).unwrap();
    let listed: Vec<_> = kustomization[0]["resources"].as_array().unwrap().iter().collect();
    let there = std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(listed.len() + 1, there, "a file is not listed");
    let files: Vec<_> = listed.iter().map(|name| folder.join(name.as_str().unwrap())).collect();
    documents("kubernetes", &files).unwrap()
}

fn named<'a>(manifests: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let is_it = |one: &&Value| one["kind"] == kind && one["metadata"]["name"] == name;
    manifests.iter().find(is_it).unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// A quantity such as `512Mi`, in bytes.
fn bytes(quantity: &Value) -> u64 {
    quantity.as_str().unwrap().strip_suffix("Mi").unwrap().parse::<u64>().unwrap() << 20
}

#[tokio::test]
async fn the_manifests_are_valid_and_fit_together() {
    let all = manifests();
    let pod = &named(&all, "Deployment", "rowstream")["spec"]["template"];
    let labels = &pod["metadata"]["labels"];
    for (kind, name, selector) in [
        ("Deployment", "rowstream", "/spec/selector/matchLabels"),
        ("Service", "rowstream", "/spec/selector"),
        ("Service", "rowstream-admin", "/spec/selector"),
        ("PodDisruptionBudget", "rowstream", "/spec/selector/matchLabels"),
        ("NetworkPolicy", "rowstream", "/spec/podSelector/matchLabels"),
    ] {
        assert_eq!(named(&all, kind, name).pointer(selector).unwrap(), labels, "{kind} {name}");
    }
    // The monitor finds the metrics service, but not the clients' service.
    let wanted = &named(&all, "ServiceMonitor", "rowstream")["spec"]["selector"]["matchLabels"];
    assert_eq!(wanted, &named(&all, "Service", "rowstream-admin")["metadata"]["labels"]);
    assert_ne!(wanted, &named(&all, "Service", "rowstream")["metadata"]["labels"]);
    assert_eq!(
        named(&all, "HorizontalPodAutoscaler", "rowstream")["spec"]["scaleTargetRef"]["kind"],
        "Deployment"
    );
    let container = &pod["spec"]["containers"][0];
    let mounts = container["volumeMounts"].as_array().unwrap();
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    for mount in mounts {
        assert!(volumes.iter().any(|volume| volume["name"] == mount["name"]), "{mount}");
    }
}

/// A folder in the form of the deployment's mounts: in Kubernetes each file is a link into a hidden
/// folder, which is replaced on changes.
fn mounted(all: &[Value]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let endpoints = folder.path().join("endpoints");
    let data = endpoints.join("..2026_11_23");
    std::fs::create_dir_all(&data).unwrap();
    symlink("..2026_11_23", endpoints.join("..data")).unwrap();
    for (name, text) in named(all, "ConfigMap", "rowstream-endpoints")["data"].as_object().unwrap() {
        std::fs::write(data.join(name), text.as_str().unwrap()).unwrap();
        symlink(Path::new("..data").join(name), endpoints.join(name)).unwrap();
    }
    let config = named(all, "ConfigMap", "rowstream")["data"]["rowstream.toml"].as_str().unwrap();
    std::fs::write(folder.path().join("rowstream.toml"), config).unwrap();
    folder
}

#[tokio::test]
async fn the_configuration_of_the_manifests_is_served() {
    let (all, db) = (manifests(), TestDb::new().await);
    let folder = mounted(&all);
    let url = db.url();
    let variable = |name: &str| (name == "DATABASE_URL").then(|| url.clone());
    let config = Config::load_with(&folder.path().join("rowstream.toml"), &variable).unwrap();
    let spec = &named(&all, "Deployment", "rowstream")["spec"]["template"]["spec"];
    let container = &spec["containers"][0];
    let memory = config.limits.memory.unwrap() as u64;
    assert!(bytes(&container["resources"]["limits"]["memory"]) > memory);
    let drain = (config.limits.drain_delay + config.limits.drain_timeout).as_secs();
    assert!(spec["terminationGracePeriodSeconds"].as_u64().unwrap() > drain);
    let scaling = &named(&all, "HorizontalPodAutoscaler", "rowstream")["spec"]["metrics"][0]["pods"];
    let target: usize = scaling["target"]["averageValue"].as_str().unwrap().parse().unwrap();
    assert!(target < config.limits.max_streams);

    // The ports are the container's. Here we need free ones.
    let path = folder.path().join("rowstream.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("0.0.0.0:8081", "127.0.0.1:0")).unwrap();
    let server = Launch::folder(folder.path()).variable("DATABASE_URL", &url).start().await;
    assert_eq!(get(&server.url("/numbers?n=2")).await.text(), "[{\"n\":1},{\"n\":2}]");
    let admin = admin_address(&server.stderr());
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        let probe = &container[probe]["httpGet"];
        assert_eq!(probe["port"], "admin");
        assert_eq!(get(&format!("{admin}{}", probe["path"].as_str().unwrap())).await.status, 200);
    }
    let monitor = &named(&all, "ServiceMonitor", "rowstream")["spec"]["endpoints"][0];
    assert_eq!(monitor["port"], "admin");
    let metrics = get(&format!("{admin}{}", monitor["path"].as_str().unwrap())).await;
    let scaled_by = format!("\n{} ", scaling["metric"]["name"].as_str().unwrap());
    assert!(metrics.text().contains(&scaled_by), "{}", metrics.text());
}

/// Extracts the address of the admin endpoints from a server's output.
fn admin_address(said: &str) -> String {
    let (_, rest) = said.split_once("admin endpoints at ").unwrap_or_else(|| panic!("{said}"));
    rest.split("/_rowstream/").next().unwrap().to_owned()
}

#[tokio::test]
async fn the_composition_is_valid_and_its_programs_take_their_files() {
    let folder = deploy("compose");
    let composition = documents("compose", &[folder.join("compose.yaml")]).unwrap().remove(0);
    let services = composition["services"].as_object().unwrap();
    let empty = Vec::new();
    for (name, service) in services {
        for volume in service["volumes"].as_array().unwrap_or(&empty) {
            let from = volume.as_str().unwrap().split(':').next().unwrap();
            let is_there = from == "postgres" || folder.join(from).exists();
            assert!(is_there, "{name}: there is no {from}");
        }
        for needed in service["depends_on"].as_object().map(|all| all.keys()).into_iter().flatten() {
            assert!(services.contains_key(needed), "{name} needs {needed}");
        }
    }
    let haproxy = folder.join("haproxy.cfg");
    run(Command::new("haproxy").args(["-c", "-f"]).arg(&haproxy));
    let text = std::fs::read_to_string(haproxy).unwrap()
        + &std::fs::read_to_string(folder.join("prometheus.yml")).unwrap();
    for replica in ["rowstream-a", "rowstream-b"] {
        assert!(services.contains_key(replica) && text.matches(replica).count() == 2, "{replica}");
    }
    // The rules are beside it, as in the container.
    let prometheus = tempfile::tempdir().unwrap();
    for file in [folder.join("prometheus.yml"), deploy("prometheus/rowstream.rules.yml")] {
        std::fs::copy(&file, prometheus.path().join(file.file_name().unwrap())).unwrap();
    }
    run(Command::new("promtool").args(["check", "config"]).arg(prometheus.path().join("prometheus.yml")));
    let db = TestDb::new().await;
    let config = folder.join("rowstream");
    for (name, value) in services["rowstream-a"]["environment"].as_object().unwrap() {
        assert!(
            ["DATABASE_URL", "REPLICA", "PEER", "ROWSTREAM_LOG_FORMAT"].contains(&name.as_str()),
            "{value}"
        );
    }
    let mut check = Command::new(program());
    check.arg("check").arg(&config).envs([("REPLICA", "rowstream-a"), ("PEER", "rowstream-b")]);
    let checked = check.env("DATABASE_URL", db.url()).output().unwrap();
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat())
    );
}

fn run(command: &mut Command) {
    let output =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}: run `cargo xtask test`"));
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?}:\n{said}");
}

/// A schema that accepts everything would prove nothing.
#[test]
fn what_is_wrong_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"},
        "spec": {"maxUnavailabel": 1},
    });
    for (kind, wrong) in [("kubernetes", budget), ("compose", json!({"services": {"a": {"imagine": "b"}}}))] {
        let file = folder.path().join(kind);
        std::fs::write(&file, wrong.to_string()).unwrap();
        assert!(documents(kind, &[file]).is_err(), "{kind}");
    }
}
