//! The role that runs the statements of a response.

/// A role, and the claims of the token that named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    role: Box<str>,
    claims: Box<str>,
}

impl Actor {
    /// `None` if no role can have such a name. `none` is the login's own role, which a token must
    /// not name. The claims are JSON.
    pub fn new(role: &str, claims: &str) -> Option<Self> {
        // PostgreSQL cuts longer names (`NAMEDATALEN`), and the shortened name may be another
        // role's.
        let is_name = (1..64).contains(&role.len()) && role != "none" && !role.contains('\0');
        is_name.then(|| Self { role: role.into(), claims: claims.into() })
    }

    /// The name of the role.
    pub fn role(&self) -> &str {
        &self.role
    }

    /// The claims, as JSON.
    pub fn claims(&self) -> &str {
        &self.claims
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_role_is_the_logins() {
        for role in ["", "none", "a\0b", &"r".repeat(64)] {
            assert_eq!(Actor::new(role, "{}"), None, "{role:?}");
        }
    }
}
