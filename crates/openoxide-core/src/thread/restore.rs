//! From the lines of a rollout to what a thread was when they were written. Pure: nothing is read or written here.

use std::sync::Arc;

use openoxide_llm::{HistoryItem, Role, Usage, unbound};

use super::state::{KEPT_RESULTS, KeptResult, UNKNOWN_ITEM_IDS};
use crate::rules::approvals::Remembered;
use crate::store::{EventRecord, Patched, Prefix, RolloutItem, RolloutLine, SessionMeta, TurnContext};
use crate::tools::turn_diff::relative;
use crate::{RememberedApproval, ThreadId, TurnId, TurnResult, TurnStatus, instructions};

/// What a thread was.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(crate) meta: SessionMeta,
    /// What its last turn ran with; none where no turn began.
    pub(crate) context: Option<TurnContext>,
    pub(crate) history: Vec<Arc<HistoryItem>>,
    /// What its requests began with last; none where that was not noted.
    pub(crate) prefix: Option<Prefix>,
    pub(crate) remembered: Remembered,
    /// The same, as it was written.
    pub(crate) granted: Vec<RememberedApproval>,
    /// The turns that ended last, oldest first.
    pub(crate) results: Vec<KeptResult>,
    /// Tokens of all turns.
    pub(crate) usage: Usage,
    /// The first item id that is free: none of a turn that was read is used again.
    pub(crate) next_item_id: u64,
    /// A turn that began and never ended: the program was killed in it.
    pub(crate) cut_off: Option<CutOff>,
}

/// A turn that a crash has ended.
#[derive(Debug, Clone)]
pub(crate) struct CutOff {
    pub(crate) turn_id: TurnId,
    /// Index of its first item in the history.
    pub(crate) begins: usize,
    /// What its patches did, as far as that was read.
    patched: Patched,
    /// The diffs of those, one after the other.
    diff: String,
}

impl CutOff {
    fn new(turn_id: TurnId, begins: usize) -> Self {
        Self { turn_id, begins, patched: Patched::default(), diff: String::new() }
    }
}

/// Puts a thread together. None where the lines do not begin with whose they are.
pub(crate) fn restore(lines: Vec<RolloutLine>) -> Option<Restored> {
    let mut lines = lines.into_iter();
    let RolloutItem::SessionMeta(meta) = lines.next()?.item else { return None };
    let mut restored = Restored {
        meta,
        context: None,
        history: Vec::new(),
        prefix: None,
        remembered: Remembered::default(),
        granted: Vec::new(),
        results: Vec::new(),
        usage: Usage::default(),
        next_item_id: 1,
        cut_off: None,
    };
    lines.for_each(|line| restored.take(line.item));
    Some(restored)
}

