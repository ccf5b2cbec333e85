//! From the lines of a rollout to what a thread was when they were written. Pure: nothing is read or written here.

use std::sync::Arc;

use openoxide_model::{HistoryItem, Role, Usage};

use super::{EventRecord, RolloutItem, RolloutLine, SessionMeta, TurnContext, TurnStatusRecord};
use crate::approvals::Remembered;
use crate::thread_state::KEPT_RESULTS;
use crate::{ThreadId, TurnId, TurnResult, TurnStatus, instructions};

/// What a thread was.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(crate) meta: SessionMeta,
    /// What its last turn ran with; none where no turn began.
    pub(crate) context: Option<TurnContext>,
    pub(crate) history: Vec<Arc<HistoryItem>>,
    pub(crate) remembered: Remembered,
    /// The turns that ended last, oldest first.
    pub(crate) results: Vec<TurnResult>,
    /// Tokens of all turns.
    pub(crate) usage: Usage,
    /// A turn that began and never ended: the program was killed in it.
    pub(crate) cut_off: Option<CutOff>,
}

/// A turn that a crash has ended.
#[derive(Debug)]
pub(crate) struct CutOff {
    pub(crate) turn_id: TurnId,
    /// Index of its first item in the history.
    pub(crate) begins: usize,
}

/// Puts a thread together. None where the lines do not begin with whose they are.
pub(crate) fn restore(lines: Vec<RolloutLine>) -> Option<Restored> {
    let mut lines = lines.into_iter();
    let RolloutItem::SessionMeta(meta) = lines.next()?.item else { return None };
    let id = meta.id;
    let mut restored = Restored {
        meta,
        context: None,
        history: Vec::new(),
        remembered: Remembered::default(),
        results: Vec::new(),
        usage: Usage::default(),
        cut_off: None,
    };
    lines.for_each(|line| restored.take(id, line.item));
    Some(restored)
}

impl Restored {
    fn take(&mut self, id: ThreadId, item: RolloutItem) {
        match item {
            // A fork's file repeats nothing of the kind; a second one is another program's.
            RolloutItem::SessionMeta(_) => {}
            RolloutItem::TurnContext(context) => {
                self.cut_off = Some(CutOff { turn_id: context.turn_id, begins: self.history.len() });
                self.context = Some(context);
            }
            RolloutItem::ResponseItem(item) => self.history.push(item),
            RolloutItem::Compacted(items) => {
                self.history = items;
                if let Some(turn) = &mut self.cut_off {
                    turn.begins = self.history.len();
                }
            }
            RolloutItem::EventMsg(EventRecord::Remembered { approval }) => self.remembered.restore(approval),
            RolloutItem::EventMsg(record @ EventRecord::TurnEnded { .. }) => self.take_end(id, record),
            RolloutItem::EventMsg(EventRecord::ApprovalDecided { .. } | EventRecord::Changes { .. }) => {}
        }
    }

    fn take_end(&mut self, id: ThreadId, record: EventRecord) {
        let EventRecord::TurnEnded { turn_id, status, content, files_changed, diff, usage, duration_ms, denials } =
            record
        else {
            return;
        };
        if self.cut_off.as_ref().is_some_and(|turn| turn.turn_id == turn_id) {
            self.cut_off = None;
        }
        self.usage += usage;
        let status = match status {
            TurnStatusRecord::Completed => TurnStatus::Completed,
            TurnStatusRecord::Interrupted => TurnStatus::Interrupted,
            TurnStatusRecord::Failed => TurnStatus::Failed,
        };
        if self.results.len() == KEPT_RESULTS {
            self.results.remove(0);
        }
        let thread_usage = self.usage;
        self.results.push(TurnResult {
            thread_id: id,
            turn_id,
            status,
            content,
            files_changed,
            diff,
            usage,
            thread_usage,
            duration_ms,
            denials,
        });
    }
}

/// What stands for the end of a turn that a crash has ended: what is to be told to the model, and the result.
pub(crate) fn crash_ending(id: ThreadId, restored: &Restored, turn: &CutOff) -> (Vec<HistoryItem>, TurnResult) {
    let mut items = crate::turn::missing_outputs(&restored.history[turn.begins..]);
    let text = instructions::CRASHED_NOTE.to_owned();
    items.push(HistoryItem::Message { role: Role::User, text });
    let result = TurnResult {
        thread_id: id,
        turn_id: turn.turn_id,
        status: TurnStatus::Interrupted,
        content:
            "The turn was interrupted: the program ended while it ran. What it began may be half done; send a prompt \
                  to go on"
                .to_owned(),
        files_changed: Vec::new(),
        diff: None,
        usage: Usage::default(),
        thread_usage: restored.usage,
        duration_ms: 0,
        denials: Vec::new(),
    };
    (items, result)
}

