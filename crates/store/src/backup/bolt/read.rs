//! Reading a file without trust: every number is checked before it is followed, keys must ascend over a whole bucket,
//! so that no page is walked twice, and no more than one leaf and its branches are held in memory.

use std::{fs::File, io, os::unix::fs::FileExt};

use super::format::{BRANCH, BUCKET, BUCKET_HEADER, ELEMENT, HEADER, LEAF, LONGEST_KEY, META, META_PAGE, Meta, u16_at, u32_at, u64_at};

/// Longest leaf: etcd's largest request is far below.
const LONGEST_LEAF: u64 = 256 << 20;
/// Longest branch: bbolt splits them as soon as they hold two keys and are longer than a page.
const LONGEST_BRANCH: u64 = 1 << 20;
/// Levels of a tree; with two children a branch this is more than any file holds.
const DEEPEST: usize = 40;

/// Bytes at a place.
pub trait Source {
    /// How many there are.
    fn size(&self) -> io::Result<u64>;
    /// Fills `into` from `at` on.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()>;
}

impl Source for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(into, at)
    }
}

impl Source for [u8] {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let wanted = usize::try_from(at).ok().and_then(|at| self.get(at..)?.get(..into.len()));
        into.copy_from_slice(wanted.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A file that cannot be read, or is damaged.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk's.
    #[error("read the file")]
    Io(#[from] io::Error),
    /// Neither of the first pages has an intact meta record.
    #[error("not a bbolt database: no intact meta page")]
    NoMeta,
    /// The file ends before its last page.
    #[error("the file is cut short: it has {size} bytes of {wanted}")]
    CutShort {
        /// Bytes there are.
        size: u64,
        /// Bytes there must be.
        wanted: u64,
    },
    /// A page does not make sense.
    #[error("page {page} is damaged: {what}")]
    Page {
        /// Its number.
        page: u64,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// A result of reading.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Called for each row of a bucket with its key and value.
pub type Visitor<'a, E> = dyn FnMut(&[u8], &[u8]) -> Result<(), E> + 'a;

/// An open file.
pub struct Bolt<'a, S: ?Sized> {
    source: &'a S,
    meta: Meta,
}

/// A bucket of etcd's: its name and where its rows are.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Its name.
    pub name: Vec<u8>,
    root: Root,
}

#[derive(Clone, Debug)]
enum Root {
    Page(u64),
    /// The leaf itself, and the page it was found in.
    Inline(Vec<u8>, u64),
}

/// A page, or the leaf of an inline bucket.
struct Node {
    bytes: Vec<u8>,
    page: u64,
    leaf: bool,
    count: usize,
}

/// An element of a page.
enum Element<'a> {
    Row { key: &'a [u8], value: &'a [u8], bucket: bool },
    Child { first: &'a [u8], page: u64 },
}

impl<'a, S: Source + ?Sized> Bolt<'a, S> {
    /// Opens the file of which the first `size` bytes are the database.
    pub fn open(source: &'a S, size: u64) -> Result<Self> {
        let meta = newest_meta(source, size)?;
        let wanted = meta.pages.saturating_mul(u64::from(meta.page_size));
        if wanted > size {
            return Err(Error::CutShort { size, wanted });
        }
        Ok(Bolt { source, meta })
    }

    /// Bytes in use.
    pub fn size(&self) -> u64 {
        self.meta.pages * u64::from(self.meta.page_size)
    }

    /// All buckets, in the order of their names.
    pub fn buckets(&self) -> Result<Vec<Bucket>> {
        let mut buckets = Vec::new();
        let root = Root::Page(self.meta.root);
        self.walk(&root, &mut |page, element| {
            let Element::Row { key, value, bucket: true } = element else {
                return Err(damaged(page, "a row outside of all buckets"));
            };
            if buckets.len() > 1000 {
                return Err(damaged(page, "more buckets than etcd has"));
            }
            let root = match u64_at(value, 0) {
                Some(0) => Root::Inline(value.get(BUCKET_HEADER..).unwrap_or_default().to_vec(), page),
                Some(root) => Root::Page(root),
                None => return Err(damaged(page, "a bucket without its root")),
            };
            buckets.push(Bucket { name: key.to_vec(), root });
            Ok(())
        })?;
        Ok(buckets)
    }

    /// Visits the rows of a bucket in the order of their keys.
    pub fn rows<E: From<Error>>(&self, bucket: &Bucket, visit: &mut Visitor<'_, E>) -> Result<(), E> {
        self.walk(&bucket.root, &mut |page, element| match element {
            Element::Row { key, value, bucket: false } => visit(key, value),
            _ => Err(damaged(page, "a bucket within a bucket").into()),
        })
    }

    fn walk<E: From<Error>>(&self, root: &Root, visit: &mut dyn FnMut(u64, Element<'_>) -> Result<(), E>) -> Result<(), E> {
        let root = match root {
            Root::Page(page) => self.node(*page)?,
            Root::Inline(bytes, page) => Node::read(bytes.clone(), *page, true)?,
        };
        // An empty leaf may only be a root: elsewhere it could stand any number of times without a key to tell.
        let mut order = Order::default();
        let mut path = vec![(root, 0)];
        while let Some((node, next)) = path.last_mut() {
            if *next == node.count {
                path.pop();
                continue;
            }
            let element = node.element(*next)?;
            *next += 1;
            match element {
                Element::Row { key, .. } => {
                    order.row(key).map_err(|what| damaged(node.page, what))?;
                    visit(node.page, element)?;
                }
                Element::Child { first, page } => {
                    order.child(first).map_err(|what| damaged(node.page, what))?;
                    let child = self.node(page)?;
                    if path.len() == DEEPEST {
                        return Err(damaged(page, "the tree is too deep").into());
                    }
                    if child.count == 0 {
                        return Err(damaged(page, "an empty page within a tree").into());
                    }
                    path.push((child, 0));
                }
            }
        }
        Ok(())
    }

    /// Reads a page and those it runs over.
    fn node(&self, page: u64) -> Result<Node> {
        let size = u64::from(self.meta.page_size);
        if page < 2 || page >= self.meta.pages {
            return Err(damaged(page, "no such page"));
        }
        let mut header = [0; HEADER];
        self.source.read_at(page * size, &mut header)?;
        let (number, kind) = (u64_at(&header, 0), u16_at(&header, 8));
        let span = u64::from(u32_at(&header, 12).unwrap_or_default()) + 1;
        if number != Some(page) {
            return Err(damaged(page, "it has another number"));
        }
        let (leaf, longest) = match kind {
            Some(LEAF) => (true, LONGEST_LEAF),
            Some(BRANCH) => (false, LONGEST_BRANCH),
            _ => return Err(damaged(page, "neither leaf nor branch")),
        };
        if span > self.meta.pages - page || span * size > longest.max(size) {
            return Err(damaged(page, "it is too long"));
        }
        let mut bytes = vec![0; (span * size) as usize];
        self.source.read_at(page * size, &mut bytes)?;
        Node::read(bytes, page, leaf)
    }
}

/// Keys must ascend, and a child begins no earlier than its parent says.
#[derive(Default)]
struct Order {
    last: Option<Vec<u8>>,
    floor: Option<Vec<u8>>,
}

impl Order {
    fn row(&mut self, key: &[u8]) -> Result<(), &'static str> {
        if key.len() > LONGEST_KEY {
            return Err("a key is too long");
        }
        let above = self.last.as_ref().is_none_or(|last| &last[..] < key);
        let within = self.floor.as_ref().is_none_or(|floor| &floor[..] <= key);
        if !above || !within {
            return Err("its keys are out of order");
        }
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        Ok(())
    }

    fn child(&mut self, first: &[u8]) -> Result<(), &'static str> {
        if self.last.as_ref().is_some_and(|last| &last[..] >= first) {
            return Err("its keys are out of order");
        }
        self.floor = Some(first.to_vec());
        Ok(())
    }
}

impl Node {
    fn read(bytes: Vec<u8>, page: u64, leaf: bool) -> Result<Self> {
        let kind = if leaf { LEAF } else { BRANCH };
        let count = u16_at(&bytes, 10).filter(|_| u16_at(&bytes, 8) == Some(kind));
        let count = usize::from(count.ok_or(damaged(page, "neither leaf nor branch"))?);
        match HEADER + count * ELEMENT <= bytes.len() {
            true => Ok(Node { bytes, page, leaf, count }),
            false => Err(damaged(page, "it has more elements than room")),
        }
    }

