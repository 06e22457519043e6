//! Tests of Redis.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use prony_counters::source;
use prony_model::service::CounterSource;

use crate::server::{Server, are_there};
use crate::{read, since, value};

/// Starts a server in `$1` at port `$2`, and ends it with the test.
const SERVER: &str = r#"
cd "$1" || exit 1
"${PRONY_REDIS_SERVER:-redis-server}" --port "$2" --bind 127.0.0.1 --dir "$1" --save '' </dev/null >"$1/log" 2>&1 &
cat >/dev/null
kill -KILL $!
wait
rm -rf "$1"
"#;

/// What a new connection gets as the answer to commands; nothing where there is no server.
fn says(port: u16, commands: &str) -> String {
    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return String::new() };
    let mut text = String::new();
    let _ = stream.write_all(format!("{commands}QUIT\r\n").as_bytes()).and_then(|()| stream.read_to_string(&mut text));
    text
}

/// After it the server does more of everything than before, so that only its count of the readings themselves goes back.
#[test]
fn a_reset_is_noticed_between_the_first_two_readings_and_later() {
    if !are_there(&["redis-server"]) {
        return;
    }
    let server = Server::start("redis", SERVER, |port| says(port, "PING\r\n").starts_with("+PONG"));
    let name = "total_commands_processed";
    let names = vec![name.to_owned()];
    let address = format!("127.0.0.1:{}", server.port);
    let mut source = source(&CounterSource::Redis(String::new()), &address, names).unwrap();
    // Each time in more connections. The last of their commands is counted before their end can be read.
    let mut done = 100;
    let mut work = || {
        done *= 2;
        (0..done).for_each(|_| drop(says(server.port, &"PING\r\n".repeat(50))));
        f64::from(done) * 51.0
    };
    let first = read(&mut *source);
    says(server.port, "CONFIG RESETSTAT\r\n");
    work();
    let second = read(&mut *source);
    assert!(value(&second, name) > value(&first, name), "it has grown all the same");
    assert_ne!(since(&first, name), since(&second, name));
    let expected = work();
    let third = read(&mut *source);
    assert_eq!(since(&second, name), since(&third, name));
    assert_eq!(value(&third, name).unwrap() - value(&second, name).unwrap(), expected);
    says(server.port, "CONFIG RESETSTAT\r\n");
    work();
    work();
    let fourth = read(&mut *source);
    assert_ne!(since(&third, name), since(&fourth, name));
    // In two intervals, one after the other.
    says(server.port, "CONFIG RESETSTAT\r\n");
    work();
    assert_ne!(since(&fourth, name), since(&read(&mut *source), name));
}
