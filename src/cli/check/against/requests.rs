//! Compares the requests that two releases of an endpoint accept.

use std::cmp::Ordering;

use rowstream_core::diagnostic::{list, shown};
use rowstream_core::params::{Param, ParamPlace, ParamValue};
use rowstream_encode::Format;

use super::{Effect, ReleaseChanges, ReleasedEndpoint};
use crate::config::Config;
use crate::endpoint::{Authorization, Endpoint, RefineSettings};
use crate::route::near::near;
use crate::route::parameter_name;

/// A rule's finding about a parameter: the effect, the message and the affected clients.
type ParamFinding = (Effect, String, String);

/// The rules for a parameter, from its older to its newer declaration.
const RULES: [fn(&Param, &Param) -> Option<ParamFinding>; 8] =
    [renamed, retyped, required, restricted, localized, raised, lowered, defaulted];

/// Reports an endpoint without a partner.
pub(super) fn gone(endpoint: &Endpoint, new: &Config, changes: &mut ReleaseChanges<'_>) {
    let near = near(&endpoint.path, new.endpoints.iter().map(|other| &*other.path), |_| true);
    let near = near.map(|path| format!("; the closest path is {}", shown(&path))).unwrap_or_default();
    let cursors = if endpoint.key().is_some() { ", and their cursors are lost" } else { "" };
    let affected = format!("all its clients: they get a 404, `no_endpoint`{cursors}");
    changes.push(Effect::Requests, format!("the path is gone{near}"), affected);
}

pub(super) fn compare([old, new]: &[ReleasedEndpoint<'_>; 2], changes: &mut ReleaseChanges<'_>) {
    parameters([old.endpoint, new.endpoint], changes);
    controls([old.endpoint, new.endpoint], changes);
    refinements([old.endpoint, new.endpoint], changes);
    if !old.endpoint.is_proxy() && !new.endpoint.is_proxy() {
        formats([old.endpoint, new.endpoint], changes);
    }
    authorization([&old.endpoint.authorization, &new.endpoint.authorization], changes);
}

fn parameters([old, new]: [&Endpoint; 2], changes: &mut ReleaseChanges<'_>) {
    for param in &old.params {
        match partner(param, old, new) {
            Some(other) => {
                for (effect, message, affected) in RULES.iter().filter_map(|rule| rule(param, other)) {
                    changes.push(effect, message, affected);
                }
            }
            None => removed(param, changes),
        }
    }
    for param in new.params.iter().filter(|param| partner(param, new, old).is_none()) {
        if param.default.is_none() {
            changes.push(Effect::Requests, format!("{} is new and required", label(param)), lacking(param));
        }
    }
}

/// The same parameter of the `other` release. The path's are the same by position, because clients
/// write only their values.
pub(super) fn partner<'a>(param: &Param, own: &Endpoint, other: &'a Endpoint) -> Option<&'a Param> {
    let mut others = other.params.iter();
    if param.place != ParamPlace::Path {
        return others.find(|other| label(other) == label(param));
    }
    let position = path_names(own).position(|name| name == param.name)?;
    let name = path_names(other).nth(position)?;
    others.find(|other| other.name == name)
}

fn path_names(endpoint: &Endpoint) -> impl Iterator<Item = &str> {
    endpoint.path.split('/').filter_map(parameter_name)
}

/// The parameter as clients write it.
fn label(param: &Param) -> String {
    match &param.place {
        ParamPlace::Path => format!("the path parameter {}", shown(&param.name)),
        ParamPlace::Query => format!("the parameter {}", shown(&param.name)),
        ParamPlace::Header { name, .. } => format!("the header {}", shown(name.as_str())),
        ParamPlace::Claim => format!("the claim {}", shown(&param.name)),
    }
}

/// The clients whose requests lack a required parameter.
fn lacking(param: &Param) -> String {
    match param.place {
        ParamPlace::Claim => "tokens without it get a 403, `claim_missing`".to_owned(),
        _ => "clients that don't send it: they get a 400, `invalid_parameter`".to_owned(),
    }
}

fn removed(param: &Param, changes: &mut ReleaseChanges<'_>) {
    let affected = match param.place {
        ParamPlace::Claim => return,
        ParamPlace::Header { .. } => "clients that send it: it has no effect",
        ParamPlace::Path | ParamPlace::Query => "clients that send it: they get a 400, `invalid_parameter`",
    };
    changes.push(Effect::Requests, format!("{} is gone", label(param)), affected);
}

fn renamed(old: &Param, new: &Param) -> Option<ParamFinding> {
    let message = format!("{} is {} now", label(old), shown(&new.name));
    let affected = "generated clients: the URLs are the same".to_owned();
    (old.name != new.name && old.place == ParamPlace::Path).then_some((Effect::Note, message, affected))
}

fn retyped(old: &Param, new: &Param) -> Option<ParamFinding> {
    let [was, is] = [old, new].map(|param| shown(&param.type_name()));
    let message = format!("{} was {was}, and is {is}", label(old));
    (was != is).then(|| (Effect::Requests, message, "clients that send it".to_owned()))
}

fn required(old: &Param, new: &Param) -> Option<ParamFinding> {
    let message = format!("{} is required now, and has no default", label(old));
    (old.default.is_some() && new.default.is_none()).then(|| (Effect::Requests, message, lacking(new)))
}

/// Finds values that an enum has lost.
fn restricted(old: &Param, new: &Param) -> Option<ParamFinding> {
    if new.allowed.is_empty() {
        return None;
    }
    let is_lost = |value: &&ParamValue| !new.allowed.iter().any(|other| other.equals(value));
    let lost: Vec<_> = old.allowed.iter().filter(is_lost).map(text).collect();
    let message = match old.allowed.is_empty() {
        true => format!("{} accepts only the values of an `enum` now", label(old)),
        false => format!("{} doesn't accept {} anymore", label(old), lost.join(", ")),
    };
    let is_restricted = old.allowed.is_empty() || !lost.is_empty();
    is_restricted.then(|| (Effect::Requests, message, refused("clients that send others")))
}

