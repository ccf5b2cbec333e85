//! Many threads, listed page by page to the end while they are used and deleted.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;
use std::time::Instant;

use openoxide_llm::{HistoryItem, Role};

use super::support::*;
use crate::{JsonlStore, RolloutItem, RolloutLine, SessionMeta, ThreadId, ThreadStore};

/// Writes a thread as it is after its first prompt, without the cost of a lock.
fn add(store: &JsonlStore, number: usize) -> ThreadId {
    let meta = SessionMeta::sample();
    let (id, path) = (meta.id, store.path_of(meta.id).unwrap());
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap()).unwrap();
    let prompt = HistoryItem::Message { role: Role::User, text: format!("prompt {number}"), carried: None };
    let lines = [RolloutItem::SessionMeta(meta), RolloutItem::ResponseItem(Arc::new(prompt))];
    let text: Vec<String> = lines.map(|item| crate::store::text_of(&RolloutLine::now(item))).into();
    fs::write(path, text.join("\n") + "\n").unwrap();
    id
}

/// 300 threads; in its long form (`OPENOXIDE_LONG=1`) 20,000, and it prints how long listing them to the end took.
#[tokio::test]
async fn every_thread_is_listed_once_while_threads_are_used_and_deleted() {
    #[allow(clippy::disallowed_methods, reason = "a test reads which form of it is wanted")]
    let is_long = std::env::var_os("OPENOXIDE_LONG").is_some();
    let count = if is_long { 20_000 } else { 300 };
    let home = tempfile::tempdir().unwrap();
    let bench = Bench::with(vec![], |config| config.home = Some(home.path().into()));
    let store = JsonlStore::new(home.path());
    let ids: Vec<ThreadId> = (0..count).map(|number| add(&store, number)).collect();
    let all = |between: &dyn Fn(usize)| {
        let (mut seen, mut cursor, mut pages) = (Vec::new(), None, 0);
        loop {
            let (page, next) = bench.manager.page(cursor, 100, |_| true).unwrap();
            assert!(page.len() <= 100);
            seen.extend(page.into_iter().map(|summary| (summary.id, summary.prompt)));
            pages += 1;
            between(pages);
            match next {
                Some(next) => cursor = Some(next.to_string().parse().unwrap()),
                None => return seen,
            }
        }
    };
    for what in ["the first time", "again"] {
        let begun = Instant::now();
        assert_eq!(all(&|_| {}).len(), count);
        eprintln!("{count} threads were listed to the end in {:?}, {what}", begun.elapsed());
    }
    // The one at the end of the list is used, and one in the middle goes.
    let (last, middle) = (ids[0], ids[count / 2]);
    let seen = all(&|page| {
        if page == 1 {
            store.open(last).unwrap().0.append(&RolloutItem::Compacted(Vec::new())).unwrap();
            store.delete(middle).unwrap();
        }
    });
    let distinct: HashSet<ThreadId> = seen.iter().map(|(id, _)| *id).collect();
    assert_eq!((seen.len(), distinct.len()), (count - 1, count - 1));
    assert!(distinct.contains(&last) && !distinct.contains(&middle));
    assert!(seen.iter().all(|(_, prompt)| prompt.starts_with("prompt ")));
    // What a later list begins with is what was used last.
    assert_eq!(bench.manager.summaries(1, |_| true).unwrap()[0].id, last);
    // A cursor of a list that is not known any more goes on in one of now.
    let (rest, _) = bench.manager.page(Some("99.100".parse().unwrap()), 100, |_| true).unwrap();
    assert_eq!(rest.len(), 100);
}
