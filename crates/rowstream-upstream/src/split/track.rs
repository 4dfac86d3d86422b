//! The position of a reader in a tree of pointers.

use crate::pointer::Pointer;
use crate::pointer::tree::Tree;

/// Follows a reader through a tree of pointers.
///
/// A value inside `depth` arrays and objects is `depth` steps from the document. We keep the nodes
/// of its first steps, as many as are in the tree. A container is in the tree if all steps to it
/// are.
#[derive(Debug)]
pub(super) struct Track {
    tree: Tree,
    /// The document's node, and the node of each step that's in the tree.
    nodes: Vec<usize>,
    /// For each node, true if the current object already had a member with its name.
    seen: Vec<bool>,
}

impl Track {
    pub(super) fn new(pointers: impl IntoIterator<Item = Pointer>) -> Self {
        let tree = Tree::new(pointers);
        Self { nodes: vec![Tree::ROOT], seen: vec![false; tree.node_count()], tree }
    }

    /// The final node of each pointer.
    pub(super) fn ends(&self) -> &[usize] {
        self.tree.ends()
    }

    /// The length of the longest name in the tree.
    pub(super) fn longest_name(&self) -> usize {
        self.tree.all_steps().map(|(name, _)| name.len()).max().unwrap_or_default()
    }

    /// Forgets the previous document.
    pub(super) fn reset(&mut self) {
        self.nodes.truncate(1);
    }

    /// The steps from the innermost of `depth` containers, each with its node.
    pub(super) fn steps(&self, depth: usize) -> &[(String, usize)] {
        self.container(depth).map_or(&[], |node| self.tree.steps(node))
    }

    /// Records that the next value is the element with index `number` of the innermost array.
    pub(super) fn step_into_element(&mut self, depth: usize, number: u64) {
        if let Some(container) = self.container(depth) {
            let node = self.tree.element(container, number);
            self.nodes.truncate(depth);
            self.nodes.extend(node);
        }
    }

    /// Records that the next value is a member of the innermost object, and its node. Returns false
    /// if the node already had a value.
    pub(super) fn step_into_member(&mut self, depth: usize, node: Option<usize>) -> bool {
        self.nodes.truncate(depth);
        self.nodes.extend(node);
        node.is_none_or(|node| !std::mem::replace(&mut self.seen[node], true))
    }

    /// The node of the value that begins inside `depth` containers.
    pub(super) fn here(&self, depth: usize) -> Option<usize> {
        self.nodes.get(depth).copied()
    }

    /// Records the start of a container, the innermost of now `depth`.
    pub(super) fn enter(&mut self, depth: usize) {
        if let Some(container) = self.container(depth) {
            self.tree.steps(container).iter().for_each(|(_, node)| self.seen[*node] = false);
        }
    }

    /// Records the end of a container that was inside `depth` others.
    pub(super) fn leave(&mut self, depth: usize) {
        self.nodes.truncate(depth + 1);
    }

    /// The node of the innermost of `depth` containers.
    fn container(&self, depth: usize) -> Option<usize> {
        self.nodes.get(depth.checked_sub(1)?).copied()
    }
}
