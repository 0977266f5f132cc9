//! Writing a file front to back. The first page already says where the root will lie and how many pages there are, so
//! the trees are built twice from the same rows: once from their sizes alone, then with their content.

use bytes::{BufMut, Bytes};

use super::format::{BRANCH, BUCKET, BUCKET_HEADER, ELEMENT, FREELIST, HEADER, LEAF, META_PAGE, Meta, PAGE_SIZE};

/// The first three pages: two of meta, and the empty list of free pages.
const FIRST_NODE: u64 = 3;
const FREELIST_PAGE: u64 = 2;

/// A value, or its size alone.
pub trait Value {
    /// Bytes it takes.
    fn size(&self) -> usize;
    /// The value of a bucket that lies elsewhere, or in place.
    fn bucket(root: Root<Self>) -> Self
    where
        Self: Sized;
}

impl Value for usize {
    fn size(&self) -> usize {
        *self
    }

    fn bucket(root: Root<Self>) -> Self {
        match root {
            Root::Page(_) => BUCKET_HEADER,
            Root::Inline(leaf) => BUCKET_HEADER + leaf_size(&leaf),
        }
    }
}

impl Value for Bytes {
    fn size(&self) -> usize {
        self.len()
    }

    fn bucket(root: Root<Self>) -> Self {
        let (page, leaf) = match root {
            Root::Page(page) => (page, None),
            Root::Inline(leaf) => (0, Some(leaf)),
        };
        let mut out = Vec::new();
        out.put_u64_le(page);
        out.put_u64_le(0);
        if let Some(leaf) = leaf {
            put_leaf(&mut out, 0, &leaf);
        }
        out.into()
    }
}

/// A row of a leaf.
#[derive(Clone, Debug)]
pub struct Row<V> {
    key: Bytes,
    value: V,
    bucket: bool,
}

/// Where a tree begins.
#[derive(Debug)]
pub enum Root<V> {
    /// At a page.
    Page(u64),
    /// It is one small leaf, kept within its bucket's value.
    Inline(Vec<Row<V>>),
}

