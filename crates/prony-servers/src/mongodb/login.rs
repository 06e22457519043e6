//! The login: SCRAM (RFC 5802), with SHA-1 or SHA-256 (RFC 7677), in the commands `saslStart` and `saslContinue`.
//!
//! With SHA-1 the password is `md5(USER:mongo:PASSWORD)` in hexadecimal digits ("MongoDB Authentication" in the specifications
//! of drivers). Both sides prove that they know it, and neither sends it.

use std::fmt::Write as _;
use std::num::NonZeroU32;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use md5::{Digest as _, Md5};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::{digest, hmac, pbkdf2};

use super::Credentials;
use super::bson::{self, Value, Writer};

/// The begin of each conversation: no binding to a channel, no other name of the user.
const HEADER: &str = "n,,";

/// Rounds that a server may ask for; those of MongoDB are 10,000 and 15,000, and no client asks for fewer than 4,096.
const ROUNDS: std::ops::RangeInclusive<u32> = 4_096..=10_000_000;

/// Why a login ended.
pub type Fault = &'static str;

/// A login, of which one side's message follows on the other's.
pub(super) struct Login {
    mechanism: &'static Mechanism,
    password: String,
    source: String,
    /// Our first message without the header.
    first: String,
    /// The number that the server gave the conversation.
    conversation: i32,
    /// What is sent next.
    next: Vec<u8>,
    expected: Expected,
}

/// What the server says next.
enum Expected {
    /// The salt and the rounds.
    Challenge,
    /// This signature, by which it proves that it knows the password.
    Proof(Vec<u8>),
    /// Nothing but that it is done.
    End,
}

struct Mechanism {
    name: &'static str,
    length: usize,
    digest: &'static digest::Algorithm,
    hmac: fn() -> hmac::Algorithm,
    pbkdf2: fn() -> pbkdf2::Algorithm,
}

static SHA_256: Mechanism = Mechanism {
    name: "SCRAM-SHA-256",
    length: digest::SHA256_OUTPUT_LEN,
    digest: &digest::SHA256,
    hmac: || hmac::HMAC_SHA256,
    pbkdf2: || pbkdf2::PBKDF2_HMAC_SHA256,
};

static SHA_1: Mechanism = Mechanism {
    name: "SCRAM-SHA-1",
    length: digest::SHA1_OUTPUT_LEN,
    digest: &digest::SHA1_FOR_LEGACY_USE_ONLY,
    hmac: || hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
    pbkdf2: || pbkdf2::PBKDF2_HMAC_SHA1,
};

/// Adds to `isMaster` the question by which mechanisms this user may log in.
pub(super) fn ask_mechanisms(of: &Credentials, command: &mut Writer<'_>) {
    command.text("saslSupportedMechs", &format!("{}.{}", of.source, of.user));
}

impl Login {
    /// Begins; `answer` is that to `isMaster` with [`ask_mechanisms`]. Before version 4.0 it has no mechanisms: SHA-1 is the only one.
    ///
    /// # Errors
    /// Where the system has no random numbers.
    pub(super) fn begin(of: &Credentials, answer: &[u8]) -> Result<Self, Fault> {
        let mut nonce = [0; 24];
        SystemRandom::new().fill(&mut nonce).map_err(|_| "the system has no random numbers")?;
        Ok(Self::with(of, mechanism(answer), &BASE64_STANDARD.encode(nonce)))
    }

    fn with(of: &Credentials, mechanism: &'static Mechanism, nonce: &str) -> Self {
        let password = match mechanism.name == SHA_1.name {
            true => hexadecimal(&Md5::digest(format!("{}:mongo:{}", of.user, of.password))),
            // Normalised (RFC 4013), and as it is where that refuses it: the server may have taken it so.
            false => stringprep::saslprep(&of.password).map_or_else(|_| of.password.clone(), Into::into),
        };
        let first = format!("n={},r={nonce}", of.user.replace('=', "=3D").replace(',', "=2C"));
        let next = format!("{HEADER}{first}").into_bytes();
        let source = of.source.clone();
        Self { mechanism, password, source, first, conversation: 0, next, expected: Expected::Challenge }
    }

    /// The database on which the commands are.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Writes the next command.
    pub(super) fn write(&self, command: &mut Writer<'_>) {
        if matches!(self.expected, Expected::Challenge) {
            command.int32("saslStart", 1);
            command.text("mechanism", self.mechanism.name);
        } else {
            command.int32("saslContinue", 1);
            command.int32("conversationId", self.conversation);
        }
        command.binary("payload", &self.next);
    }

