//! The standing instructions every thread begins with, unless its caller brings others.

/// The built-in base instructions for a model that changes files by patches.
pub(crate) const FOR_PATCHES: &str = concat!(
    include_str!("instructions/begin.md"),
    include_str!("instructions/patch.md"),
    include_str!("instructions/end.md")
);

/// The same for one that does it by edits.
pub(crate) const FOR_EDITS: &str = concat!(
    include_str!("instructions/begin.md"),
    include_str!("instructions/edit.md"),
    include_str!("instructions/end.md")
);

/// What a thread with reading tools only is told on top.
pub(crate) const READ_ONLY: &str = "This thread answers a question. Its tools read and change nothing; commands, where \
     there are any, run in a sandbox that cannot write. So do not announce changes: find the answer in the files and give it, with the places \
     (`path:line`) it rests on.";

/// What is noted in the history of an interrupted turn, so that the model does not take it for finished. `why` is the
/// sentence that the caller reads as well.
pub(crate) fn interrupted_note(why: &str) -> String {
    format!(
        "<turn_interrupted>\n{why} What it began may be half done: look before building on it.\n</turn_interrupted>"
    )
}

/// What is noted in the history of a turn that a crash has ended.
pub(crate) const CRASHED_NOTE: &str = "<turn_interrupted>\nThe program ended while the turn before this ran. What it began may be \
     half done, and its commands were ended: look before building on it.\n</turn_interrupted>";

/// What is noted in the history where the thread's directory was made anew since its last turn.
pub(crate) const REMADE_NOTE: &str = "<directory_remade>\nThe thread's directory was removed and made anew since the turn \
     before this. What was read of it may not hold any more: look again before building on it.\n</directory_remade>";

/// What a model is told whose response was cut off at its length limit.
pub(crate) const CUT_NOTE: &str = "<response_cut_off>\nYour last response reached the most that one may hold and was cut off there. What it \
     was about to call was not called. Go on where it stopped, in shorter steps.\n</response_cut_off>";

/// What a model is told whose response was empty.
pub(crate) const EMPTY_NOTE: &str =
    "<empty_response>\nYour last response was empty. Go on with the task, or say how it ended.\n</empty_response>";

/// What is told of a turn whose model said nothing at all.
pub(crate) const EMPTY_ANSWER: &str = "the model ended its turn without an answer, also when it was asked again; what it did stands, and \
     `continue` goes on from here";

/// What stands in the history for a picture that was given up.
pub(crate) const PICTURE_NOTE: &str = "<picture_removed>\nA picture stood here. It was removed since the conversation has too \
     many bytes of pictures; look at its file again where it is needed.\n</picture_removed>";

/// How the note begins that a thread goes on in another directory.
const MOVED_BEGIN: &str = "<directory_changed>\n";

/// What is noted in the history of a thread that was forked to another directory.
pub(crate) fn moved_note(to: &std::path::Path) -> String {
    format!(
        "{MOVED_BEGIN}The thread goes on in another directory from here on: {}\nWhat was read elsewhere may not hold there: \
         look before building on it.\n</directory_changed>",
        openoxide_display::quote_path(to)
    )
}

/// How the note begins that changes were taken back.
const UNDONE_BEGIN: &str = "<changes_undone>\n";

/// What is noted in the history when the changes of a turn were taken back.
pub(crate) fn undone_note(files: &[std::path::PathBuf]) -> String {
    let files: Vec<String> = files.iter().map(|file| format!("- {}", openoxide_display::quote_path(file))).collect();
    format!(
        "{UNDONE_BEGIN}The person took back what a turn before this had changed in these files; they are as they were \
         before it:\n{}\n</changes_undone>",
        files.join("\n")
    )
}

/// What stands in for the output of a call that a turn's end cut off.
pub(crate) const CUT_OFF_OUTPUT: &str =
    "The turn ended before this call did. It may have been done in part, or not at all.";

/// What a summary is asked for with, unless configuration says otherwise.
pub(crate) const COMPACT_PROMPT: &str = "The conversation is about to be shortened: you will be given only what the \
     person said and the summary that you write now. Write it for yourself, so that you can go on without asking again. Say \
     what is to be reached and under which conditions, what has been done and where (paths, names, commands and their \
     outcome), what was decided and why, what was tried and failed, and what comes next. Call no tool. Answer with the \
     summary alone.";

/// How the message begins that carries a summary.
const SUMMARY_BEGIN: &str = "<compacted_conversation>\n";

/// The message that carries a summary, and behind it what the thread itself knows.
pub(crate) fn summary_message(summary: &str, standing: &str) -> String {
    format!(
        "{SUMMARY_BEGIN}The conversation so far was shortened to save room. Above is what the person said; this is your own \
         summary of what was done. Files may have changed since: look before building on it.\n\n{}{standing}\n</compacted_conversation>",
        summary.trim()
    )
}

/// Whether a message of the user's role has the shape of a note, from its beginning to its end. Only the first format of
/// rollouts has to ask: a person may write such a thing as well.
pub(crate) fn has_the_shape_of_a_note(text: &str) -> bool {
    let has_documents = text.starts_with("# AGENTS.md instructions for ") && text.contains("\n\n<INSTRUCTIONS>\n");
    has_documents
        || [SUMMARY_BEGIN, UNDONE_BEGIN, MOVED_BEGIN]
            .into_iter()
            .chain(["<environment_context>\n", "<turn_interrupted>\n", "<directory_remade>\n", "<picture_removed>\n"])
            .any(|begin| {
                let end = format!("\n</{}", begin.trim_start_matches('<').trim_end());
                text.starts_with(begin) && text.trim_end().ends_with(&end)
            })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_begins_as_a_note_is_none() {
        let to = std::path::Path::new("/w");
        for note in [
            summary_message("s", ""),
            undone_note(&["a".into()]),
            moved_note(to),
            interrupted_note("why"),
            CRASHED_NOTE.to_owned(),
            REMADE_NOTE.to_owned(),
            PICTURE_NOTE.to_owned(),
            "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>".to_owned(),
            "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nuse tabs\n</INSTRUCTIONS>".to_owned(),
        ] {
            assert!(has_the_shape_of_a_note(&note), "{note}");
        }
        for said in ["# AGENTS.md instructions for fun: go", "<environment_context> second", "<turn_interrupted>\nwhy?"]
        {
            assert!(!has_the_shape_of_a_note(said), "{said}");
        }
    }

    #[test]
    fn the_standing_text_stays_short() {
        for base in [FOR_PATCHES, FOR_EDITS] {
            assert!(base.len() + READ_ONLY.len() < 7_500, "{}", base.len() + READ_ONLY.len());
        }
    }

    #[test]
    fn a_model_is_told_of_its_own_way_to_change_files_alone() {
        assert!(FOR_PATCHES.contains("*** Begin Patch") && !FOR_PATCHES.contains("`write_file`"));
        assert!(FOR_EDITS.contains("`write_file`") && !FOR_EDITS.contains("apply_patch"));
    }
}
