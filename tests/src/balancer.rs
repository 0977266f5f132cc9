//! A load balancer: carries each connection to the next of several servers that takes it.

use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Carries connections until it is dropped; those it carries go on until one of their ends closes.
pub struct Balancer {
    port: u16,
    over: Arc<AtomicBool>,
    carried: Arc<Vec<AtomicUsize>>,
}

impl Balancer {
    /// In front of servers given as `https://HOST:PORT`.
    pub fn before(servers: &[String]) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let servers: Vec<String> = servers.iter().map(|url| url.rsplit('/').next().unwrap().to_owned()).collect();
        let (over, carried) = (Arc::<AtomicBool>::default(), Arc::new(servers.iter().map(|_| AtomicUsize::new(0)).collect::<Vec<_>>()));
        let balancer = Self { port, over: over.clone(), carried: carried.clone() };
        std::thread::spawn(move || {
            for (turn, near) in listener.incoming().enumerate() {
                if over.load(Ordering::Acquire) {
                    return;
                }
                let Ok(near) = near else { continue };
                let order = (0..servers.len()).map(|next| (turn + next) % servers.len());
                let found = order.into_iter().find_map(|server| Some((server, TcpStream::connect(&servers[server]).ok()?)));
                // With no server the connection just closes.
                if let Some((server, far)) = found {
                    carried[server].fetch_add(1, Ordering::Relaxed);
                    carry(near, far);
                }
            }
        });
        balancer
    }

    /// Where clients reach it.
    pub fn url(&self) -> String {
        format!("https://{}:{}", Ipv4Addr::LOCALHOST, self.port)
    }

    /// How many connections each server was given.
    pub fn carried(&self) -> Vec<usize> {
        self.carried.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        // Wakes it up.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

/// Both ways, until both ends have closed.
fn carry(near: TcpStream, far: TcpStream) {
    let (Ok(near_too), Ok(far_too)) = (near.try_clone(), far.try_clone()) else { return };
    std::thread::spawn(move || pass(near, far_too));
    std::thread::spawn(move || pass(far, near_too));
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let passed = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
    // An end that broke is broken both ways.
    if passed.is_err() {
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    /// A server that says its name to everybody.
    fn named(name: u8) -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || listener.incoming().flatten().for_each(|mut stream| stream.write_all(&[name]).unwrap()));
        url
    }

    #[test]
    fn servers_take_turns_and_one_that_refuses_is_passed_over() {
        let gone = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let balancer = Balancer::before(&[named(1), format!("https://{gone}"), named(3)]);
        let ask = || {
            let mut answer = Vec::new();
            TcpStream::connect(balancer.url().trim_start_matches("https://")).unwrap().read_to_end(&mut answer).unwrap();
            answer
        };
        let answers: Vec<_> = (0..6).flat_map(|_| ask()).collect();
        assert_eq!(answers, [1, 3, 3, 1, 3, 3]);
        assert_eq!(balancer.carried(), [2, 0, 4]);
    }
}
