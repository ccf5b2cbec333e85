//! Puts the chunks of one update beside each other: which arrangements there are, and whether they give one result.
//!
//! Chunks come in the order of the file as a rule, and that alone decides nothing: where another order fits as well and
//! gives another text, the patch is unclear. Where no order fits, chunks may match more loosely, or share the lines that
//! all of them keep. Arrangements that give the same text are one.

use crate::patch::{ChunkLine, LineTag};

/// Arrangements that are compared by their results before a chunk counts as unclear.
const MOST_ARRANGEMENTS: usize = 48;
/// Steps of a search through arrangements. Beyond it the patch counts as unclear.
const MOST_STEPS: usize = 20_000;
/// Lines of the file times arrangements that may be compared.
const MOST_LINES: usize = 2_000_000;

/// What is known of one chunk's place.
pub(crate) struct Places<'a> {
    /// Where its strictest reading stands, ascending; never empty.
    pub(crate) strict: &'a [usize],
    /// Its lines.
    pub(crate) lines: &'a [ChunkLine],
}

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrangement {
    /// The start of each chunk.
    One(Vec<usize>),
    /// The results differ; the first chunk that has more than one place in them, and its places.
    Several(usize, Vec<usize>),
    /// The chunks cannot stand together; the first that finds no room.
    None(usize),
}

/// Arranges the chunks. `loose` finds where the loosest reading of each stands, which includes the strictest; `result` says
/// what an arrangement makes of the file.
pub(crate) fn arrange(
    sets: &[Places<'_>],
    loose: &mut dyn FnMut() -> Vec<Vec<usize>>,
    file_lines: usize,
    result: &dyn Fn(&[usize]) -> Option<String>,
) -> Arrangement {
    let solver = Solver { spans: sets.iter().map(|set| Span::of(set.lines)).collect(), file_lines, result };
    let strict: Vec<&[usize]> = sets.iter().map(|set| set.strict).collect();
    let blocked = match solver.bounds(&strict) {
        Ok(options) => {
            // Chunks in another order are as easily written as chunks that do not say enough about their place.
            return match solver.ordered(&options) {
                Arrangement::One(one) => match solver.search(&strict, Overlap::No) {
                    Found::None => Arrangement::One(one),
                    found => solver.compare(found, &strict),
                },
                other => other,
            };
        }
        Err(blocked) => blocked,
    };
    let loose = loose();
    let loose: Vec<&[usize]> = loose.iter().map(Vec::as_slice).collect();
    let in_order = solver.bounds(&loose).map(|options| solver.ordered(&options));
    let any_order = solver.search(&strict, Overlap::No);
    match (in_order, any_order) {
        (Ok(one), Found::None) => one,
        (Err(_), Found::None) => match solver.search(&strict, Overlap::Kept) {
            Found::None => Arrangement::None(blocked),
            found => solver.compare(found, &strict),
        },
        (Err(_), found) => solver.compare(found, &strict),
        // Strict in another order, or loose in this one: either may be meant.
        (Ok(_), _) => solver.unclear(&loose, blocked),
    }
}

/// Whether chunks may share lines that all of them keep.
#[derive(Clone, Copy, PartialEq)]
enum Overlap {
    No,
    Kept,
}

enum Found {
    None,
    All(Vec<Vec<usize>>),
    TooMany,
}

/// What a chunk does to the lines from its start on.
struct Span {
    /// For each line that must be there, whether it stays.
    stays: Vec<bool>,
    /// Before which of them, counted from the start, lines are put in.
    inserts: Vec<usize>,
}

impl Span {
    fn of(lines: &[ChunkLine]) -> Self {
        let (mut stays, mut inserts) = (Vec::new(), Vec::new());
        for line in lines {
            match line.tag {
                LineTag::Context => stays.push(true),
                LineTag::Remove => stays.push(false),
                LineTag::Add => inserts.push(stays.len()),
            }
        }
        inserts.dedup();
        Self { stays, inserts }
    }

    /// Whether two chunks can stand at these places.
    fn agrees(&self, at: usize, other: &Self, there: usize, overlap: Overlap) -> bool {
        let (end, other_end) = (at + self.stays.len(), there + other.stays.len());
        if end <= there || other_end <= at {
            // Two that insert before the same line would need an order.
            let same = self.inserts.iter().any(|i| other.inserts.iter().any(|j| at + i == there + j));
            return !(same && at == there);
        }
        if overlap == Overlap::No {
            return false;
        }
        let shared = at.max(there)..end.min(other_end);
        let kept = shared.clone().all(|line| self.stays[line - at] && other.stays[line - there]);
        let apart = |i: &usize| !other.inserts.iter().any(|j| at + i == there + j);
        kept && self.inserts.iter().all(apart)
    }
}

struct Solver<'a> {
    spans: Vec<Span>,
    file_lines: usize,
    result: &'a dyn Fn(&[usize]) -> Option<String>,
}