/// A node of a tree, about to get its page.
pub enum Node<'a, V> {
    /// Rows.
    Leaf(&'a [Row<V>]),
    /// First key and page of each child.
    Branch(&'a [(Bytes, u64)]),
}

/// Takes the nodes in the order of their pages.
pub trait Pages<V, E> {
    /// Places a node; its page.
    fn place(&mut self, node: Node<'_, V>) -> Result<u64, E>;
}

/// Receives the rows of a bucket, in the order of their keys.
pub type Rows<'a, V, E> = dyn FnMut(Bytes, V) -> Result<(), E> + 'a;

/// Places all buckets, in the order of their names, then the bucket of buckets; its root page. `fill` gives the rows of
/// the bucket with a name.
pub fn place<V: Value, E>(
    pages: &mut impl Pages<V, E>,
    names: &[&'static str],
    mut fill: impl FnMut(&'static str, &mut Rows<'_, V, E>) -> Result<(), E>,
) -> Result<u64, E> {
    let mut buckets = Tree::new();
    for name in names {
        let mut tree = Tree::new();
        fill(name, &mut |key, value| tree.push(pages, Row { key, value, bucket: false }))?;
        let value = V::bucket(tree.finish(pages, true)?);
        buckets.push(pages, Row { key: Bytes::from_static(name.as_bytes()), value, bucket: true })?;
    }
    match buckets.finish(pages, false)? {
        Root::Page(page) => Ok(page),
        Root::Inline(rows) => pages.place(Node::Leaf(&rows)),
    }
}

/// Counts pages.
#[derive(Debug)]
pub struct Counter(u64);

impl Default for Counter {
    fn default() -> Self {
        Counter(FIRST_NODE)
    }
}

impl Counter {
    /// The file's shape, once all is counted and the root is known.
    pub fn shape(&self, root: u64) -> Shape {
        Shape { root, pages: self.0 }
    }
}

impl<E> Pages<usize, E> for Counter {
    fn place(&mut self, node: Node<'_, usize>) -> Result<u64, E> {
        let page = self.0;
        self.0 += span(node_size(&node));
        Ok(page)
    }
}

/// What the first pages say of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    root: u64,
    pages: u64,
}

impl Shape {
    /// Of a file with its root at a page, and so many pages.
    pub fn of(root: u64, pages: u64) -> Self {
        Shape { root, pages }
    }

    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        self.pages * PAGE_SIZE as u64
    }

    /// The first pages.
    pub fn head(&self) -> Bytes {
        let mut out = Vec::with_capacity(PAGE_SIZE * FIRST_NODE as usize);
        for page in 0..2 {
            put_header(&mut out, page, META_PAGE, 0, 0);
            let meta = Meta {
                page_size: PAGE_SIZE as u32,
                root: self.root,
                freelist: FREELIST_PAGE,
                pages: self.pages,
                // Each meta page holds the transactions that are even, or odd, as its number.
                transaction: 2 - page,
            };
            out.put_slice(&meta.encode());
            pad(&mut out);
        }
        put_header(&mut out, FREELIST_PAGE, FREELIST, 0, 0);
        pad(&mut out);
        out.into()
    }
}

/// Hands on the pages as bytes; `send` gets each node once, padded to whole pages.
pub struct Writer<F> {
    next: u64,
    send: F,
}

impl<F> Writer<F> {
    /// Continues after [`Shape::head`].
    pub fn new(send: F) -> Self {
        Writer { next: FIRST_NODE, send }
    }

    /// The file's shape, once all is written and the root is known.
    pub fn shape(&self, root: u64) -> Shape {
        Shape { root, pages: self.next }
    }
}

impl<E, F: FnMut(Bytes) -> Result<(), E>> Pages<Bytes, E> for Writer<F> {
    fn place(&mut self, node: Node<'_, Bytes>) -> Result<u64, E> {
        let (page, size) = (self.next, node_size(&node));
        let mut out = Vec::with_capacity(span(size) as usize * PAGE_SIZE);
        match node {
            Node::Leaf(rows) => put_leaf(&mut out, page, rows),
            Node::Branch(children) => put_branch(&mut out, page, children),
        }
        pad(&mut out);
        self.next += span(size);
        (self.send)(out.into())?;
        Ok(page)
    }
}

/// A tree under construction: a leaf, and above it a branch per level, each not yet full.
struct Tree<V> {
    leaf: Vec<Row<V>>,
    leaf_size: usize,
    branches: Vec<Branch>,
}

#[derive(Default)]
struct Branch {
    children: Vec<(Bytes, u64)>,
    size: usize,
}

impl<V: Value> Tree<V> {
    fn new() -> Self {
        Tree { leaf: Vec::new(), leaf_size: HEADER, branches: Vec::new() }
    }

    fn push<E>(&mut self, pages: &mut impl Pages<V, E>, row: Row<V>) -> Result<(), E> {
        let size = ELEMENT + row.key.len() + row.value.size();
        if !self.leaf.is_empty() && self.leaf_size + size > PAGE_SIZE {
            self.end_leaf(pages)?;
        }
        self.leaf_size += size;
        self.leaf.push(row);
        Ok(())
    }

    fn end_leaf<E>(&mut self, pages: &mut impl Pages<V, E>) -> Result<(), E> {
        let page = pages.place(Node::Leaf(&self.leaf))?;
        let first = self.leaf.first().map(|row| row.key.clone()).unwrap_or_default();
        self.leaf.clear();
        self.leaf_size = HEADER;
        self.adopt(pages, 0, first, page)
    }

    fn adopt<E>(&mut self, pages: &mut impl Pages<V, E>, level: usize, first: Bytes, page: u64) -> Result<(), E> {
        if level == self.branches.len() {
            self.branches.push(Branch::default());
        }
        let (branch, size) = (&mut self.branches[level], ELEMENT + first.len());
        // A branch of one child would be no branch.
        if branch.children.len() > 1 && HEADER + branch.size + size > PAGE_SIZE {
            let full = std::mem::take(branch);
            self.end_branch(pages, level, full)?;
        }
        let branch = &mut self.branches[level];
        branch.size += size;
        branch.children.push((first, page));
        Ok(())
    }

    fn end_branch<E>(&mut self, pages: &mut impl Pages<V, E>, level: usize, branch: Branch) -> Result<(), E> {
        let page = pages.place(Node::Branch(&branch.children))?;
        let first = branch.children.into_iter().next().map(|(first, _)| first).unwrap_or_default();
        self.adopt(pages, level + 1, first, page)
    }

    /// The root of what was pushed; `inline` allows a small one to stay where its bucket is written.
    fn finish<E>(mut self, pages: &mut impl Pages<V, E>, inline: bool) -> Result<Root<V>, E> {
        if self.branches.is_empty() && (inline && self.leaf_size <= PAGE_SIZE / 4) {
            return Ok(Root::Inline(self.leaf));
        }
        self.end_leaf(pages)?;
        let mut level = 0;
        loop {
            let branch = std::mem::take(&mut self.branches[level]);
            if let ([(_, page)], true) = (&branch.children[..], level + 1 == self.branches.len()) {
                return Ok(Root::Page(*page));
            }
            self.end_branch(pages, level, branch)?;
            level += 1;
        }
    }
}

fn node_size<V: Value>(node: &Node<'_, V>) -> usize {
    match node {
        Node::Leaf(rows) => leaf_size(rows),
        Node::Branch(children) => HEADER + children.iter().map(|(first, _)| ELEMENT + first.len()).sum::<usize>(),
    }
}

fn leaf_size<V: Value>(rows: &[Row<V>]) -> usize {
    HEADER + rows.iter().map(|row| ELEMENT + row.key.len() + row.value.size()).sum::<usize>()
}

/// Pages a node takes.
fn span(size: usize) -> u64 {
    size.div_ceil(PAGE_SIZE) as u64
}

fn put_header(out: &mut Vec<u8>, page: u64, kind: u16, count: usize, size: usize) {
    out.put_u64_le(page);
    out.put_u16_le(kind);
    out.put_u16_le(count as u16);
    out.put_u32_le(span(size).saturating_sub(1) as u32);
}

fn put_leaf(out: &mut Vec<u8>, page: u64, rows: &[Row<Bytes>]) {
    put_header(out, page, LEAF, rows.len(), leaf_size(rows));
    let mut place = ELEMENT * rows.len();
    for row in rows {
        out.put_u32_le(if row.bucket { BUCKET } else { 0 });
        out.put_u32_le(place as u32);
        out.put_u32_le(row.key.len() as u32);
        out.put_u32_le(row.value.len() as u32);
        place = place + row.key.len() + row.value.len() - ELEMENT;
    }
    for row in rows {
        out.put_slice(&row.key);
        out.put_slice(&row.value);
    }
}

fn put_branch(out: &mut Vec<u8>, page: u64, children: &[(Bytes, u64)]) {
    let node = Node::<Bytes>::Branch(children);
    put_header(out, page, BRANCH, children.len(), node_size(&node));
    let mut place = ELEMENT * children.len();
    for (first, page) in children {
        out.put_u32_le(place as u32);
        out.put_u32_le(first.len() as u32);
        out.put_u64_le(*page);
        place = place + first.len() - ELEMENT;
    }
    children.iter().for_each(|(first, _)| out.put_slice(first));
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(PAGE_SIZE), 0);
}
