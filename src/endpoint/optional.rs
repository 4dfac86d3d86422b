//! Optional SQL: an endpoint for each combination of the parameters that its statements' optional
//! parts depend on.
//!
//! A statement is never put together for a request. All combinations are read with the file, so
//! they're checked and prepared like any other statement.

use rowstream_core::diagnostic::{Collector, File, list, shown, suggest};
use rowstream_core::params::{ParamPlace, ParamValue};
use rowstream_core::sql::OptionalPart;

use super::Endpoint;
use super::params::DeclaredParam;

/// The most parameters of optional parts: each one doubles the number of statements.
const MOST_PARAMS: usize = 5;

/// The forms of an endpoint whose statements have optional parts.
#[derive(Debug, Clone)]
pub struct OptionalSql {
    /// The parameters that the parts depend on, by their indices.
    params: Vec<usize>,
    /// The endpoint for each combination of given parameters except the last, which has all parts
    /// and is the endpoint itself. The first parameter is the lowest bit.
    forms: Vec<Endpoint>,
}

impl Endpoint {
    /// This endpoint with the parts of its statements that a request with these values gets.
    pub(crate) fn of_values(&self, values: &[ParamValue]) -> &Self {
        let Some(optional) = self.optional() else { return self };
        let given = |(bit, &param): (usize, &usize)| {
            usize::from(values.get(param).is_some_and(|value| *value != ParamValue::Null)) << bit
        };
        let combination = optional.params.iter().enumerate().map(given).sum::<usize>();
        optional.forms.get(combination).unwrap_or(self)
    }

    /// The endpoint without some of its optional parts, in all combinations.
    pub(crate) fn forms(&self) -> &[Self] {
        self.optional().map_or(&[], |optional| &optional.forms)
    }

    /// The same, for changes.
    pub(crate) fn forms_mut(&mut self) -> &mut [Self] {
        let optional = self.sql_mut().and_then(|sql| sql.optional.as_deref_mut());
        optional.map_or(&mut [], |optional| &mut optional.forms)
    }

    /// The names of the parameters whose parts are missing in the form with this index.
    pub(crate) fn left_out(&self, form: usize) -> Vec<&str> {
        let params = self.optional().map_or(&[][..], |optional| &optional.params);
        let is_missing = |(bit, _): &(usize, &usize)| form >> bit & 1 == 0;
        let missing = params.iter().enumerate().filter(is_missing);
        missing.map(|(_, &param)| self.params[param].name.as_str()).collect()
    }
}

/// Reads the parameters of the optional parts. `place` maps a place in the SQL to one in the file.
/// Returns `None` if there are no parts, or after an error.
pub(super) fn read(
    file: File<'_>,
    parts: &[OptionalPart],
    declared: &[DeclaredParam],
    place: impl Fn(usize) -> usize,
) -> Option<OptionalSql> {
    let mut params = Vec::new();
    let mut well = true;
    for OptionalPart { name, range } in parts {
        match param(name, declared) {
            Ok(param) if params.contains(&param) => {}
            Ok(param) => params.push(param),
            Err((message, hint)) => {
                file.error(place(range.start), message, Some(hint));
                well = false;
            }
        }
    }
    if params.len() > MOST_PARAMS {
        let message = format!(
            "the optional parts depend on {} parameters, which gives {} statements",
            params.len(),
            1_u64 << params.len().min(63)
        );
        let hint = format!(
            "use at most {MOST_PARAMS}, and `:name is null or …` for the others, or allow filters: `filter = [\"…\"]`"
        );
        file.error(place(parts[0].range.start), message, Some(hint));
        well = false;
    }
    (well && !params.is_empty()).then_some(OptionalSql { params, forms: Vec::new() })
}

/// The index of an optional parameter.
///
/// # Errors
/// There's no such parameter, or it always has a value; and the remedy.
fn param(name: &str, declared: &[DeclaredParam]) -> Result<usize, (String, String)> {
    let params = || declared.iter().map(|declared| &declared.param);
    let Some(index) = params().position(|param| param.name == name) else {
        let hint = suggest("the parameters are", name, params().map(|param| param.name.as_str()));
        return Err((format!("an optional part depends on {}, which isn't a parameter", shown(name)), hint));
    };
    let param = &declared[index].param;
    match (&param.default, &param.place) {
        (Some(ParamValue::Null), place) if *place != ParamPlace::Claim => Ok(index),
        _ => Err((
            format!("an optional part depends on `{name}`, which always has a value"),
            format!("make it optional, `{name} = {{ type = \"…\", optional = true }}`, or remove the marks"),
        )),
    }
}

/// Adds the forms without some of the parts to an endpoint that was read with all of them.
/// `read` reads it without the parts of some parameters.
pub(super) fn add_forms(
    file: File<'_>,
    endpoint: &mut Endpoint,
    read: impl Fn(File<'_>, &[&str]) -> Option<Endpoint>,
) {
    let Some(optional) = endpoint.optional() else { return };
    let mut forms = Vec::new();
    for form in 0..(1_usize << optional.params.len()) - 1 {
        let left_out = endpoint.left_out(form);
        let without = || list(left_out.iter().copied());
        let errors = Collector::default();
        let read = read(File { errors: &errors, ..file }, &left_out);
        let errors: Vec<_> = errors.into_diagnostics().iter().cloned().collect();
        match read {
            Some(read) if errors.is_empty() => forms.push(read),
            _ => {
                for mut error in errors {
                    error.message = format!("without the optional parts of {}: {}", without(), error.message);
                    file.errors.add(error);
                }
                return;
            }
        }
    }
    if let Some(optional) = endpoint.sql_mut().and_then(|sql| sql.optional.as_deref_mut()) {
        optional.forms = forms;
    }
}
