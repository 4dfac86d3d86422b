//! Messages for settings that need a feature which this build lacks.

use rowstream_core::diagnostic::reader::Value;

/// Says that the build lacks `name`.
pub(super) fn message(name: &str) -> String {
    format!("this program was built without {name}")
}

/// The command that builds it with the Cargo feature `feature`.
pub(super) fn hint(feature: &str) -> String {
    format!("build it with `cargo install --path . --features {feature}`, or install the Debian package")
}

/// Reports an error at `value` unless the build has `name`, which is the Cargo feature `feature`.
pub(super) fn require(has_feature: bool, value: &Value<'_>, name: &str, feature: &str) {
    if !has_feature {
        value.error_with(message(name), hint(feature));
    }
}
