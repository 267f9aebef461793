//! `glee serve`, and what it bears: slow clients, many calls, other users of the machine.

mod limits;
mod observed;
mod slow;
mod socket;
mod streamed;
mod turns;

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::bundles::House;
use crate::mcp::server::PATIENCE;

/// A connection on which anything can be said.
fn connect(house: &House) -> TcpStream {
    let stream = TcpStream::connect(&house.served.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A whole request that leaves the connection open.
fn head(house: &House, line: &str) -> String {
    format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n",
        house.owner
    )
}

/// Reads until the server closes; what came.
fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A connection that was cut while something was still unread ends with an error.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

fn say(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
}
