//! The options that a command may be given and still be called safe, and a reader that refuses every other one. Names are
//! matched whole: abbreviations that a program would accept are not known here.

use super::lexer::Word;

/// What may follow a program's name.
pub(super) struct Spec {
    pub(super) name: &'static str,
    /// Single letters without a value; they may be bundled.
    pub(super) flags: &'static str,
    /// Single letters with a value, in the same word or the next.
    pub(super) valued: &'static str,
    /// Long names without a value.
    pub(super) long: &'static [&'static str],
    /// Long names with a value, after `=` or in the next word; one that stands above as well may do without.
    pub(super) long_valued: &'static [&'static str],
    pub(super) operands: Operands,
}

/// What may stand beside the options.
#[derive(Clone, Copy)]
pub(super) enum Operands {
    /// Any words.
    Any,
    /// At most so many, none of them a pattern.
    AtMost(usize),
    /// Words that begin with this, none of them a pattern.
    Beginning(char),
}

/// What a command was given.
pub(super) struct Given<'a> {
    /// Long and short names as they stand, without dashes and values.
    pub(super) options: Vec<String>,
    /// Values of options.
    pub(super) values: Vec<&'a str>,
    pub(super) operands: Vec<&'a str>,
}

impl Spec {
    /// Reads the words after the name, or says which is not accepted.
    pub(super) fn read<'a>(&self, words: &'a [Word]) -> Result<Given<'a>, String> {
        let mut given = Given { options: Vec::new(), values: Vec::new(), operands: Vec::new() };
        let mut words = words.iter();
        let mut only_operands = false;
        while let Some(word) = words.next() {
            let text = word.text.as_str();
            if word.begins_with_pattern && !only_operands {
                return Err(format!("the pattern `{text}` may become an option"));
            }
            if only_operands || text == "-" || !text.starts_with('-') {
                if word.is_pattern && !matches!(self.operands, Operands::Any) {
                    return Err(format!("the pattern `{text}` may become several words"));
                }
                given.operands.push(text);
                continue;
            }
            if word.is_pattern {
                return Err(format!("the option `{text}` has a pattern in it"));
            }
            if text == "--" {
                only_operands = true;
                continue;
            }
            let mut value = || match words.next() {
                Some(word) if !word.is_pattern => Ok(word.text.as_str()),
                _ => Err(format!("the option `{text}` has no plain value")),
            };
            if let Some(long) = text.strip_prefix("--") {
                self.read_long(long, &mut value, &mut given)?;
            } else {
                self.read_bundle(&text[1..], &mut value, &mut given)?;
            }
        }
        self.check_operands(&given.operands)?;
        Ok(given)
    }

    fn read_long<'a>(
        &self,
        long: &'a str,
        next: &mut dyn FnMut() -> Result<&'a str, String>,
        given: &mut Given<'a>,
    ) -> Result<(), String> {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        let is_valued = self.long_valued.contains(&name);
        match value {
            Some(value) if is_valued => given.values.push(value),
            None if self.long.contains(&name) => {}
            None if is_valued => given.values.push(next()?),
            _ => return Err(format!("the option `--{name}` is not on the list of `{}`", self.name)),
        }
        given.options.push(name.to_owned());
        Ok(())
    }

    fn read_bundle<'a>(
        &self,
        letters: &'a str,
        next: &mut dyn FnMut() -> Result<&'a str, String>,
        given: &mut Given<'a>,
    ) -> Result<(), String> {
        // `-20`, where `#` stands on the list.
        if self.flags.contains('#') && letters.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(());
        }
        for (at, letter) in letters.char_indices() {
            if letter != '#' && self.flags.contains(letter) {
                given.options.push(letter.to_string());
            } else if self.valued.contains(letter) {
                given.options.push(letter.to_string());
                let rest = &letters[at + letter.len_utf8()..];
                given.values.push(if rest.is_empty() { next()? } else { rest });
                return Ok(());
            } else {
                return Err(format!("the option `-{letter}` is not on the list of `{}`", self.name));
            }
        }
        Ok(())
    }

    fn check_operands(&self, operands: &[&str]) -> Result<(), String> {
        match self.operands {
            Operands::Any => Ok(()),
            Operands::AtMost(most) if operands.len() > most => {
                Err(format!("`{}` takes more than {most} words for something else", self.name))
            }
            Operands::AtMost(_) => Ok(()),
            Operands::Beginning(first) => match operands.iter().find(|operand| !operand.starts_with(first)) {
                Some(operand) => Err(format!("`{}` may act on `{operand}`", self.name)),
                None => Ok(()),
            },
        }
    }
}