impl Solver<'_> {
    /// For each chunk the places at which it can stand when all are in order; else the first that finds no room.
    fn bounds(&self, sets: &[&[usize]]) -> Result<Vec<Vec<usize>>, usize> {
        let mut earliest = Vec::with_capacity(sets.len());
        let mut free = 0;
        for (index, set) in sets.iter().enumerate() {
            let start = *set.get(set.partition_point(|place| *place < free)).ok_or(index)?;
            earliest.push(start);
            free = start + self.spans[index].stays.len();
        }
        let mut options = vec![Vec::new(); sets.len()];
        let mut limit = usize::MAX;
        for (index, set) in sets.iter().enumerate().rev() {
            let len = self.spans[index].stays.len();
            let from = set.partition_point(|place| *place < earliest[index]);
            let to = set.partition_point(|place| place.saturating_add(len) <= limit);
            options[index] = set[from..to].to_vec();
            limit = *options[index].last().ok_or(index)?;
        }
        Ok(options)
    }

    fn ordered(&self, options: &[Vec<usize>]) -> Arrangement {
        if options.iter().all(|places| places.len() == 1) {
            return Arrangement::One(options.concat());
        }
        let sets: Vec<&[usize]> = options.iter().map(Vec::as_slice).collect();
        let mut all = Vec::new();
        let mut steps = 0;
        let complete = self.walk(&sets, &mut Vec::new(), &mut all, &mut steps, &|solver, chosen, place| {
            let last = chosen.last().map_or(0, |last| last + solver.spans[chosen.len() - 1].stays.len());
            place >= last
        });
        self.compare(if complete { Found::All(all) } else { Found::TooMany }, &sets)
    }

    /// All arrangements in any order.
    fn search(&self, sets: &[&[usize]], overlap: Overlap) -> Found {
        let mut all = Vec::new();
        let mut steps = 0;
        let complete = self.walk(sets, &mut Vec::new(), &mut all, &mut steps, &|solver, chosen, place| {
            let span = &solver.spans[chosen.len()];
            chosen.iter().zip(&solver.spans).all(|(there, other)| span.agrees(place, other, *there, overlap))
        });
        match (complete, all.is_empty()) {
            (true, true) => Found::None,
            (true, false) => Found::All(all),
            (false, _) => Found::TooMany,
        }
    }

    /// Collects arrangements, chunk by chunk; false when there are too many to tell.
    fn walk(
        &self,
        sets: &[&[usize]],
        chosen: &mut Vec<usize>,
        all: &mut Vec<Vec<usize>>,
        steps: &mut usize,
        fits: &dyn Fn(&Self, &[usize], usize) -> bool,
    ) -> bool {
        let Some(set) = sets.get(chosen.len()) else {
            all.push(chosen.clone());
            return all.len() <= MOST_ARRANGEMENTS;
        };
        for place in *set {
            *steps += 1;
            if *steps > MOST_STEPS {
                return false;
            }
            if fits(self, chosen, *place) {
                chosen.push(*place);
                let complete = self.walk(sets, chosen, all, steps, fits);
                chosen.pop();
                if !complete {
                    return false;
                }
            }
        }
        true
    }

    /// One arrangement, where all give the same text.
    fn compare(&self, found: Found, sets: &[&[usize]]) -> Arrangement {
        let unclear = |sets| self.unclear(sets, 0);
        let Found::All(mut all) = found else { return unclear(sets) };
        if all.len() == 1 {
            return Arrangement::One(all.remove(0));
        }
        let columns: Vec<Vec<usize>> = (0..sets.len())
            .map(|chunk| {
                let mut places: Vec<usize> = all.iter().map(|chosen| chosen[chunk]).collect();
                places.sort_unstable();
                places.dedup();
                places
            })
            .collect();
        let columns: Vec<&[usize]> = columns.iter().map(Vec::as_slice).collect();
        if self.file_lines.saturating_mul(all.len()) > MOST_LINES {
            return unclear(&columns);
        }
        let first = (self.result)(&all[0]);
        let same = first.is_some() && all[1..].iter().all(|chosen| (self.result)(chosen) == first);
        if same { Arrangement::One(all.remove(0)) } else { unclear(&columns) }
    }

    fn unclear(&self, sets: &[&[usize]], fallback: usize) -> Arrangement {
        let index = sets.iter().position(|places| places.len() > 1).unwrap_or(fallback);
        Arrangement::Several(index, sets[index].to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arranged(sets: &[(&[usize], &str)]) -> Arrangement {
        let line = |tag: char| ChunkLine {
            tag: match tag {
                '-' => LineTag::Remove,
                '+' => LineTag::Add,
                _ => LineTag::Context,
            },
            text: String::new(),
            bare: false,
        };
        let lines: Vec<Vec<ChunkLine>> = sets.iter().map(|(_, tags)| tags.chars().map(line).collect()).collect();
        let sets: Vec<Places<'_>> =
            sets.iter().zip(&lines).map(|((places, _), lines)| Places { strict: places, lines }).collect();
        let mut loose = || sets.iter().map(|set| set.strict.to_vec()).collect();
        arrange(&sets, &mut loose, 100, &|chosen| {
            let mut chosen = chosen.to_vec();
            chosen.sort_unstable();
            Some(format!("{chosen:?}"))
        })
    }

    #[test]
    fn the_order_alone_decides_nothing() {
        assert_eq!(arranged(&[(&[3, 70], "-"), (&[50], "-")]), Arrangement::Several(0, vec![3, 70]));
        assert_eq!(arranged(&[(&[3, 70], "-"), (&[3], "-")]), Arrangement::One(vec![70, 3]));
        assert_eq!(arranged(&[(&[3, 70], "-"), (&[3, 70], "-")]), Arrangement::One(vec![3, 70]), "either way the same");
        assert_eq!(arranged(&[(&[3, 9, 70], "-"), (&[3, 9, 70], "-")]), Arrangement::Several(0, vec![3, 9]));
    }

    #[test]
    fn another_order_and_shared_context_come_after_that() {
        assert_eq!(arranged(&[(&[50], "-"), (&[3], "-")]), Arrangement::One(vec![50, 3]));
        assert_eq!(arranged(&[(&[50], "-"), (&[3, 9], "-")]), Arrangement::Several(1, vec![3, 9]));
        assert_eq!(arranged(&[(&[3], " - "), (&[5], " - ")]), Arrangement::One(vec![3, 5]));
        assert_eq!(arranged(&[(&[3], " - "), (&[4], " - ")]), Arrangement::None(1));
        assert_eq!(arranged(&[(&[3], "-"), (&[3], "-")]), Arrangement::None(1));
    }
}
