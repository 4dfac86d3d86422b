//! x
use super::Report;
impl Report {
    /// The page.
    pub(crate) fn html(&self) -> String { String::new() }
}