impl Restored {
    fn take(&mut self, item: RolloutItem) {
        match item {
            // A fork's file repeats nothing of the kind; a second one is another program's.
            RolloutItem::SessionMeta(_) => {}
            RolloutItem::TurnContext(context) => {
                self.close_lost_end();
                self.cut_off = Some(CutOff::new(context.turn_id, self.history.len()));
                self.context = Some(context);
            }
            RolloutItem::ResponseItem(item) => self.history.push(item),
            RolloutItem::Compacted(items) => {
                self.history = items;
                if let Some(turn) = &mut self.cut_off {
                    turn.begins = self.history.len();
                }
            }
            RolloutItem::EventMsg(EventRecord::Remembered { approval }) => self.grant(approval),
            RolloutItem::EventMsg(record @ EventRecord::TurnEnded { .. }) => self.take_end(record),
            RolloutItem::EventMsg(EventRecord::Checkpoint { context, usage_before, remembered, results, prefix }) => {
                self.prefix = prefix.or(self.prefix.take());
                (self.usage, self.results) = (usage_before, Vec::new());
                results.into_iter().for_each(|result| self.take_end(result));
                remembered.into_iter().for_each(|approval| self.grant(approval));
                let is_over = self.results.iter().any(|kept| kept.result.turn_id == context.turn_id);
                let begins = self.history.len();
                let known = self.cut_off.take().filter(|turn| turn.turn_id == context.turn_id);
                let turn = known.unwrap_or_else(|| CutOff::new(context.turn_id, begins));
                self.cut_off = (!is_over).then_some(CutOff { begins, ..turn });
                self.context = Some(context);
            }
            RolloutItem::EventMsg(EventRecord::Patched { turn_id, files, diff, .. }) => {
                if let Some(turn) = self.cut_off.as_mut().filter(|turn| turn.turn_id == turn_id) {
                    turn.patched.add(files);
                    turn.diff.extend(diff);
                }
            }
            RolloutItem::EventMsg(EventRecord::Prefix { prefix }) => {
                self.prefix = Some(prefix);
                let begins = self.cut_off.as_ref().map_or(0, |turn| turn.begins).min(self.history.len());
                let (ended, open) = self.history.split_at(begins);
                let (mut ended, open) = (unbound(ended), unbound(open));
                if let Some(turn) = &mut self.cut_off {
                    turn.begins = ended.len();
                }
                ended.extend(open);
                self.history = ended;
            }
            RolloutItem::EventMsg(EventRecord::ApprovalDecided { .. } | EventRecord::Changes { .. }) => {}
        }
    }

    fn grant(&mut self, approval: RememberedApproval) {
        if !self.granted.contains(&approval) {
            self.granted.push(approval.clone());
            self.remembered.restore(approval);
        }
    }

    fn take_end(&mut self, record: EventRecord) {
        let Some(Ended { mut result, diff_bytes, next_item_id }) = ended(self.meta.id, record) else { return };
        // A turn that was written before ids were noted has used any below.
        let next_item_id = self.next_item_id.max(next_item_id.unwrap_or(UNKNOWN_ITEM_IDS));
        self.next_item_id = next_item_id;
        if self.cut_off.as_ref().is_some_and(|turn| turn.turn_id == result.turn_id) {
            self.cut_off = None;
        }
        self.usage += result.usage;
        result.thread_usage = self.usage;
        let kept = KeptResult::of(&result, None, Some(next_item_id));
        self.keep(KeptResult { diff_bytes: kept.diff_bytes.max(diff_bytes), ..kept });
    }

    fn keep(&mut self, result: KeptResult) {
        if self.results.len() == KEPT_RESULTS {
            self.results.remove(0);
        }
        self.results.push(result);
    }

    /// Ends a turn that has no end though another one follows: the line was lost. Its calls get outputs, and there is a
    /// result. The model is told only where the turn does not look finished.
    fn close_lost_end(&mut self) {
        let is_finished =
            matches!(self.history.last().map(|item| &**item), Some(HistoryItem::Message { role: Role::Assistant, .. }));
        let Some(begins) = self.cut_off.as_ref().map(|turn| turn.begins) else { return };
        self.close_cut_off();
        if is_finished && begins < self.history.len() {
            self.history.pop();
        }
        if let Some(kept) = self.results.last_mut() {
            Arc::make_mut(&mut kept.result).content =
                "how this turn ended is not known: its end is missing in the rollout".to_owned();
        }
    }

    /// Ends a turn that a crash has ended, if there is one: its calls get outputs, the model is told, and there is a
    /// result. Returns what is to be written for that.
    pub(crate) fn close_cut_off(&mut self) -> Vec<RolloutItem> {
        let Some(turn) = self.cut_off.take() else { return Vec::new() };
        let (items, result) = crash_ending(self.meta.id, self, &turn);
        let mut lines = Vec::with_capacity(items.len() + 1);
        for item in items {
            let item = Arc::new(item);
            lines.push(RolloutItem::ResponseItem(Arc::clone(&item)));
            self.history.push(item);
        }
        self.next_item_id += UNKNOWN_ITEM_IDS;
        let next_item_id = Some(self.next_item_id);
        lines.push(RolloutItem::EventMsg(EventRecord::turn_ended(&result).with_next_item_id(next_item_id)));
        self.keep(KeptResult::of(&result, None, next_item_id));
        lines
    }
}

