//! A thread as one page for a browser: no script, nothing to fetch, everything escaped.

use std::fmt::Write as _;

use openoxide_core::{Transcript, TranscriptEntry};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1d1d1f;\
    background:#fff}pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f5f5f7;padding:.6rem;border-radius:6px;\
    font:13px/1.45 ui-monospace,monospace;margin:.3rem 0}.person{border-left:4px solid #2563eb;padding-left:.8rem}\
    .agent{border-left:4px solid #16a34a;padding-left:.8rem}.note{color:#6b7280}.add{color:#15803d}.del{color:#b91c1c}\
    .hunk{color:#7c3aed}section{margin:1.1rem 0}summary{cursor:pointer}\
    @media(prefers-color-scheme:dark){body{background:#111;color:#e5e5e5}pre{background:#1e1e1e}.add{color:#4ade80}\
    .del{color:#f87171}.hunk{color:#c4b5fd}.note{color:#9ca3af}}";

/// The page.
pub(super) fn render(transcript: &Transcript) -> String {
    let Transcript { id, cwd, model, began, owner, entries } = transcript;
    let owner = owner.as_ref().map(|owner| format!(", of {owner}")).unwrap_or_default();
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Thread {id}</title><style>{STYLE}</style></head>\n\
         <body><h1>Thread {id}</h1>\n<p class=\"note\">{} in {}, since {}{}</p>\n",
        escape(model),
        escape(cwd),
        escape(began),
        escape(&owner),
        id = escape(id),
    );
    for entry in entries {
        section(&mut html, entry);
    }
    html.push_str("</body></html>\n");
    html
}

fn section(html: &mut String, entry: &TranscriptEntry) {
    html.push_str("<section>");
    // Writing to a string does not fail.
    let _ = match entry {
        TranscriptEntry::Person(text) => write!(html, "<div class=\"person\"><pre>{}</pre></div>", escape(text)),
        TranscriptEntry::Agent(text) => write!(html, "<div class=\"agent\"><pre>{}</pre></div>", escape(text)),
        TranscriptEntry::Reasoning(text) => {
            write!(html, "<details class=\"note\"><summary>thinking</summary><pre>{}</pre></details>", escape(text))
        }
        TranscriptEntry::Call { name, input, output } => {
            let shown = if name == "apply_patch" { coloured(input) } else { escape(input) };
            let output = output.as_deref().unwrap_or("[no output]");
            write!(
                html,
                "<strong>{}</strong><pre>{shown}</pre><details><summary>output, {} lines</summary><pre>{}</pre></details>",
                escape(name),
                output.lines().count(),
                escape(output)
            )
        }
        TranscriptEntry::Picture => write!(html, "<p class=\"note\">a picture</p>"),
        TranscriptEntry::Approval { what, decision } => {
            write!(html, "<p>asked: <code>{}</code>: <strong>{}</strong></p>", escape(what), escape(decision))
        }
        TranscriptEntry::Compacted => write!(html, "<p class=\"note\">what the model knows was shortened here</p>"),
        TranscriptEntry::End { turn, status, diff, tokens } => {
            if let Some(diff) = diff {
                let _ = write!(html, "<pre>{}</pre>", coloured(diff));
            }
            write!(html, "<p class=\"note\">turn {}: {status}, {tokens} tokens</p><hr>", escape(turn))
        }
        _ => write!(html, "<p class=\"note\">something that this page cannot show</p>"),
    };
    html.push_str("</section>\n");
}

/// A diff or a patch, each line in the colour of what it does.
fn coloured(text: &str) -> String {
    let mut html = String::with_capacity(text.len() * 2);
    for line in text.lines() {
        let class = match line.as_bytes() {
            [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => "note",
            [b'+', ..] => "add",
            [b'-', ..] => "del",
            [b'@', b'@', ..] | [b'*', b'*', b'*', ..] => "hunk",
            _ => "",
        };
        let _ = writeln!(html, "<span class=\"{class}\">{}</span>", escape(line));
    }
    html
}

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Control characters mean nothing in a page, and right-to-left marks turn around what a command says.
            '\n' | '\t' => safe.push(c),
            c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {
                let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
            }
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_was_said_becomes_markup() {
        let evil = "<script>alert(1)</script>\"'&\u{202e}\u{7}";
        let transcript = Transcript {
            id: evil.into(),
            cwd: evil.into(),
            model: evil.into(),
            began: evil.into(),
            owner: Some(evil.into()),
            entries: vec![
                TranscriptEntry::Person(evil.into()),
                TranscriptEntry::Agent(evil.into()),
                TranscriptEntry::Reasoning(evil.into()),
                TranscriptEntry::Call { name: evil.into(), input: evil.into(), output: Some(evil.into()) },
                TranscriptEntry::Call { name: "apply_patch".into(), input: format!("+{evil}"), output: None },
                TranscriptEntry::Picture,
                TranscriptEntry::Approval { what: evil.into(), decision: evil.into() },
                TranscriptEntry::Compacted,
                TranscriptEntry::End { turn: evil.into(), status: "failed", diff: Some(format!("-{evil}")), tokens: 1 },
            ],
        };
        let page = render(&transcript);
        assert!(!page.contains("<script") && !page.contains('\u{202e}') && !page.contains('\u{7}'), "{page}");
        assert_eq!(page.matches("&lt;script&gt;").count(), 17);
        assert!(page.contains("default-src 'none'"));
        assert!(page.contains("<span class=\"add\">+&lt;script"));
    }
}
