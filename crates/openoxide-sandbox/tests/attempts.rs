//! Some thousand direct attempts to leave the sandbox (`attempts/*.c`), in each mode, by each means, as root and as an
//! ordinary user. Bubblewrap's run with the feature `test-bubblewrap` only, because it has to be installed.
#![cfg(target_os = "linux")]

mod support;

mod namespaces {
    use crate::{checks, support};
    use openoxide_sandbox::Backend;

    checks! { Backend::Namespaces;
        attempts {
            files, writes, answers, newer_calls, devices, secrets, names, processes, shared, terminals, network, controls,
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
        }
    }
}
