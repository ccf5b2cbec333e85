//! What a sandbox of our own namespaces promises, tried from within the box of a thread: the checks and probes that commands in
//! boxes of their own meet (`confinement.rs`, `probes.rs`, `attempts.rs`, `everyday.rs`), but for those that type into the command,
//! tell its two streams apart or read them while it runs (a command of a thread has an empty input and one stream, which the
//! helper of these tests hands on at the end), and those that kill who looks after it, which `keepers.rs` has.
#![cfg(target_os = "linux")]

mod support;

use openoxide_sandbox::Backend;

checks! { Backend::Namespaces;
    writes {
        nothing_outside_is_written,
        nothing_is_written_in_read_only,
        the_workspace_and_the_temporary_directory_are_written,
        a_race_of_links_leads_nowhere,
        secrets_are_hidden,
        secrets_are_hidden_within_the_workspace,
        nobody_works_in_a_hidden_place,
        secrets_of_the_system_are_hidden,
    }
    protected {
        a_repository_is_not_written,
        what_is_missing_cannot_be_made,
        settings_that_are_there_are_not_written,
        a_pointer_file_and_what_it_points_to_are_not_written,
        a_link_and_what_it_leads_to_are_not_written,
        what_leads_nowhere_stops_no_command,
    }
    git {
        git_writes_its_repository,
        git_writes_from_a_work_tree,
        git_writes_from_a_submodule,
        what_git_obeys_is_held,
        what_another_work_tree_obeys_is_held,
        nothing_that_was_planted_runs_for_the_user,
        what_leads_out_of_a_repository_is_swept,
        only_a_repository_of_the_workspace_is_opened,
        a_way_that_a_command_could_have_made_opens_nothing,
        other_commands_write_no_repository,
    }
    pinned {
        no_ancestor_of_a_workspace_is_replaced,
        another_directory_of_the_same_path_is_not_written,
        what_lies_above_a_repository_stays,
        many_repositories_are_covered,
    }
    temporary {
        nothing_that_is_obeyed_is_made_at_the_top,
        repositories_beneath_are_protected,
        what_leads_nowhere_in_them_stops_no_command,
        what_comes_and_goes_in_them_stops_no_command,
        links_of_others_close_nothing,
        the_same_repository_is_found,
    }
    leftovers {
        nothing_is_left_after_the_end,
        nothing_is_left_after_many_at_once,
        what_a_killed_supervisor_left_goes_with_the_next_command,
        everything_ends_with_a_killed_server,
    }
    network {
        the_host_is_out_of_reach,
        network_access_reaches_the_network_and_no_unix_socket,
        a_server_and_its_client_talk_within_a_command,
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
        the_number_of_processes_is_bounded,
        the_size_of_a_file_is_bounded,
        a_command_goes_first_when_memory_runs_out,
        nothing_is_typed_into_the_terminal,
        the_users_terminals_are_out_of_reach,
    }
    outcomes {
        exits_and_signals_are_told,
        a_missing_command_is_named,
        terminals_work,
        what_ignores_sigterm_is_killed,
        what_listens_to_sigterm_ends_by_it,
        short_commands_are_told_whole,
    }
    work {
        git_reads_its_repository,
        c_programs_are_built_and_run,
        python_works,
        node_serves_itself,
    }
    probes { boundaries_hold, boundaries_are_real, other_repositories_hold, nothing_is_inherited }
    everyday {
        cargo_tests_a_crate, npm_installs_a_local_package, python_tests_run,
        git_tells_of_its_repository, git_does_not_change_its_repository, make_builds, c_is_built_in_tmpdir,
        packages_are_linked_and_renamed_beside_a_nested_repository, a_nested_repository_is_not_taken_away,
        a_new_repository_is_used_by_the_command_that_made_it,
    }
    attempts {
        files, writes, answers, newer_calls, devices, secrets, names, processes, shared, terminals, network,
        protected, links, missing, parents, controls,
    }
    holes {
        what_a_workspace_stands_in_is_not_moved, no_protected_name_is_made_in_a_temporary_directory,
        repositories_in_temporary_directories_are_not_written,
        what_is_documented_as_open_is,
    }
}
