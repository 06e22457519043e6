//! What requests that are no success ended in, and how many did so.

use std::collections::BTreeMap;

use prony_model::http::NOT_SENT;
use schemars::JsonSchema;
use serde::Serialize;

/// Each has a name, that of its count, and its words.
macro_rules! failures {
    ($($(#[$doc:meta])+ $name:ident $count:ident $text:expr;)+) => {
        /// What a request that is no success ended in.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Failure {
            $($(#[$doc])+ $name,)+
        }

        impl Failure {
            /// All of them.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$name),+];

            /// In words.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }

        /// Requests without an expected answer, by what they ended in.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
        pub struct Errors {
            $($(#[$doc])+ pub $count: u64,)+
        }

        impl Errors {
            fn count_mut(&mut self, failure: Failure) -> &mut u64 {
                match failure {
                    $(Failure::$name => &mut self.$count,)+
                }
            }
        }
    };
}

failures! {
    /// A whole answer with a status that is not expected.
    Status status "unexpected status";
    /// The server did not accept the connection.
    Refused refused "connection refused";
    /// The connection was reset, or broke in another way.
    Reset reset "connection reset";
    /// The server closed the connection before a whole answer.
    Closed closed "closed before a whole answer";
    /// The bytes that came are no answer.
    Malformed malformed "malformed answer";
    /// There was no whole answer within the timeout.
    Timeout timeout "timeout";
    /// TLS failed: a certificate that is not accepted, no common version.
    Tls tls "TLS failure";
    /// This machine had no socket or port for the connection.
    NoSocket no_socket "no socket on this machine";
    /// It was under way when the load was ended.
    Unfinished unfinished "unfinished at the end";
    /// Open loop: no connection was free within the timeout, or before the load was ended.
    NotStarted not_started "not started in time";
    /// The request could not be made: the file of its body cannot be read or has changed, or a value cannot be where it was
    /// to be.
    NotMade not_made "request could not be made";
    /// An expected answer does not contain a value that later requests use.
    NotSaved not_saved "no value to save in the answer";
    /// The body of an expected answer is not as it has to be.
    Wrong wrong "wrong answer";
    /// It was not sent, since an earlier request of its session failed.
    NotSent not_sent NOT_SENT;
}

impl Errors {
    pub(crate) fn of(counts: &BTreeMap<Failure, u64>) -> Self {
        let mut errors = Self::default();
        for (failure, count) in counts {
            *errors.count_mut(*failure) += count;
        }
        errors
    }

    /// The requests that ended so.
    pub fn count(&self, failure: Failure) -> u64 {
        let mut copy = *self;
        *copy.count_mut(failure)
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        Failure::ALL.iter().map(|failure| self.count(*failure)).sum()
    }
}
