//! Everyday commands work in `workspace-write` without a question, offline, each in a small project made for it. Most needs
//! what a developer has installed: cargo, git, make, a C compiler, python3 with venv, Node with npm.
#![cfg(target_os = "linux")]

mod support;

mod namespaces {
    use crate::{checks, support};
    use openoxide_sandbox::Backend;

    checks! { Backend::Namespaces;
        everyday {
            cargo_tests_a_crate, cargo_builds_with_a_git_dependency, npm_installs_a_local_package, python_tests_run,
            git_tells_of_its_repository, git_does_not_change_its_repository, make_builds, c_is_built_in_tmpdir,
            packages_are_linked_and_renamed_beside_a_nested_repository, a_nested_repository_is_not_taken_away,
            a_new_repository_is_used_by_the_command_that_made_it,
        }
    }
}

#[cfg(feature = "test-bubblewrap")]
mod bubblewrap {
    use crate::{checks, support};
    use openoxide_sandbox::Backend;

    checks! { Backend::Bubblewrap;
        everyday {
            cargo_tests_a_crate, cargo_builds_with_a_git_dependency, npm_installs_a_local_package, python_tests_run,
            git_tells_of_its_repository, git_does_not_change_its_repository, make_builds, c_is_built_in_tmpdir,
            packages_are_linked_and_renamed_beside_a_nested_repository, a_nested_repository_is_not_taken_away,
            a_new_repository_is_used_by_the_command_that_made_it,
        }
    }
}
