//! A scoreboard of the sandbox: one probe for each boundary that must hold and for each kind of work that must go on, in
//! both modes, by each means, as root and as an ordinary user. Where `attempts.rs` goes wide, these are few and told apart.
#![cfg(target_os = "linux")]

mod support;

mod namespaces {
    use crate::{checks, support};
    use openoxide_sandbox::Backend;

    checks! { Backend::Namespaces;
        probes { boundaries_hold, boundaries_are_real, work_goes_on, other_repositories_hold, nothing_outlives_a_command, nothing_is_inherited }
    }
}

#[cfg(feature = "test-bubblewrap")]
mod bubblewrap {
    use crate::{checks, support};
    use openoxide_sandbox::Backend;

    checks! { Backend::Bubblewrap;
        probes { boundaries_hold, work_goes_on, other_repositories_hold, nothing_outlives_a_command, nothing_is_inherited }
    }
}

mod landlock {
    use crate::{checks, support};
    use openoxide_sandbox::Backend;

    checks! { Backend::Landlock;
        probes { boundaries_hold, work_goes_on, nothing_outlives_a_command, nothing_is_inherited }
    }
}