/// What the record of a turn's end says.
struct Ended {
    /// Without the tokens of the thread.
    result: TurnResult,
    /// Bytes of a diff that is elsewhere.
    diff_bytes: usize,
    next_item_id: Option<u64>,
}

fn ended(id: ThreadId, record: EventRecord) -> Option<Ended> {
    let EventRecord::TurnEnded {
        turn_id,
        status,
        content,
        files_changed,
        diff,
        diff_bytes,
        usage,
        duration_ms,
        denials,
        next_item_id,
    } = record
    else {
        return None;
    };
    let result = TurnResult {
        thread_id: id,
        turn_id,
        status,
        content,
        files_changed,
        diff,
        usage,
        thread_usage: usage,
        duration_ms,
        denials,
        warnings: Vec::new(),
    };
    Some(Ended { result, diff_bytes, next_item_id })
}

/// What stands for the end of a turn that a crash has ended: what is to be told to the model, and the result.
fn crash_ending(id: ThreadId, restored: &Restored, turn: &CutOff) -> (Vec<HistoryItem>, TurnResult) {
    let begins = turn.begins.min(restored.history.len());
    let mut items = crate::turn::missing_outputs(&restored.history[begins..]);
    let root = restored.context.as_ref().map_or(&restored.meta.cwd, |context| &context.cwd);
    let text = instructions::CRASHED_NOTE.to_owned();
    items.push(HistoryItem::Note { text });
    let result = TurnResult {
        thread_id: id,
        turn_id: turn.turn_id,
        status: TurnStatus::Interrupted,
        content:
            "The turn was interrupted: the program ended while it ran. What it began may be half done; send a prompt \
                  to go on"
                .to_owned(),
        files_changed: turn.patched.changed().map(|file| relative(root, &file.path)).collect(),
        diff: (!turn.diff.is_empty()).then(|| turn.diff.clone()),
        usage: Usage::default(),
        thread_usage: restored.usage,
        duration_ms: 0,
        denials: Vec::new(),
        warnings: Vec::new(),
    };
    (items, result)
}

