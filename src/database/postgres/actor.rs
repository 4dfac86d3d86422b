//! As whom the statements of a response are run: a role, and what the request's token says, both
//! set for its transaction alone, as users of PostgREST know it.
//!
//! Whoever a connection served before leaves nothing on it: both are `set local`, which ends with
//! the transaction.

/// A role, and what the token says that it was taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// What is sent with the start of the transaction.
    sql: Box<str>,
}

impl Actor {
    /// `None`: no role has such a name. `none` is the login's own, which a token must not name.
    pub fn new(role: &str, claims: &str) -> Option<Self> {
        // PostgreSQL cuts longer names (`NAMEDATALEN`), and another role may have what is left.
        let is_name = (1..64).contains(&role.len()) && role != "none" && !role.contains('\0');
        let (role, claims) = (literal(role), literal(claims));
        let sql = format!("; set local role {role}; set local request.jwt.claims = {claims}");
        is_name.then(|| Self { sql: sql.into() })
    }

    pub(super) fn sql(&self) -> &str {
        &self.sql
    }
}

/// A string constant that means the same whatever `standard_conforming_strings` is (PostgreSQL
/// manual, "String Constants with C-Style Escapes").
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_and_no_role_is_the_logins() {
        let sql = Actor::new(r#"a'; drop table x; --\"#, r#"{"a":"\"'"}"#).unwrap();
        assert_eq!(
            sql.sql(),
            r#"; set local role E'a''; drop table x; --\\'; set local request.jwt.claims = E'{"a":"\\"''"}'"#
        );
        for role in ["", "none", "a\0b", &"r".repeat(64)] {
            assert_eq!(Actor::new(role, "{}"), None, "{role:?}");
        }
    }
}
