//! Cuts a text that comes in pieces into the JSON objects it consists of. Each byte is looked at once, however small the pieces:
//! whoever sends them need not have logged in.

use bytes::{Buf as _, Bytes, BytesMut};

/// What has come in of a text.
#[derive(Default)]
pub(super) struct Objects {
    text: BytesMut,
    /// So much of it was looked at.
    seen: usize,
    /// So many braces and brackets are open there.
    depth: usize,
    in_string: bool,
    escaped: bool,
}

/// What a text has next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// An object from its first brace to its last; what is between them need not be JSON.
    Object(Bytes),
    /// Nothing yet.
    More,
    /// Something that begins no object.
    Nonsense,
}

impl Objects {
    /// More of the text.
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.text.extend_from_slice(piece);
    }

    /// Length of what is kept, as no object has ended in it.
    pub(super) fn kept(&self) -> usize {
        self.text.len()
    }

    /// The next object.
    pub(super) fn next(&mut self) -> Next {
        while let Some(&byte) = self.text.get(self.seen) {
            self.seen += 1;
            if self.in_string {
                self.in_string = self.escaped || byte != b'"';
                self.escaped = !self.escaped && byte == b'\\';
                continue;
            }
            match byte {
                b'{' => self.depth += 1,
                _ if self.depth == 0 && byte.is_ascii_whitespace() => self.skip(),
                _ if self.depth == 0 => return Next::Nonsense,
                b'[' => self.depth += 1,
                b'"' => self.in_string = true,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Next::Object(self.text.split_to(std::mem::take(&mut self.seen)).freeze());
                    }
                }
                _ => {}
            }
        }
        Next::More
    }

    fn skip(&mut self) {
        self.text.advance(std::mem::take(&mut self.seen));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a text consists of, when it comes in pieces of this size; the rest that was kept.
    fn cut(text: &str, size: usize) -> (Vec<String>, Next, usize) {
        let (mut objects, mut found) = (Objects::default(), Vec::new());
        for piece in text.as_bytes().chunks(size) {
            objects.push(piece);
            loop {
                match objects.next() {
                    Next::Object(object) => found.push(String::from_utf8(object.to_vec()).unwrap()),
                    Next::More => break,
                    Next::Nonsense => return (found, Next::Nonsense, objects.kept()),
                }
            }
        }
        (found, Next::More, objects.kept())
    }

    #[test]
    fn objects_are_found_whatever_the_pieces() {
        let (first, second) = (r#"{"a":{"b":["}]{\"\\",{}]}}"#, r#"{"\\":"\\\""}"#);
        let text = format!(" \n{first}{second}\t{{\"half\":\"}}");
        for size in 1..=text.len() {
            let (found, next, kept) = cut(&text, size);
            assert_eq!((&found[..], next, kept), (&[first.to_owned(), second.to_owned()][..], Next::More, 10), "{size}");
        }
    }

    #[test]
    fn what_begins_no_object_ends_the_text() {
        for text in ["{}1", "{}]", "{}}", "{} null", "{}\"{\"", "{}[{}]"] {
            let (found, next, _) = cut(text, 1);
            assert_eq!((&found[..], next), (&["{}".to_owned()][..], Next::Nonsense), "{text}");
        }
    }

    #[test]
    fn each_byte_is_looked_at_once() {
        let mut objects = Objects::default();
        for (number, byte) in br#"{"key":["#.iter().chain([b' '; 100].iter()).enumerate() {
            objects.push(&[*byte]);
            assert_eq!(objects.next(), Next::More);
            assert_eq!(objects.seen, number + 1, "the next look begins where this one ended");
        }
    }
}