/// A first line for a thread that has lost its own, from the first turn; none where there is none. Its owner is not known,
/// so it is for those who may use every thread.
pub(crate) fn salvaged_meta(id: ThreadId, lines: &[RolloutLine]) -> Option<SessionMeta> {
    let context = lines.iter().find_map(|line| match &line.item {
        RolloutItem::TurnContext(context) => Some(context),
        RolloutItem::SessionMeta(_)
        | RolloutItem::ResponseItem(_)
        | RolloutItem::EventMsg(_)
        | RolloutItem::Compacted(_) => None,
    })?;
    Some(SessionMeta::bare(id, context.cwd.clone()))
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
        line(RolloutItem::ResponseItem(Arc::new(HistoryItem::Message { role, text: text.to_owned(), carried: None })))
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

    fn end_of(turn_id: TurnId, content: &str) -> RolloutLine {
        line(RolloutItem::EventMsg(EventRecord::TurnEnded {
            turn_id,
            status: TurnStatus::Completed,
            content: content.to_owned(),
            files_changed: Vec::new(),
            diff: None,
            diff_bytes: 0,
            usage: Usage { input_tokens: 5, ..Usage::default() },
            duration_ms: 1,
            denials: Vec::new(),
            next_item_id: Some(7),
        }))
    }

    fn thread() -> (Vec<RolloutLine>, [TurnId; 2]) {
        let turns = [TurnId::new(), TurnId::new()];
        let call =
            HistoryItem::FunctionCall { call_id: "c".into(), name: "n".into(), arguments: "{}".into(), carried: None };
        let lines = vec![
            line(RolloutItem::SessionMeta(SessionMeta::sample())),
            begun(turns[0]),
            message(Role::User, "one"),
            message(Role::Assistant, "re: one"),
            end_of(turns[0], "re: one"),
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
        assert_eq!(
            (restored.results[0].result.turn_id, restored.results[0].result.content.as_str()),
            (turns[0], "re: one")
        );
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
        assert!(matches!(&items[1], HistoryItem::Note { .. }));
        assert_eq!(result.status, TurnStatus::Interrupted);
    }

    #[test]
    fn a_turn_without_an_end_is_closed_when_another_begins() {
        let (mut lines, turns) = thread();
        let third = TurnId::new();
        lines.extend([begun(third), message(Role::User, "three"), end_of(third, "re: three")]);
        let restored = restore(lines.clone()).unwrap();
        let shown: Vec<bool> =
            restored.history.iter().map(|item| matches!(&**item, HistoryItem::ToolOutput { .. })).collect();
        assert_eq!(
            shown,
            [false, false, false, false, true, false, false],
            "the call has an output before what follows"
        );
        assert!(matches!(&*restored.history[5], HistoryItem::Note { .. }));
        assert!(restored.cut_off.is_none());
        let ends: Vec<_> = restored.results.iter().map(|kept| (kept.result.turn_id, kept.result.status)).collect();
        let (done, open) = (TurnStatus::Completed, TurnStatus::Interrupted);
        assert_eq!(ends, [(turns[0], done), (turns[1], open), (third, done)]);
        // A turn that was finished and has only lost its last line does not count as interrupted for the model.
        lines.remove(4);
        let restored = restore(lines).unwrap();
        assert!(matches!(&*restored.history[2], HistoryItem::Message { text, .. } if text == "two"));
    }

    #[test]
    fn a_compacted_history_takes_the_place_of_the_one_before() {
        let (mut lines, _) = thread();
        let summary = Arc::new(HistoryItem::Message { role: Role::User, text: "summary".into(), carried: None });
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
            let mut restored = restored;
            assert_eq!(restored.close_cut_off().is_empty(), !matches!(length, 2..=4 | 6..), "{length}");
        }
    }

    #[test]
    fn what_is_bound_to_another_beginning_is_left_out_from_where_the_new_one_stands() {
        let reasoning = |seal: &str| {
            let raw = serde_json::json!({ "type": "thinking", "thinking": "", "signature": seal });
            line(RolloutItem::ResponseItem(Arc::new(HistoryItem::Reasoning { summary: String::new(), raw })))
        };
        let begins = |digest: &str| {
            let prefix = Prefix { digest: digest.to_owned(), version: "0".to_owned() };
            line(RolloutItem::EventMsg(EventRecord::Prefix { prefix }))
        };
        let (mut lines, _) = thread();
        lines.insert(2, begins("old"));
        lines.insert(4, reasoning("first"));
        let third = TurnId::new();
        let restored = restore(lines.clone()).unwrap();
        assert_eq!((restored.history.len(), restored.prefix.unwrap().digest.as_str()), (5, "old"));
        lines.extend([end_of(lines_turn(&lines), "two"), begun(third), begins("new"), message(Role::User, "three")]);
        lines.extend([reasoning("second"), message(Role::Assistant, "re: three")]);
        let restored = restore(lines).unwrap();
        let seals: Vec<_> = restored
            .history
            .iter()
            .filter_map(|item| match &**item {
                HistoryItem::Reasoning { raw, .. } => raw["signature"].as_str(),
                _ => None,
            })
            .collect();
        assert_eq!(seals, ["second"]);
        let turn = restored.cut_off.unwrap();
        assert!(matches!(&*restored.history[turn.begins], HistoryItem::Message { text, .. } if text == "three"));
        assert_eq!(restored.prefix.unwrap().digest, "new");
    }

    /// The turn that began last.
    fn lines_turn(lines: &[RolloutLine]) -> TurnId {
        let turn = |line: &RolloutLine| match &line.item {
            RolloutItem::TurnContext(context) => Some(context.turn_id),
            _ => None,
        };
        lines.iter().rev().find_map(turn).unwrap()
    }
}
