//! The program of the kernel's filter for system calls that are refused by their number alone. When a filter is installed the
//! kernel runs it once for each call that there is, so that a list of a hundred numbers, compared one by one, costs more than
//! all the rest of it; here a number is found in seven comparisons.
//!
//! Calls by another architecture's numbers are for the filter beside this one to refuse: of two answers the stricter counts.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, sock_filter};

const LOAD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

const REFUSE: u32 = 0x0005_0000;
const ALLOW: u32 = 0x7fff_0000;

/// The calls of the x32 interface carry the number of the architecture that the others carry, and numbers that no rule
/// names: this and above.
const X32: u32 = 0x4000_0000;

/// A program that answers some calls with an error and allows all others.
pub(super) fn program(calls: BTreeMap<i64, libc::c_int>) -> BpfProgram {
    let calls: Vec<(u32, u32)> = calls
        .into_iter()
        .filter_map(|(call, errno)| Some((u32::try_from(call).ok()?, REFUSE | errno.cast_unsigned())))
        .collect();
    let mut program = vec![step(LOAD, 0, 0, 0)];
    if cfg!(target_arch = "x86_64") {
        program.extend([step(JUMP_AT_LEAST, 0, 1, X32), step(RETURN, 0, 0, REFUSE | libc::ENOSYS.cast_unsigned())]);
    }
    program.extend(search(&calls));
    program
}

/// The comparisons for some of the calls, in their order.
fn search(calls: &[(u32, u32)]) -> BpfProgram {
    match calls {
        [] => vec![step(RETURN, 0, 0, ALLOW)],
        [(call, answer)] => {
            vec![step(JUMP_EQUAL, 0, 1, *call), step(RETURN, 0, 0, *answer), step(RETURN, 0, 0, ALLOW)]
        }
        _ => {
            let (low, high) = calls.split_at(calls.len() / 2);
            let (first, _) = high[0];
            let (low, high) = (search(low), search(high));
            let over = u32::try_from(low.len()).expect("a program has fewer than 4096 steps");
            // A condition jumps over 255 steps at most.
            let mut program = vec![step(JUMP_AT_LEAST, 0, 1, first), step(JUMP, 0, 0, over)];
            program.extend(low.into_iter().chain(high));
            program
        }
    }
}

fn step(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel would do with a call.
    fn answer(program: &BpfProgram, call: u32) -> u32 {
        let mut at = 0;
        loop {
            let step = &program[at];
            at += 1;
            let is_met = match step.code {
                LOAD => continue,
                RETURN => return step.k,
                JUMP => {
                    at += step.k as usize;
                    continue;
                }
                JUMP_EQUAL => call == step.k,
                JUMP_AT_LEAST => call >= step.k,
                other => panic!("{other:#x} is none of the steps"),
            };
            at += usize::from(if is_met { step.jt } else { step.jf });
        }
    }

    proptest::proptest! {
        #[test]
        fn exactly_the_named_calls_are_refused(
            calls in proptest::collection::btree_map(0_i64..600, 1..200_i32, 0..160),
        ) {
            let program = program(calls.clone());
            for call in 0..700_u32 {
                let expected = calls.get(&i64::from(call)).map_or(ALLOW, |errno| REFUSE | errno.cast_unsigned());
                proptest::prop_assert_eq!(answer(&program, call), expected, "{}", call);
            }
            proptest::prop_assert!(program.len() < 4096);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn no_call_of_x32_is_allowed() {
        let program = program(BTreeMap::from([(1, 1)]));
        for call in [X32, X32 + 1, u32::MAX] {
            assert_eq!(answer(&program, call), REFUSE | libc::ENOSYS.cast_unsigned());
        }
    }
}