    /// Takes the answer; whether that was the last one.
    ///
    /// # Errors
    /// Where it is not the server's part of the conversation, or the server does not know the password.
    pub(super) fn answered(&mut self, answer: &[u8]) -> Result<bool, Fault> {
        let is_done = bson::at(answer, &["done"]) == Some(Value::Bool(true));
        let Some(Value::Binary(message)) = bson::at(answer, &["payload"]) else {
            return Err("the answer to a login has no message");
        };
        let message = std::str::from_utf8(message).map_err(|_| "the answer to a login is no text")?;
        match &self.expected {
            Expected::Challenge => {
                self.conversation = bson::number(answer, &["conversationId"]).unwrap_or_default() as i32;
                self.prove(message)?;
            }
            Expected::Proof(signature) => {
                let proof = value(message, "v=").and_then(|proof| BASE64_STANDARD.decode(proof).ok());
                if proof.as_ref() != Some(signature) {
                    return Err("the server did not prove that it knows the password");
                }
                (self.expected, self.next) = (Expected::End, Vec::new());
            }
            Expected::End if is_done => {}
            Expected::End => return Err("the server does not end the login"),
        }
        match (is_done, &self.expected) {
            (true, Expected::End) => Ok(true),
            (true, _) => Err("the server ended the login before its proof"),
            (false, _) => Ok(false),
        }
    }

    /// Makes the proof that the server's salt and rounds ask for, and what the server then has to prove (RFC 5802, section 3).
    fn prove(&mut self, challenge: &str) -> Result<(), Fault> {
        let nonce = value(challenge, "r=").filter(|nonce| {
            let own = value(&self.first, "r=").unwrap_or_default();
            nonce.starts_with(own) && nonce.len() > own.len()
        });
        let nonce = nonce.ok_or("the server's challenge does not go on with ours")?;
        let salt = value(challenge, "s=").and_then(|salt| BASE64_STANDARD.decode(salt).ok());
        let salt = salt.ok_or("the server's challenge has no salt")?;
        let rounds = value(challenge, "i=").and_then(|rounds| rounds.parse().ok());
        let rounds = rounds.filter(|rounds| ROUNDS.contains(rounds)).and_then(NonZeroU32::new);
        let rounds = rounds.ok_or("the server's challenge has no usable number of rounds")?;
        let mut salted = vec![0; self.mechanism.length];
        pbkdf2::derive((self.mechanism.pbkdf2)(), rounds, &salt, self.password.as_bytes(), &mut salted);
        let sign = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new((self.mechanism.hmac)(), key), text);
        let client = sign(&salted, b"Client Key");
        let stored = digest::digest(self.mechanism.digest, client.as_ref());
        let last = format!("c={},r={nonce}", BASE64_STANDARD.encode(HEADER));
        let all = format!("{},{challenge},{last}", self.first);
        let signature = sign(stored.as_ref(), all.as_bytes());
        let proof: Vec<u8> = client.as_ref().iter().zip(signature.as_ref()).map(|(key, with)| key ^ with).collect();
        let server = sign(&salted, b"Server Key");
        let expected = sign(server.as_ref(), all.as_bytes()).as_ref().to_vec();
        self.next = format!("{last},p={}", BASE64_STANDARD.encode(proof)).into_bytes();
        self.expected = Expected::Proof(expected);
        Ok(())
    }
}

/// The mechanism that an answer to `isMaster` offers.
fn mechanism(answer: &[u8]) -> &'static Mechanism {
    let Some(Value::Array(offered)) = bson::at(answer, &["saslSupportedMechs"]) else { return &SHA_1 };
    let is_offered = bson::fields(offered).flatten().any(|(_, name)| name == Value::Text(SHA_256.name));
    if is_offered { &SHA_256 } else { &SHA_1 }
}

