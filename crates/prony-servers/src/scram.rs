//! SCRAM, the login in which both sides prove that they know the password and neither sends it (RFC 5802; with SHA-256 RFC 7677).

use std::num::NonZeroU32;
use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::{digest, hmac, pbkdf2};

/// The begin of each conversation: no binding to a channel, no other name of the user.
const HEADER: &str = "n,,";

/// Why a login ended.
pub type Fault = &'static str;

/// The hash function of a login.
#[derive(Debug)]
pub(crate) struct Mechanism {
    pub name: &'static str,
    length: usize,
    digest: &'static digest::Algorithm,
    hmac: fn() -> hmac::Algorithm,
    pbkdf2: fn() -> pbkdf2::Algorithm,
}

pub(crate) static SHA_256: Mechanism = Mechanism {
    name: "SCRAM-SHA-256",
    length: digest::SHA256_OUTPUT_LEN,
    digest: &digest::SHA256,
    hmac: || hmac::HMAC_SHA256,
    pbkdf2: || pbkdf2::PBKDF2_HMAC_SHA256,
};

pub(crate) static SHA_1: Mechanism = Mechanism {
    name: "SCRAM-SHA-1",
    length: digest::SHA1_OUTPUT_LEN,
    digest: &digest::SHA1_FOR_LEGACY_USE_ONLY,
    hmac: || hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
    pbkdf2: || pbkdf2::PBKDF2_HMAC_SHA1,
};

/// A password as servers store it: normalised (RFC 4013), and as it is where that refuses it.
pub(crate) fn normalised(password: &str) -> String {
    stringprep::saslprep(password).map_or_else(|_| password.to_owned(), Into::into)
}

/// A conversation, of which one side's message follows on the other's.
pub(crate) struct Conversation {
    mechanism: &'static Mechanism,
    password: String,
    /// Rounds that the server may ask for.
    rounds: RangeInclusive<u32>,
    /// Our first message without the header.
    first: String,
    /// What the server has to prove, after its challenge.
    signature: Option<Vec<u8>>,
}

impl Conversation {
    /// Begins.
    ///
    /// # Errors
    /// Where the system has no random numbers.
    pub(crate) fn begin(
        mechanism: &'static Mechanism,
        user: &str,
        password: String,
        rounds: RangeInclusive<u32>,
    ) -> Result<Self, Fault> {
        let mut nonce = [0; 24];
        SystemRandom::new().fill(&mut nonce).map_err(|_| "the system has no random numbers")?;
        Ok(Self::with(mechanism, user, password, rounds, &BASE64_STANDARD.encode(nonce)))
    }

    pub(crate) fn with(
        mechanism: &'static Mechanism,
        user: &str,
        password: String,
        rounds: RangeInclusive<u32>,
        nonce: &str,
    ) -> Self {
        let first = format!("n={},r={nonce}", user.replace('=', "=3D").replace(',', "=2C"));
        Self { mechanism, password, rounds, first, signature: None }
    }

    pub(crate) const fn mechanism(&self) -> &'static Mechanism {
        self.mechanism
    }

    /// Our first message.
    pub(crate) fn first(&self) -> String {
        format!("{HEADER}{}", self.first)
    }

    /// Makes the proof that the server's salt and rounds ask for, and what the server then has to prove (RFC 5802, section 3).
    ///
    /// # Errors
    /// Where the challenge does not go on with our message, or is not complete.
    pub(crate) fn prove(&mut self, challenge: &[u8]) -> Result<String, Fault> {
        let challenge = text(challenge)?;
        let nonce = value(challenge, "r=").filter(|nonce| {
            let own = value(&self.first, "r=").unwrap_or_default();
            nonce.starts_with(own) && nonce.len() > own.len()
        });
        let nonce = nonce.ok_or("the server's challenge does not go on with ours")?;
        let salt = value(challenge, "s=").and_then(|salt| BASE64_STANDARD.decode(salt).ok());
        let salt = salt.ok_or("the server's challenge has no salt")?;
        let rounds = value(challenge, "i=").and_then(|rounds| rounds.parse().ok());
        let rounds = rounds.filter(|rounds| self.rounds.contains(rounds)).and_then(NonZeroU32::new);
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
        self.signature = Some(sign(server.as_ref(), all.as_bytes()).as_ref().to_vec());
        Ok(format!("{last},p={}", BASE64_STANDARD.encode(proof)))
    }

    /// Takes the server's proof.
    ///
    /// # Errors
    /// Where it does not know the password.
    pub(crate) fn check(&self, proof: &[u8]) -> Result<(), Fault> {
        let proof = value(text(proof)?, "v=").and_then(|proof| BASE64_STANDARD.decode(proof).ok());
        let is_proved = proof.is_some() && proof == self.signature;
        if is_proved { Ok(()) } else { Err("the server did not prove that it knows the password") }
    }
}

fn text(message: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(message).map_err(|_| "the answer to a login is no text")
}

/// The value of an attribute such as `r=` in a message.
fn value<'m>(message: &'m str, name: &str) -> Option<&'m str> {
    message.split(',').find_map(|attribute| attribute.strip_prefix(name))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The conversation of RFC 7677, section 3.
    pub(crate) const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    pub(crate) const SALT: &str =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    pub(crate) const PROOF: &str =
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    pub(crate) const SIGNATURE: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    fn begun() -> Conversation {
        Conversation::with(&SHA_256, "user", "pencil".to_owned(), 4_096..=100_000, NONCE)
    }

    #[test]
    fn conversation_is_that_of_the_standard() {
        let mut begun = begun();
        assert_eq!(begun.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        assert_eq!(begun.prove(SALT.as_bytes()).unwrap(), PROOF);
        assert_eq!(begun.check(SIGNATURE.as_bytes()), Ok(()));
    }

    #[test]
    fn server_that_does_not_know_the_password_is_refused() {
        for (challenge, said) in [
            (SALT.replace("rOpr", "xOpr"), "does not go on"),
            ("r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".to_owned(), "does not go on"),
            (SALT.replace("s=", "t="), "no salt"),
            (SALT.replace("i=4096", "i=4095"), "rounds"),
            (SALT.replace("i=4096", "i=0"), "rounds"),
            (SALT.replace("i=4096", "i=100001"), "rounds"),
        ] {
            assert!(begun().prove(challenge.as_bytes()).unwrap_err().contains(said), "{challenge}");
        }
        assert!(begun().prove(b"\xff").unwrap_err().contains("no text"));
        assert!(begun().check(SIGNATURE.as_bytes()).unwrap_err().contains("did not prove"), "before the challenge");
        for signature in [SIGNATURE.replace("6rri", "7rri"), "e=other-error".to_owned(), String::new()] {
            let mut begun = begun();
            begun.prove(SALT.as_bytes()).unwrap();
            assert!(begun.check(signature.as_bytes()).unwrap_err().contains("did not prove"), "{signature}");
        }
    }

    #[test]
    fn users_are_written_so_that_no_attribute_begins() {
        let begun = Conversation::with(&SHA_256, "a=b,c", String::new(), 1..=1, "x");
        assert_eq!(begun.first, "n=a=3Db=2Cc,r=x");
    }

    /// Soft hyphens are left out and other spaces are spaces (RFC 4013).
    #[test]
    fn passwords_are_normalised_where_the_standard_takes_them() {
        assert_eq!(normalised("I\u{ad}X\u{a0}Y"), "IX Y");
        assert_eq!(normalised("a\u{7}"), "a\u{7}", "control characters are prohibited there");
    }
}
