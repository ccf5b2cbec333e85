//! The checks of `confinement.rs` where `/usr/bin/bwrap` makes the namespaces. With the feature `test-bubblewrap` only,
//! because it has to be installed; with the feature, its absence fails these tests.
#![cfg(target_os = "linux")]

mod support;

use openoxide_sandbox::Backend;

checks! { Backend::Bubblewrap;
    writes {
        nothing_outside_is_written,
        nothing_is_written_in_read_only,
        the_workspace_and_the_temporary_directory_are_written,
        a_race_of_links_leads_nowhere,
        secrets_are_hidden,
        secrets_are_hidden_within_the_workspace,
        secrets_stay_hidden_when_the_host_replaces_them,
        nobody_works_in_a_hidden_place,
        secrets_of_the_system_are_hidden,
    }
    protected {
        a_repository_is_not_written,
        what_is_missing_cannot_be_made,
        settings_that_are_there_are_not_written,
        what_editors_and_agents_obey_is_not_written_where_it_exists,
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
        a_killed_supervisor_leaves_a_repository_that_works,
        the_users_git_works_meanwhile,
    }
    pinned {
        no_ancestor_of_a_workspace_is_replaced,
        another_directory_of_the_same_path_is_not_written,
        a_race_of_ancestors_leads_nowhere,
        what_lies_above_a_repository_stays,
        many_repositories_are_covered,
        a_tmp_of_its_own_stands_for_the_systems,
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
        what_one_command_relies_on_stays_when_another_ends,
        everything_ends_with_a_killed_supervisor,
        everything_ends_with_a_killed_server,
        what_leaves_the_session_ends_with_the_command,
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
        streams_are_passed_through,
        terminals_work,
        what_ignores_sigterm_is_killed,
        what_listens_to_sigterm_ends_by_it,
        short_commands_are_told_whole,
    }
    work {
        git_reads_its_repository,
        shells_and_temporary_files_work,
        c_programs_are_built_and_run,
        python_works,
        node_serves_itself,
    }
}