    fn element(&self, index: usize) -> Result<Element<'_>> {
        self.try_element(index).ok_or(damaged(self.page, "an element lies outside of it"))
    }

    fn try_element(&self, index: usize) -> Option<Element<'_>> {
        let at = HEADER + index * ELEMENT;
        let bytes = self.bytes.get(at..)?;
        let number = |place| u32_at(bytes, place).map(|number| number as usize);
        if self.leaf {
            let (place, key, value) = (number(4)?, number(8)?, number(12)?);
            let bucket = u32_at(bytes, 0)? & BUCKET != 0;
            let (key, rest) = bytes.get(place..)?.split_at_checked(key)?;
            return Some(Element::Row { key, value: rest.get(..value)?, bucket });
        }
        let first = bytes.get(number(0)?..)?.get(..number(4)?)?;
        Some(Element::Child { first, page: u64_at(bytes, 8)? })
    }
}

fn damaged(page: u64, what: &'static str) -> Error {
    Error::Page { page, what }
}

/// The intact meta record of the later transaction. The second lies at the page size, which only the first tells.
fn newest_meta<S: Source + ?Sized>(source: &S, size: u64) -> Result<Meta> {
    let mut found = Vec::new();
    let places = [0].into_iter().chain((9..=16).map(|bits| 1 << bits));
    for at in places {
        let mut page = [0; HEADER + META];
        if at + page.len() as u64 > size {
            break;
        }
        source.read_at(at, &mut page)?;
        let meta = Meta::decode(&page[HEADER..]).filter(|_| u16_at(&page, 8) == Some(META_PAGE));
        found.extend(meta.filter(|meta| at == 0 || u64::from(meta.page_size) == at));
    }
    found.into_iter().max_by_key(|meta| meta.transaction).ok_or(Error::NoMeta)
}