/// The lines of a thread up to the end of a turn, or all of them; none where there is no such turn.
pub(crate) fn up_to(lines: Vec<RolloutLine>, turn: Option<TurnId>) -> Option<Vec<RolloutLine>> {
    let Some(wanted) = turn else { return Some(lines) };
    let ends = |line: &RolloutLine| matches!(&line.item, RolloutItem::EventMsg(EventRecord::TurnEnded { turn_id, .. }) if *turn_id == wanted);
    let at = lines.iter().position(ends)?;
    let mut lines = lines;
    lines.truncate(at + 1);
    Some(lines)
}

#[cfg(test)]
mod tests {
    use openoxide_sandbox::SandboxMode;

    use super::*;
    use crate::ApprovalPolicy;

    fn line(item: RolloutItem) -> RolloutLine {
        RolloutLine { timestamp: "2026-11-21T00:00:00.000Z".to_owned(), item }
    }

    fn message(role: Role, text: &str) -> RolloutLine {
        line(RolloutItem::ResponseItem(Arc::new(HistoryItem::Message { role, text: text.to_owned() })))
    }

    fn begun(turn_id: TurnId) -> RolloutLine {
        let context = TurnContext {
            directory: None,
            turn_id,
            cwd: "/w".into(),
            model: "m".into(),
            sandbox: SandboxMode::ReadOnly,
            approval_policy: ApprovalPolicy::Never,
        };
        line(RolloutItem::TurnContext(context))
    }

    fn ended(turn_id: TurnId, content: &str) -> RolloutLine {
        line(RolloutItem::EventMsg(EventRecord::TurnEnded {
            turn_id,
            status: TurnStatusRecord::Completed,
            content: content.to_owned(),
            files_changed: Vec::new(),
            diff: None,
            usage: Usage { input_tokens: 5, ..Usage::default() },
            duration_ms: 1,
            denials: Vec::new(),
        }))
    }

    fn thread() -> (Vec<RolloutLine>, [TurnId; 2]) {
        let turns = [TurnId::new(), TurnId::new()];
        let call = HistoryItem::FunctionCall { call_id: "c".into(), name: "n".into(), arguments: "{}".into() };
        let lines = vec![
            line(RolloutItem::SessionMeta(SessionMeta::sample())),
            begun(turns[0]),
            message(Role::User, "one"),
            message(Role::Assistant, "re: one"),
            ended(turns[0], "re: one"),
            begun(turns[1]),
            message(Role::User, "two"),
            line(RolloutItem::ResponseItem(Arc::new(call))),
        ];
        (lines, turns)
    }

    #[test]
    fn a_thread_comes_back_with_its_history_results_and_totals() {
        let (lines, turns) = thread();
        let restored = restore(lines[..5].to_vec()).unwrap();
        assert_eq!(restored.history.len(), 2);
        assert_eq!((restored.results.len(), restored.usage.input_tokens), (1, 5));
        assert_eq!((restored.results[0].turn_id, restored.results[0].content.as_str()), (turns[0], "re: one"));
        assert!(restored.cut_off.is_none() && restored.context.unwrap().model == "m");
    }

    #[test]
    fn a_turn_that_a_crash_ended_is_closed_with_a_note() {
        let (lines, turns) = thread();
        let restored = restore(lines).unwrap();
        let turn = restored.cut_off.as_ref().unwrap();
        assert_eq!((turn.turn_id, turn.begins), (turns[1], 2));
        let (items, result) = crash_ending(restored.meta.id, &restored, turn);
        assert!(matches!(&items[0], HistoryItem::ToolOutput { call_id, .. } if call_id == "c"));
        assert!(matches!(&items[1], HistoryItem::Message { text, .. } if instructions::is_ours(text)));
        assert_eq!(result.status, TurnStatus::Interrupted);
    }

    #[test]
    fn a_compacted_history_takes_the_place_of_the_one_before() {
        let (mut lines, _) = thread();
        let summary = Arc::new(HistoryItem::Message { role: Role::User, text: "summary".into() });
        lines.insert(7, line(RolloutItem::Compacted(vec![summary])));
        let restored = restore(lines).unwrap();
        assert_eq!((restored.history.len(), restored.cut_off.unwrap().begins), (2, 1));
    }

    #[test]
    fn lines_up_to_a_turn_are_a_fork_of_it() {
        let (lines, turns) = thread();
        assert_eq!(up_to(lines.clone(), Some(turns[0])).unwrap().len(), 5);
        assert!(up_to(lines.clone(), Some(TurnId::new())).is_none());
        assert_eq!(up_to(lines.clone(), None).unwrap().len(), lines.len());
        assert!(restore(lines[1..].to_vec()).is_none(), "without its first line it is nobody's");
    }

    #[test]
    fn every_beginning_of_a_rollout_is_a_thread() {
        let (lines, _) = thread();
        for length in 1..=lines.len() {
            let restored = restore(lines[..length].to_vec()).unwrap();
            let outputs = restored.cut_off.as_ref().map(|turn| crash_ending(restored.meta.id, &restored, turn));
            assert_eq!(outputs.is_some(), matches!(length, 2..=4 | 6..), "{length}");
        }
    }
}
