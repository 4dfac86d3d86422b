//! Where a reader stands in the tree of the pointers that it follows.

use crate::pointer::Pointer;
use crate::pointer::tree::Tree;

/// How far the place of a reader is in a tree of pointers.
///
/// The place of a value in `depth` arrays and objects has `depth` steps. From the first on, those
/// that the tree has are known by their nodes; the container that a step is made in is in the tree
/// if all steps to it are.
#[derive(Debug)]
pub(super) struct Track {
    tree: Tree,
    /// The document, and after each step that the tree has its node.
    nodes: Vec<usize>,
    /// For each node, whether the object that its step is made in has had the name already.
    seen: Vec<bool>,
}

impl Track {
    pub(super) fn new(pointers: impl IntoIterator<Item = Pointer>) -> Self {
        let tree = Tree::new(pointers);
        Self { nodes: vec![Tree::ROOT], seen: vec![false; tree.len()], tree }
    }

    /// Of each pointer, the node that it leads to.
    pub(super) fn ends(&self) -> &[usize] {
        self.tree.ends()
    }

    /// The length of the longest name that is looked for.
    pub(super) fn longest_name(&self) -> usize {
        self.tree.all_steps().map(|(name, _)| name.len()).max().unwrap_or_default()
    }

    /// Forgets the document before.
    pub(super) fn reset(&mut self) {
        self.nodes.truncate(1);
    }

    /// The steps on from the innermost container of `depth`, each with its node.
    pub(super) fn steps(&self, depth: usize) -> &[(String, usize)] {
        self.container(depth).map_or(&[], |node| self.tree.steps(node))
    }

    /// Notes that the next value is the element of this number in the innermost array of `depth`.
    pub(super) fn step_into_element(&mut self, depth: usize, number: u64) {
        if let Some(container) = self.container(depth) {
            let node = self.tree.element(container, number);
            self.nodes.truncate(depth);
            self.nodes.extend(node);
        }
    }

    /// Notes that the next value is a member of the innermost object of `depth`, and at which node;
    /// false where a value was there already.
    pub(super) fn step_into_member(&mut self, depth: usize, node: Option<usize>) -> bool {
        self.nodes.truncate(depth);
        self.nodes.extend(node);
        node.is_none_or(|node| !std::mem::replace(&mut self.seen[node], true))
    }

    /// The node of the value that begins in `depth` containers.
    pub(super) fn here(&self, depth: usize) -> Option<usize> {
        self.nodes.get(depth).copied()
    }

    /// Notes that a container begins, the innermost of now `depth`.
    pub(super) fn enter(&mut self, depth: usize) {
        if let Some(container) = self.container(depth) {
            self.tree.steps(container).iter().for_each(|(_, node)| self.seen[*node] = false);
        }
    }

    /// Notes that a container ends which stood in `depth` others.
    pub(super) fn leave(&mut self, depth: usize) {
        self.nodes.truncate(depth + 1);
    }

    /// The node of the innermost container of `depth`.
    fn container(&self, depth: usize) -> Option<usize> {
        self.nodes.get(depth.checked_sub(1)?).copied()
    }
}
