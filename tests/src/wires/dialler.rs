//! Which process holds the other end of a connection on the loopback.

use std::net::Ipv4Addr;

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, setsockopt, socket, sockopt::ReceiveTimeout,
};

/// The kernel answers at once; without the module for it, not at all.
const ANSWER: nix::sys::time::TimeVal = nix::sys::time::TimeVal::new(1, 0);
/// From `linux/sock_diag.h`, `linux/netlink.h` and `netinet/in.h`.
const BY_FAMILY: u16 = 20;
const REQUEST: u16 = 1;
const TCP: u8 = 6;
const INET: u8 = 2;
/// Where the answer has the inode: after its header, four bytes, the two ends and four numbers.
const INODE: usize = 16 + 4 + 48 + 16;

/// Whether a process has the socket whose own port and whose peer's port these are.
pub(super) fn owner(pids: impl IntoIterator<Item = u32>, local: u16, remote: u16) -> Option<u32> {
    let socket = ask(local, remote).or_else(|| look_up(local, remote))?;
    pids.into_iter().find(|pid| owns(*pid, socket))
}

/// Asks the kernel for one socket: its table can be long, and a cut wire brings many connections.
fn ask(local: u16, remote: u16) -> Option<u64> {
    let kernel = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkSockDiag).ok()?;
    setsockopt(&kernel, ReceiveTimeout, &ANSWER).ok()?;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&kernel);
    sendto(fd, &question(local, remote), &NetlinkAddr::new(0, 0), MsgFlags::empty()).ok()?;
    let mut answer = [0; 1024];
    let length = recv(fd, &mut answer, MsgFlags::empty()).ok()?;
    let kind = u16::from_ne_bytes([answer[4], answer[5]]);
    let inode = answer[..length].get(INODE..INODE + 4).filter(|_| kind == BY_FAMILY)?;
    Some(u64::from(u32::from_ne_bytes(inode.try_into().ok()?)))
}

fn question(local: u16, remote: u16) -> Vec<u8> {
    let mut question = Vec::new();
    question.extend(72u32.to_ne_bytes());
    question.extend(BY_FAMILY.to_ne_bytes());
    question.extend(REQUEST.to_ne_bytes());
    question.extend([0; 8]);
    question.extend([INET, TCP, 0, 0]);
    // In any state.
    question.extend(u32::MAX.to_ne_bytes());
    question.extend(local.to_be_bytes());
    question.extend(remote.to_be_bytes());
    for _ in 0..2 {
        question.extend(Ipv4Addr::LOCALHOST.octets());
        question.extend([0; 12]);
    }
    // On any interface, whatever its cookie.
    question.extend(0u32.to_ne_bytes());
    question.extend([u8::MAX; 8]);
    question
}

fn look_up(local: u16, remote: u16) -> Option<u64> {
    let loopback = u32::from_ne_bytes(Ipv4Addr::LOCALHOST.octets());
    let end = |port: u16| format!("{loopback:08X}:{port:04X}");
    let ends = format!(" {} {} ", end(local), end(remote));
    let table = std::fs::read_to_string("/proc/net/tcp").ok()?;
    table.lines().find(|line| line.contains(&ends))?.split_whitespace().nth(9)?.parse().ok()
}

fn owns(pid: u32, socket: u64) -> bool {
    let wanted = format!("socket:[{socket}]");
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|target| target.as_os_str() == wanted.as_str())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn both_ways_of_asking_know_whose_a_socket_is() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (local, remote) = (stream.local_addr().unwrap().port(), stream.peer_addr().unwrap().port());
        let known = look_up(local, remote).unwrap();
        assert!(ask(local, remote).is_none_or(|asked| asked == known));
        assert_eq!(owner([1, std::process::id()], local, remote), Some(std::process::id()));
        assert_eq!(owner([std::process::id()], 1, 1), None);
    }
}
