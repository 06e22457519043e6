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

/// Its readings were in the totals of bytes: 56 kB in 10 s without a client.
#[test]
fn nothing_is_counted_while_nobody_but_prony_asks() {
    if !are_there(&["redis-server"]) {
        return;
    }
    let server = Server::start("redis", SERVER, |port| says(port, "PING\r\n").starts_with("+PONG"));
    let names = [
        "total_commands_processed",
        "total_net_input_bytes",
        "total_net_output_bytes",
        "total_reads_processed",
        "total_writes_processed",
    ];
    let address = format!("127.0.0.1:{}", server.port);
    let mut source = source(&CounterSource::Redis(String::new()), &address, names.map(str::to_owned).to_vec()).unwrap();
    let readings = [(); 4].map(|()| read(&mut *source));
    for (name, later) in names.into_iter().flat_map(|name| readings[1..].iter().map(move |later| (name, later))) {
        assert_eq!(value(later, name), value(&readings[0], name), "{name}");
    }
    let work = "SET a 1\r\nGET a\r\n";
    let answer = says(server.port, work);
    let last = read(&mut *source);
    let of = |name| value(&last, name).unwrap() - value(&readings[0], name).unwrap();
    assert_eq!(of("total_net_input_bytes"), (work.len() + "QUIT\r\n".len()) as f64);
    assert_eq!(of("total_net_output_bytes"), answer.len() as f64);
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
