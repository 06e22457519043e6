//! Assigns roles to the processes and threads of a program.

use prony_model::record::probe::Role;

use super::protocol::Source;

/// Gives each thread and process its role.
#[derive(Clone, Debug, Default)]
pub struct Roles {
    main: Option<u32>,
}

impl Roles {
    /// The role of the sender of a `hello`, in the order of the channel.
    pub fn of(&mut self, source: Source) -> Role {
        let main = *self.main.get_or_insert(source.pid);
        match (source.thread, source.pid == main) {
            (0, true) => Role::Main,
            (0, false) => Role::Child,
            _ => Role::Worker,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_the_instances_that_experiments_may_name() {
        assert_eq!(Role::ALL.map(Role::name), prony_model::program::ROLES);
    }

    #[test]
    fn the_first_process_is_the_main_one() {
        let mut roles = Roles::default();
        let of = |roles: &mut Roles, pid, thread| roles.of(Source { pid, thread });
        assert_eq!(of(&mut roles, 9, 0), Role::Main);
        assert_eq!(of(&mut roles, 9, 1), Role::Worker);
        assert_eq!(of(&mut roles, 10, 0), Role::Child);
        assert_eq!(of(&mut roles, 10, 3), Role::Worker);
    }
}