/// The value of an attribute such as `r=` in a message.
fn value<'m>(message: &'m str, name: &str) -> Option<&'m str> {
    message.split(',').find_map(|attribute| attribute.strip_prefix(name))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(message: &str, is_done: bool) -> Vec<u8> {
        let mut out = Vec::new();
        bson::write(&mut out, |answer| {
            answer.int32("conversationId", 7);
            answer.flag("done", is_done);
            answer.binary("payload", message.as_bytes());
        });
        out
    }

    fn begun(mechanism: &'static Mechanism, password: &str, nonce: &str) -> Login {
        let of = Credentials { user: "user".to_owned(), password: password.to_owned(), source: "admin".to_owned() };
        Login::with(&of, mechanism, nonce)
    }

    /// The conversation of RFC 7677, section 3.
    const SALT: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const PROOF: &str =
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    const SIGNATURE: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    #[test]
    fn conversation_is_that_of_the_standard() {
        let mut login = begun(&SHA_256, "pencil", "rOprNGfwEbeRWgbNEkqO");
        assert_eq!(login.next, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        assert_eq!(login.answered(&answer(SALT, false)), Ok(false));
        assert_eq!((std::str::from_utf8(&login.next), login.conversation), (Ok(PROOF), 7));
        assert_eq!(login.answered(&answer(SIGNATURE, false)), Ok(false));
        assert!(login.next.is_empty());
        assert_eq!(login.answered(&answer("", true)), Ok(true));
    }

    /// As in the specification of drivers, where the password is hashed first.
    #[test]
    fn sha_1_has_the_hashed_password() {
        let mut login = begun(&SHA_1, "pencil", "fyko+d2lbbFgONRv9qkxdawL");
        let salt = "r=fyko+d2lbbFgONRv9qkxdawLHo+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE,s=rQ9ZY3MntBeuP3E1TDVC4w==,i=10000";
        assert_eq!(login.answered(&answer(salt, false)), Ok(false));
        let proof = "c=biws,r=fyko+d2lbbFgONRv9qkxdawLHo+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE,p=MC2T8BvbmWRckDw8oWl5IVghwCY=";
        assert_eq!(std::str::from_utf8(&login.next), Ok(proof));
        assert_eq!(login.answered(&answer("v=UMWeI25JD1yNYZRMpZ4VHvhZ9e0=", true)), Ok(true));
    }

    #[test]
    fn server_that_does_not_know_the_password_is_refused() {
        let asked = || begun(&SHA_256, "pencil", "rOprNGfwEbeRWgbNEkqO");
        for (challenge, said) in [
            (SALT.replace("rOpr", "xOpr"), "does not go on"),
            ("r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".to_owned(), "does not go on"),
            (SALT.replace("s=", "t="), "no salt"),
            (SALT.replace("i=4096", "i=1"), "rounds"),
            (SALT.replace("i=4096", "i=99999999"), "rounds"),
        ] {
            assert!(asked().answered(&answer(&challenge, false)).unwrap_err().contains(said), "{challenge}");
        }
        assert!(asked().answered(&answer(SALT, true)).unwrap_err().contains("before its proof"));
        for signature in [SIGNATURE.replace("6rri", "7rri"), "e=other-error".to_owned(), String::new()] {
            let mut login = asked();
            login.answered(&answer(SALT, false)).unwrap();
            assert!(login.answered(&answer(&signature, true)).unwrap_err().contains("did not prove"), "{signature}");
        }
        let mut login = asked();
        [SALT, SIGNATURE].iter().for_each(|said| assert_eq!(login.answered(&answer(said, false)), Ok(false)));
        assert!(login.answered(&answer("", false)).unwrap_err().contains("does not end"));
        let mut nothing = Vec::new();
        bson::write(&mut nothing, |_| {});
        assert!(asked().answered(&nothing).unwrap_err().contains("no message"));
    }

    #[test]
    fn mechanism_is_the_strongest_that_is_offered() {
        let offering = |names: &[&str]| {
            let mut out = Vec::new();
            bson::write(&mut out, |answer| {
                answer.array("saslSupportedMechs", |list| {
                    names.iter().zip(["0", "1"]).for_each(|(name, place)| list.text(place, name));
                });
            });
            mechanism(&out).name
        };
        assert_eq!(offering(&["SCRAM-SHA-1", "SCRAM-SHA-256"]), "SCRAM-SHA-256");
        assert_eq!((offering(&["SCRAM-SHA-1"]), offering(&[])), ("SCRAM-SHA-1", "SCRAM-SHA-1"));
        let mut none = Vec::new();
        bson::write(&mut none, |_| {});
        assert_eq!(mechanism(&none).name, "SCRAM-SHA-1");
    }

    #[test]
    fn users_are_written_so_that_no_attribute_begins() {
        let of = Credentials { user: "a=b,c".to_owned(), password: String::new(), source: "admin".to_owned() };
        assert_eq!(Login::with(&of, &SHA_256, "x").first, "n=a=3Db=2Cc,r=x");
    }
}
