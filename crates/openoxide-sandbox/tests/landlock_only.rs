//! What Landlock and the filter of system calls hold by themselves, in `read-only`; and that they are not relied on for
//! more. On a kernel whose Landlock is too old each test shows instead that the mode is refused.
#![cfg(target_os = "linux")]

mod support;

use openoxide_sandbox::Backend;
use support::house::{House, WORKSPACE_WRITE, for_each_user};

checks! { Backend::Landlock;
    writes {
        nothing_outside_is_written,
        nothing_is_written_in_read_only,
        secrets_are_hidden,
        secrets_stay_hidden_when_the_host_replaces_them,
        nobody_works_in_a_hidden_place,
        secrets_of_the_system_are_hidden,
    }
    leftovers {
        everything_ends_with_a_killed_server,
        what_leaves_the_session_ends_with_the_command,
    }
    network {
        the_host_is_out_of_reach,
        other_kinds_of_sockets_are_refused,
        nothing_open_in_the_caller_is_passed_on,
    }
    processes {
        host_processes_are_out_of_reach,
        no_rights_are_held,
        programs_of_another_user_give_no_rights,
    }
    kernel {
        calls_that_reach_around_are_refused,
        the_machine_is_not_set,
        nothing_is_typed_into_the_terminal,
        the_users_terminals_are_out_of_reach,
    }
    outcomes {
        exits_and_signals_are_told,
        a_missing_command_is_named,
        streams_are_passed_through,
        terminals_work,
        what_ignores_sigterm_is_killed,
        what_listens_to_sigterm_ends_by_it,
        short_commands_are_told_whole,
    }
}

#[test]
fn it_is_not_enough_for_a_workspace_that_is_written() {
    fn check(house: &House) {
        for verb in ["run", "spawn"] {
            let output = house.command(verb, "ws", WORKSPACE_WRITE, "echo started > new").output().unwrap();
            let text = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(125), "{text}");
            assert!(text.contains("`workspace-write` cannot be enforced here"), "{text}");
            assert!(text.contains("landlock alone cannot hold `workspace-write`"), "{text}");
            assert!(text.contains(openoxide_sandbox::fix()), "{text}");
        }
        assert!(!house.names("ws").contains(&"new".to_owned()));
    }
    for_each_user(Backend::Landlock, check);
}
