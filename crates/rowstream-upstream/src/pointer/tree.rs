//! Several pointers as one tree. A reader of JSON descends it from value to value.
//!
//! A [`Finder`] does that in a complete text, and [`split`](crate::split) while bytes arrive.

use std::ops::Range;

use memchr::memchr2;

use super::Pointer;

/// A tree of pointers. Its nodes are numbered, and the first is the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// For each node, its children: each has a name or an index, and a node.
    nodes: Vec<Vec<(String, usize)>>,
    /// The final node of each pointer.
    ends: Vec<usize>,
}

impl Tree {
    /// The node of the document.
    pub const ROOT: usize = 0;

    /// The tree of these pointers.
    pub fn new(pointers: impl IntoIterator<Item = Pointer>) -> Self {
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

    /// The final node of each pointer.
    pub fn ends(&self) -> &[usize] {
        &self.ends
    }

    /// The number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The children of a node: each has a name or an index, and a node.
    #[inline]
    pub fn steps(&self, node: usize) -> &[(String, usize)] {
        &self.nodes[node]
    }

    /// Returns true unless all pointers mean the document itself.
    pub(crate) fn has_steps(&self) -> bool {
        !self.steps(Self::ROOT).is_empty()
    }

    /// The child of a node for the element with this index.
    #[inline]
    pub fn element(&self, node: usize, number: u64) -> Option<usize> {
        let step = self.steps(node).iter().find(|(token, _)| super::index(token) == Some(number));
        step.map(|(_, next)| *next)
    }

    /// The children of all nodes.
    pub(crate) fn all_steps(&self) -> impl Iterator<Item = &(String, usize)> {
        self.nodes.iter().flatten()
    }
}

/// The places of a tree's nodes in a text.
#[derive(Debug, Default)]
pub struct Finder {
    /// The place of each node's value.
    found: Vec<Option<Range<usize>>>,
    /// The first node that an object has two members for.
    twice: Option<usize>,
}

impl Finder {
    /// Finds all nodes in a JSON text. If a name is repeated, the last member counts.
    pub fn find(&mut self, tree: &Tree, json: &str) {
        self.found.clear();
        self.found.resize(tree.node_count(), None);
        self.twice = None;
        self.walk(tree, Tree::ROOT, json, skip_blanks(json, 0));
    }

    /// The text of a node's value.
    #[inline]
    pub fn text<'a>(&self, node: usize, json: &'a str) -> Option<&'a str> {
        self.found[node].clone().map(|range| &json[range])
    }

    /// The first repeated name on the way of a pointer.
    pub fn twice<'t>(&self, tree: &'t Tree) -> Option<&'t str> {
        let twice = self.twice?;
        tree.all_steps().find(|(_, node)| *node == twice).map(|(name, _)| name.as_str())
    }

    /// Records the value at `at`, and the values in it that pointers lead to. Returns its end.
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
        // Most rows have their members in the same order.
        let mut next = 0;
        while bytes.get(at) == Some(&b'"') {
            let name_end = skip_string(json, at);
            let name = &json[at + 1..name_end - 1];
            // Skips the name and its colon.
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

    /// Forgets the previous member if an object has two with this name.
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

/// The place after a value, and after its comma if there's one.
fn skip_comma(json: &str, at: usize) -> usize {
    let at = skip_blanks(json, at);
    if json.as_bytes().get(at) == Some(&b',') { skip_blanks(json, at + 1) } else { at }
}

/// The end of the string at `at`.
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

/// The end of the value at `at`.
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

/// Returns true if a byte can be part of a number, `true`, `false` or `null`.
fn is_of_scalar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}
