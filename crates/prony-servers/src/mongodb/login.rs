//! The login: SCRAM in the commands `saslStart` and `saslContinue`.
//!
//! With SHA-1 the password is `md5(USER:mongo:PASSWORD)` in hexadecimal digits ("MongoDB Authentication" in the specifications
//! of drivers).

use super::Credentials;
use super::bson::{self, Value, Writer};
use crate::scram::{self, Conversation, Fault, Mechanism, SHA_1, SHA_256};

/// Rounds that a server may ask for; those of MongoDB are 10,000 and 15,000, and no client asks for fewer than 4,096.
const ROUNDS: std::ops::RangeInclusive<u32> = 4_096..=10_000_000;

/// A login, of which one side's message follows on the other's.
pub(super) struct Login {
    conversation: Conversation,
    source: String,
    /// The number that the server gave the conversation.
    number: i32,
    /// What is sent next.
    next: String,
    expected: Expected,
}

/// What the server says next.
enum Expected {
    /// The salt and the rounds.
    Challenge,
    /// By which it proves that it knows the password.
    Proof,
    /// Nothing but that it is done.
    End,
}

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
        let mechanism = mechanism(answer);
        let conversation = Conversation::begin(mechanism, &of.user, password(of, mechanism), ROUNDS)?;
        Ok(Self::with(of, conversation))
    }

    fn with(of: &Credentials, conversation: Conversation) -> Self {
        let (source, next) = (of.source.clone(), conversation.first());
        Self { conversation, source, number: 0, next, expected: Expected::Challenge }
    }

    /// The database on which the commands are.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Writes the next command.
    pub(super) fn write(&self, command: &mut Writer<'_>) {
        if matches!(self.expected, Expected::Challenge) {
            command.int32("saslStart", 1);
            command.text("mechanism", self.conversation.mechanism().name);
        } else {
            command.int32("saslContinue", 1);
            command.int32("conversationId", self.number);
        }
        command.binary("payload", self.next.as_bytes());
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
        match self.expected {
            Expected::Challenge => {
                self.number = bson::number(answer, &["conversationId"]).unwrap_or_default() as i32;
                (self.expected, self.next) = (Expected::Proof, self.conversation.prove(message)?);
            }
            Expected::Proof => {
                self.conversation.check(message)?;
                (self.expected, self.next) = (Expected::End, String::new());
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
}

fn password(of: &Credentials, mechanism: &Mechanism) -> String {
    match mechanism.name == SHA_1.name {
        true => format!("{:x}", md5::compute(format!("{}:mongo:{}", of.user, of.password))),
        false => scram::normalised(&of.password),
    }
}

/// The mechanism that an answer to `isMaster` offers.
fn mechanism(answer: &[u8]) -> &'static Mechanism {
    let Some(Value::Array(offered)) = bson::at(answer, &["saslSupportedMechs"]) else { return &SHA_1 };
    let is_offered = bson::fields(offered).flatten().any(|(_, name)| name == Value::Text(SHA_256.name));
    if is_offered { &SHA_256 } else { &SHA_1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scram::tests::{NONCE, PROOF, SALT, SIGNATURE};

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
        let password = super::password(&of, mechanism);
        Login::with(&of, Conversation::with(mechanism, &of.user, password, ROUNDS, nonce))
    }

    #[test]
    fn conversation_is_that_of_the_standard() {
        let mut login = begun(&SHA_256, "pencil", NONCE);
        assert_eq!(login.next, "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        assert_eq!(login.answered(&answer(SALT, false)), Ok(false));
        assert_eq!((login.next.as_str(), login.number), (PROOF, 7));
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
        assert_eq!(login.next, proof);
        assert_eq!(login.answered(&answer("v=UMWeI25JD1yNYZRMpZ4VHvhZ9e0=", true)), Ok(true));
    }

    #[test]
    fn server_that_does_not_go_on_as_it_has_to_is_refused() {
        let asked = || begun(&SHA_256, "pencil", NONCE);
        let few = SALT.replace("i=4096", "i=4095");
        assert!(asked().answered(&answer(&few, false)).unwrap_err().contains("rounds"));
        assert!(asked().answered(&answer(SALT, true)).unwrap_err().contains("before its proof"));
        let mut login = asked();
        login.answered(&answer(SALT, false)).unwrap();
        assert!(login.answered(&answer("e=other-error", true)).unwrap_err().contains("did not prove"));
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
}
