//! Bounds the bytes of pictures that a thread's history holds and each request repeats. A picture counts as it is sent, in
//! base64.
//!
//! Beyond the bound the oldest pictures give way to a line of text, down to half of it at once: the beginning of the
//! conversation, which providers have cached, changes once in a while and not with every picture. One response may add half
//! the bound ([`PictureRoom`]), so the model sees each picture at least once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use openoxide_llm::HistoryItem;

use crate::instructions;

/// PictureRoom for the pictures of one response.
#[derive(Debug)]
pub(crate) struct PictureRoom {
    free: AtomicUsize,
    max_bytes: usize,
}

impl PictureRoom {
    /// The room of a response where a thread may hold so many bytes.
    pub(crate) fn new(max_picture_bytes: usize) -> Self {
        let max_bytes = max_picture_bytes / 2;
        Self { free: AtomicUsize::new(max_bytes), max_bytes }
    }

    /// Takes room for a picture. Where there is not enough, says how much one response has.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), usize> {
        let taken = self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(bytes));
        taken.map(drop).map_err(|_| self.max_bytes)
    }
}

/// The history with text in place of its oldest pictures, where it has more than so many bytes of them.
pub(crate) fn without_oldest(history: &[Arc<HistoryItem>], max_bytes: usize) -> Option<Vec<Arc<HistoryItem>>> {
    let mut held: usize = history.iter().map(|item| bytes(item)).sum();
    if held <= max_bytes {
        return None;
    }
    let text = || HistoryItem::Note { text: instructions::PICTURE_NOTE.to_owned() };
    let shortened = history.iter().map(|item| match bytes(item) {
        0 => Arc::clone(item),
        _ if held <= max_bytes / 2 => Arc::clone(item),
        picture => {
            held -= picture;
            Arc::new(text())
        }
    });
    Some(shortened.collect())
}

fn bytes(item: &HistoryItem) -> usize {
    match item {
        HistoryItem::Image { data, .. } => data.len(),
        HistoryItem::Message { .. }
        | HistoryItem::Note { .. }
        | HistoryItem::Reasoning { .. }
        | HistoryItem::FunctionCall { .. }
        | HistoryItem::CustomToolCall { .. }
        | HistoryItem::ToolOutput { .. } => 0,
    }
}

#[cfg(test)]
mod tests {
    use openoxide_llm::Role;

    use super::*;

    fn picture(bytes: usize) -> Arc<HistoryItem> {
        Arc::new(HistoryItem::Image { media_type: "image/png".to_owned(), data: "A".repeat(bytes) })
    }

    #[test]
    fn the_oldest_give_way_down_to_half_and_then_none_until_the_bound_is_passed_again() {
        let said = Arc::new(HistoryItem::Message { role: Role::User, text: "look".to_owned(), carried: None });
        let mut history = vec![said];
        history.extend((0..10).map(|_| picture(10)));
        assert!(without_oldest(&history, 100).is_none());
        history.push(picture(10));
        let mut shorter = without_oldest(&history, 100).unwrap();
        let left = |history: &[Arc<HistoryItem>]| history.iter().map(|item| bytes(item)).collect::<Vec<_>>();
        assert_eq!(left(&shorter), [0, 0, 0, 0, 0, 0, 0, 10, 10, 10, 10, 10]);
        assert_eq!(shorter[0], history[0]);
        assert!(shorter[1..7].iter().all(|item| matches!(&**item, HistoryItem::Note { .. })));
        shorter.extend((0..5).map(|_| picture(10)));
        assert!(without_oldest(&shorter, 100).is_none());
    }

    #[test]
    fn one_response_has_half_the_room() {
        let room = PictureRoom::new(100);
        assert_eq!((room.take(30), room.take(20), room.take(1)), (Ok(()), Ok(()), Err(50)));
    }
}
