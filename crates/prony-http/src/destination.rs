//! The address of the server that is loaded.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};

use prony_model::units::Nanos;

use crate::checked_load::Load;
use crate::error::Error;

/// How long an address is tried, before the load.
const PATIENCE: Nanos = Nanos::from_secs(10);

/// The address of a load's server, to which a connection was made once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination(SocketAddr);

impl Destination {
    /// Looks the host up, and takes the first of its addresses that accepts a connection, which is closed at once.
    ///
    /// # Errors
    /// Where the host has no address, where one of them is on another machine and the load does not permit it, and where
    /// none accepts a connection.
    pub fn find(load: &Load) -> Result<Self, Error> {
        let target = load.target();
        let host = || target.authority.clone();
        let addresses = (target.host.as_str(), target.port).to_socket_addrs();
        let addresses: Vec<SocketAddr> =
            addresses.map_err(|source| Error::Lookup { host: target.host.clone(), source })?.collect();
        let mut remote = addresses.iter().filter(|address| !is_local(address.ip()));
        if let Some(address) = remote.next().filter(|_| !load.asked().other_machines) {
            return Err(Error::OtherMachine { host: host(), address: *address });
        }
        let mut refused = None;
        for address in addresses {
            match TcpStream::connect_timeout(&address, load.timeout().min(PATIENCE).to_duration()) {
                Ok(_) => return Ok(Self(address)),
                Err(source) => refused = refused.or(Some(Error::Connect { host: host(), address, source })),
            }
        }
        let none = io::Error::new(io::ErrorKind::NotFound, "it has no address");
        Err(refused.unwrap_or(Error::Lookup { host: target.host.clone(), source: none }))
    }

    pub(crate) const fn address(self) -> SocketAddr {
        self.0
    }
}

/// Whether an address is this machine's, whatever its network. Linux takes 0.0.0.0 as the machine itself.
fn is_local(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_loopback() || ip.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_local() {
        for (ip, local) in [
            ("127.0.0.1", true),
            ("127.8.8.8", true),
            ("::1", true),
            ("0.0.0.0", true),
            ("::ffff:127.0.0.1", true),
            ("10.0.0.1", false),
            ("192.168.0.1", false),
            ("2001:db8::1", false),
            ("::ffff:10.0.0.1", false),
        ] {
            assert_eq!(is_local(ip.parse().unwrap()), local, "{ip}");
        }
    }
}
