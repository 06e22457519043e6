//! `prony completions`: a script for a shell that completes commands and options.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap_complete::Shell;

use super::{Answer, Output};
use crate::error::Error;

/// Whose script.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prony completions bash > ~/.local/share/bash-completion/completions/prony
  prony completions zsh > ~/.zfunc/_prony                 # with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  prony completions fish > ~/.config/fish/completions/prony.fish")]
pub struct Arguments {
    /// The shell
    #[arg(value_name = "SHELL", value_parser = shell())]
    shell: Shell,
}

/// Those of Linux, of the shells for which there are scripts.
fn shell() -> impl TypedValueParser<Value = Shell> {
    PossibleValuesParser::new(["bash", "zsh", "fish"]).try_map(|name| name.parse::<Shell>())
}

/// Prints the script.
///
/// # Errors
/// Where the output cannot be written.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::definitions(), "prony", &mut script);
    output.print_data(&String::from_utf8_lossy(&script))?;
    Ok(Answer::Yes)
}