fn localized(old: &Param, new: &Param) -> Option<ParamFinding> {
    let message = format!("{} accepts only dates and times without an offset now", label(old));
    (new.local && !old.local).then(|| (Effect::Requests, message, refused("clients that send others")))
}

fn raised(old: &Param, new: &Param) -> Option<ParamFinding> {
    narrowed("min", old, [&old.min, &new.min], Ordering::Greater)
}

fn lowered(old: &Param, new: &Param) -> Option<ParamFinding> {
    narrowed("max", old, [&old.max, &new.max], Ordering::Less)
}

/// Finds a bound that excludes more values than the older one: it's `stricter` than that.
fn narrowed(
    key: &str,
    param: &Param,
    [was, is]: [&Option<ParamValue>; 2],
    stricter: Ordering,
) -> Option<ParamFinding> {
    let bound = is.as_ref()?;
    if was.as_ref().is_some_and(|was| bound.order(was) != stricter) {
        return None;
    }
    let was = was.as_ref().map_or_else(|| "none".to_owned(), text);
    let message = format!("`{key}` of {} was {was}, and is {}", label(param), text(bound));
    Some((Effect::Requests, message, refused("clients that send values beyond it")))
}

fn refused(clients: &str) -> String {
    format!("{clients}: they get a 400, `invalid_parameter`")
}

fn defaulted(old: &Param, new: &Param) -> Option<ParamFinding> {
    let (was, is) = (old.default.as_ref()?, new.default.as_ref()?);
    let message = format!("the default of {} was {}, and is {}", label(old), text(was), text(is));
    (!was.equals(is)).then(|| (Effect::Note, message, "clients that don't send it".to_owned()))
}

fn text(value: &ParamValue) -> String {
    value.postgres_text().map_or_else(|| "NULL".to_owned(), |text| shown(&text))
}

/// Compares the control parameters that only some endpoints have, except those of cursors.
fn controls(endpoints: [&Endpoint; 2], changes: &mut ReleaseChanges<'_>) {
    for (name, [was, is]) in [
        ("_follow", endpoints.map(|endpoint| endpoint.follow().is_some())),
        ("_shard", endpoints.map(|endpoint| endpoint.shards().is_some())),
    ] {
        if was && !is {
            changes.push(
                Effect::Requests,
                format!("`{name}` isn't offered anymore"),
                refused("clients that send it"),
            );
        }
    }
}

/// Reports what requests may ask of the rows no more. Columns that are gone are reported with the
/// responses.
fn refinements(endpoints: [&Endpoint; 2], changes: &mut ReleaseChanges<'_>) {
    let [was, is] = endpoints.map(|endpoint| endpoint.refine_settings());
    let Some(was) = was else { return };
    let words = is.map(RefineSettings::words).unwrap_or_default();
    for word in was.words().into_iter().filter(|word| !words.contains(word)) {
        let message = format!("`{word}` isn't offered anymore");
        changes.push(Effect::Requests, message, refused("clients that use it"));
    }
    let Some(is) = is else { return };
    for (what, was, is) in [
        ("filtered", was.filtered_names(), is.filtered_names()),
        ("sorted by", was.sorted_names(), is.sorted_names()),
    ] {
        let Some(is) = is.filter(|names| !names.is_empty()) else { continue };
        let message = match was {
            None => format!("only some columns can be {what} now: {}", list(is)),
            Some(was) => {
                let lost: Vec<_> = was.into_iter().filter(|name| !is.contains(name)).collect();
                if lost.is_empty() {
                    continue;
                }
                format!("{} can't be {what} anymore", list(lost))
            }
        };
        changes.push(Effect::Requests, message, refused("clients that do so"));
    }
}

fn formats([old, new]: [&Endpoint; 2], changes: &mut ReleaseChanges<'_>) {
    for format in old.formats.iter().filter(|format| !new.formats.contains(format)) {
        let message = format!("the format `{}` isn't offered anymore", format.name());
        changes.push(Effect::Requests, message, "clients that request it: they get a 406, `not_acceptable`");
    }
    let [was, is] = [old, new].map(|endpoint| endpoint.formats.first().map_or("", |first| first.name()));
    let shown = [&*shown(was), &*shown(is)];
    changes.differ(Effect::Responses, "the default format", shown, "clients that request no format");
    if old.response.csv != new.response.csv
        && [old, new].iter().all(|endpoint| endpoint.formats.contains(&Format::Csv))
    {
        changes.push(Effect::Responses, "`[csv]` differs", "clients that read CSV");
    }
}

/// Notes that fewer clients may call the endpoint. Only names are compared: the same token may have
/// other scopes.
fn authorization([old, new]: [&Authorization; 2], changes: &mut ReleaseChanges<'_>) {
    let message = match (old, new) {
        (_, Authorization::Public) | (Authorization::Authenticated, Authorization::Authenticated) => return,
        (Authorization::Tokens(_), Authorization::Authenticated) => return,
        (Authorization::Tokens(old), Authorization::Tokens(new))
            if old.iter().all(|name| new.contains(name)) =>
        {
            return;
        }
        (_, Authorization::Authenticated) => "it needs a token now".to_owned(),
        (_, Authorization::Tokens(names)) => {
            format!("it accepts only these tokens or scopes now: {}", names.join(", "))
        }
    };
    changes.push(Effect::Note, message, "other clients: they get a 401 or a 403");
}
