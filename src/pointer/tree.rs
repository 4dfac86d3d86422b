//! Several pointers as one tree, which a reader of JSON follows from value to value.
//!
//! A [`Finder`] does so in a text that is there, and [`split`](crate::split) while bytes come.

use std::ops::Range;

use memchr::memchr2;

use super::Pointer;

/// Where pointers lead. Its nodes are numbered; the first one is the document itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tree {
    /// Of each node, what leads on from there: names or numbers, each with its node.
    nodes: Vec<Vec<(String, usize)>>,
    /// Of each pointer, the node that it leads to.
    ends: Vec<usize>,
}

impl Tree {
    /// The document itself.
    pub(crate) const ROOT: usize = 0;

    pub(crate) fn new(pointers: impl IntoIterator<Item = Pointer>) -> Self {
        let mut tree = Self { nodes: vec![Vec::new()], ends: Vec::new() };
        for pointer in pointers {
            let end = pointer.tokens().iter().fold(Self::ROOT, |node, token| tree.grow(node, token));
            tree.ends.push(end);
        }
        tree
    }

    fn grow(&mut self, node: usize, token: &str) -> usize {
        if let Some((_, next)) = self.nodes[node].iter().find(|(name, _)| name == token) {
            return *next;
        }
        let next = self.nodes.len();
        self.nodes.push(Vec::new());
        self.nodes[node].push((token.to_owned(), next));
        next
    }

    /// Of each pointer, the node that it leads to.
    pub(crate) fn ends(&self) -> &[usize] {
        &self.ends
    }

    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// What leads on from a node: names or numbers, each with its node.
    #[inline]
    pub(crate) fn steps(&self, node: usize) -> &[(String, usize)] {
        &self.nodes[node]
    }

    /// Whether a pointer leads anywhere but to the document itself.
    pub(crate) fn has_steps(&self) -> bool {
        !self.steps(Self::ROOT).is_empty()
    }

    /// The step from a node to the element of this number.
    #[inline]
    pub(crate) fn element(&self, node: usize, number: u64) -> Option<usize> {
        let step = self.steps(node).iter().find(|(token, _)| super::index(token) == Some(number));
        step.map(|(_, next)| *next)
    }

    /// The steps from all nodes.
    pub(crate) fn all_steps(&self) -> impl Iterator<Item = &(String, usize)> {
        self.nodes.iter().flatten()
    }
}

/// Where in a text the nodes of a tree are.
#[derive(Debug, Default)]
pub(crate) struct Finder {
    /// For each node, what stands there.
    found: Vec<Option<Range<usize>>>,
    /// The first node to which an object has two members.
    twice: Option<usize>,
}

impl Finder {
    /// Looks for all nodes in a text, which is JSON. Of members of one name the last one counts.
    pub(crate) fn find(&mut self, tree: &Tree, json: &str) {
        self.found.clear();
        self.found.resize(tree.len(), None);
        self.twice = None;
        self.walk(tree, Tree::ROOT, json, skip_blanks(json, 0));
    }

    /// What stands at a node.
    #[inline]
    pub(crate) fn text<'a>(&self, node: usize, json: &'a str) -> Option<&'a str> {
        self.found[node].clone().map(|range| &json[range])
    }

    /// The name of members of which an object has two, where pointers lead to them.
    pub(crate) fn twice<'t>(&self, tree: &'t Tree) -> Option<&'t str> {
        let twice = self.twice?;
        tree.all_steps().find(|(_, node)| *node == twice).map(|(name, _)| name.as_str())
    }

    /// Notes the value that begins at `at`, and those in it to which pointers lead; gives its end.
    fn walk(&mut self, tree: &Tree, node: usize, json: &str, at: usize) -> usize {
        let end = match json.as_bytes().get(at) {
            _ if tree.steps(node).is_empty() => skip_value(json, at),
            Some(b'{') => self.walk_object(tree, node, json, at),
            Some(b'[') => self.walk_array(tree, node, json, at),
            _ => skip_value(json, at),
        };
        self.found[node] = Some(at..end);
        end
    }

    fn walk_object(&mut self, tree: &Tree, node: usize, json: &str, begin: usize) -> usize {
        let (bytes, members) = (json.as_bytes(), tree.steps(node));
        let mut at = skip_blanks(json, begin + 1);
        // Rows have their members in one order, mostly.
        let mut next = 0;
        while bytes.get(at) == Some(&b'"') {
            let name_end = skip_string(json, at);
            let name = &json[at + 1..name_end - 1];
            // Behind the name and its colon.
            at = skip_blanks(json, skip_blanks(json, name_end) + 1);
            let (before, after) = members.split_at(next.min(members.len()));
            let wanted =
                after.iter().chain(before).position(|(wanted, _)| super::names(name.as_bytes(), wanted));
            at = match wanted {
                None => skip_value(json, at),
                Some(index) => {
                    let index = (next + index) % members.len();
                    next = index + 1;
                    self.begin_member(tree, members[index].1);
                    self.walk(tree, members[index].1, json, at)
                }
            };
            at = skip_comma(json, at);
        }
        at + 1
    }

    fn walk_array(&mut self, tree: &Tree, node: usize, json: &str, begin: usize) -> usize {
        let bytes = json.as_bytes();
        let mut at = skip_blanks(json, begin + 1);
        let mut number = 0;
        while bytes.get(at).is_some_and(|byte| *byte != b']') {
            at = match tree.element(node, number) {
                None => skip_value(json, at),
                Some(node) => self.walk(tree, node, json, at),
            };
            at = skip_comma(json, at);
            number += 1;
        }
        at + 1
    }

    /// Forgets what the member before has held, where an object has two of one name.
    fn begin_member(&mut self, tree: &Tree, node: usize) {
        if self.found[node].is_some() {
            self.twice.get_or_insert(node);
            self.forget(tree, node);
        }
    }

    fn forget(&mut self, tree: &Tree, node: usize) {
        self.found[node] = None;
        tree.steps(node).iter().for_each(|(_, next)| self.forget(tree, *next));
    }
}

fn skip_blanks(json: &str, at: usize) -> usize {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    at + json.as_bytes()[at..].iter().take_while(|byte| blank(byte)).count()
}

/// What follows a value, after the comma if there is one.
fn skip_comma(json: &str, at: usize) -> usize {
    let at = skip_blanks(json, at);
    if json.as_bytes().get(at) == Some(&b',') { skip_blanks(json, at + 1) } else { at }
}

/// The end of the string that begins at `at`.
fn skip_string(json: &str, at: usize) -> usize {
    let bytes = json.as_bytes();
    let mut at = at + 1;
    while let Some(found) = memchr2(b'"', b'\\', &bytes[at..]) {
        if bytes[at + found] == b'"' {
            return at + found + 1;
        }
        at += found + 2;
    }
    json.len()
}

/// The end of the value that begins at `at`.
fn skip_value(json: &str, at: usize) -> usize {
    let bytes = json.as_bytes();
    let (mut at, mut depth) = (at, 0_usize);
    while let Some(byte) = bytes.get(at) {
        at = match byte {
            b'"' => skip_string(json, at),
            b'{' | b'[' => {
                depth += 1;
                at + 1
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                at + 1
            }
            b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' => {
                at += 1;
                continue;
            }
            _ => at + bytes[at..].iter().take_while(|byte| is_of_scalar(**byte)).count(),
        };
        if depth == 0 {
            break;
        }
    }
    at
}

/// Whether a byte belongs to a number, or to `true`, `false` or `null`.
fn is_of_scalar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}
