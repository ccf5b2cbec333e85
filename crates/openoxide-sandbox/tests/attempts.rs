//! Direct attempts to leave the sandbox (`attempts/*.c`), some 2,400, in each mode, by each means, as root and as an
//! ordinary user. Bubblewrap's run with the feature `test-bubblewrap` only, because it has to be installed.
#![cfg(target_os = "linux")]

mod support;

mod namespaces {
    use crate::{checks, support};
    use openoxide_sandbox::Backend;

    checks! { Backend::Namespaces;
        attempts {
            files, writes, answers, newer_calls, devices, secrets, names, processes, shared, terminals, network,
            protected, links, missing, parents, controls,
        }
        holes {
            what_a_workspace_stands_in_is_not_moved, no_protected_name_is_made_in_a_temporary_directory,
            repositories_in_temporary_directories_are_not_written, replaced_credentials_stay_hidden,
            what_is_documented_as_open_is,
        }
    }
}

#[cfg(feature = "test-bubblewrap")]
mod bubblewrap {
    use crate::{checks, support};
    use openoxide_sandbox::Backend;

    checks! { Backend::Bubblewrap;
        attempts {
            files, writes, answers, newer_calls, devices, secrets, names, processes, shared, terminals, network,
            protected, links, missing, parents,
        }
        holes {
            what_a_workspace_stands_in_is_not_moved, no_protected_name_is_made_in_a_temporary_directory,
            repositories_in_temporary_directories_are_not_written, replaced_credentials_stay_hidden,
            what_is_documented_as_open_is,
        }
    }
}

/// What is in sight there, names of files and processes, is left out: see `docs/security.md`.
mod landlock {
    use crate::{checks, support};
    use openoxide_sandbox::Backend;

    checks! { Backend::Landlock;
        attempts {
            files, writes, answers, newer_calls, secrets, processes, shared, terminals, network,
            protected, links, parents,
        }
        holes { replaced_credentials_stay_hidden, what_is_documented_as_open_is }
    }
}
