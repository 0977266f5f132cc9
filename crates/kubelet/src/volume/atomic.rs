//! Writing a set of files so that readers see all of the old or all of the new ones.
//!
//! Layout as upstream's atomic writer: a directory per version, `..data` links to the current one, and each visible name
//! links through `..data`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

/// One file: content and mode bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) data: Vec<u8>,
    pub(crate) mode: u32,
}

/// Files by path relative to the volume.
pub(crate) type Files = BTreeMap<String, File>;

const DATA: &str = "..data";

/// Makes `directory` hold exactly `files`; writes nothing when it does already.
pub(crate) fn write(directory: &Path, files: &Files) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    let current = fs::read_link(directory.join(DATA)).ok().map(|name| directory.join(name));
    if let Some(current) = &current
        && holds(current, files)
    {
        return Ok(());
    }
    let version = new_version(directory)?;
    for (path, file) in files {
        write_file(&version.join(path), file)?;
    }
    let name = version.file_name().map(PathBuf::from).unwrap_or_default();
    let staged = directory.join("..data_tmp");
    remove_link(&staged)?;
    symlink(&name, &staged)?;
    fs::rename(&staged, directory.join(DATA))?;
    link_names(directory, files)?;
    match current {
        Some(current) => fs::remove_dir_all(current).or_else(absent_is_fine),
        None => Ok(()),
    }
}

fn absent_is_fine(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn remove_link(path: &Path) -> io::Result<()> {
    fs::remove_file(path).or_else(absent_is_fine)
}

/// A fresh directory `..N`.
fn new_version(directory: &Path) -> io::Result<PathBuf> {
    loop {
        let path = directory.join(format!("..{:016x}", rand::random::<u64>()));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => {
                made?;
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
                return Ok(path);
            }
        }
    }
}

fn write_file(path: &Path, file: &File) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, &file.data)?;
    fs::set_permissions(path, fs::Permissions::from_mode(file.mode))
}

/// Whether a version directory has these files and no others.
fn holds(version: &Path, files: &Files) -> bool {
    let same = |(path, file): (&String, &File)| {
        let path = version.join(path);
        let mode = fs::metadata(&path).map(|m| m.permissions().mode() & 0o777).ok();
        fs::read(&path).is_ok_and(|data| data == file.data) && mode.is_some_and(|m| m & file.mode == file.mode)
    };
    files.iter().all(same) && count(version) == files.len()
}

fn count(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { count(&entry.path()) } else { 1 }).sum()
}

/// Links each top-level name through `..data` and removes links to what is gone.
fn link_names(directory: &Path, files: &Files) -> io::Result<()> {
    let wanted: BTreeSet<&str> = files.keys().filter_map(|path| path.split('/').next()).collect();
    for name in &wanted {
        let link = directory.join(name);
        if fs::symlink_metadata(&link).is_err() {
            symlink(Path::new(DATA).join(name), &link)?;
        }
    }
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with("..") && !wanted.contains(name.as_str()) {
            remove_link(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(pairs: &[(&str, &str)]) -> Files {
        pairs.iter().map(|(path, data)| ((*path).to_owned(), File { data: data.as_bytes().to_vec(), mode: 0o644 })).collect()
    }

    #[test]
    fn readers_see_new_files_through_the_same_names() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        write(&path, &files(&[("a", "1"), ("sub/b", "2")])).unwrap();
        assert_eq!(fs::read_to_string(path.join("sub/b")).unwrap(), "2");
        let first = fs::read_link(path.join(DATA)).unwrap();
        write(&path, &files(&[("a", "1"), ("sub/b", "2")])).unwrap();
        assert_eq!(fs::read_link(path.join(DATA)).unwrap(), first, "nothing changed, nothing written");
        write(&path, &files(&[("a", "3")])).unwrap();
        assert_eq!(fs::read_to_string(path.join("a")).unwrap(), "3");
        assert!(!path.join("sub").exists() && !path.join(&first).exists());
    }
}
