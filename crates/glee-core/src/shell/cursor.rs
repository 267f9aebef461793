//! A place in a text that is being read.

pub(super) struct Cursor<'t> {
    text: &'t str,
    at: usize,
    /// Whether a gap in this text is one, and not just that character.
    pub(super) gaps: bool,
    /// The end of a line whose here-documents were read, and where the text goes on after them.
    jump: Option<(usize, usize)>,
}

/// A place to come back to.
pub(super) struct Mark {
    at: usize,
    jump: Option<(usize, usize)>,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t str) -> Cursor<'t> {
        Cursor {
            text,
            at: 0,
            gaps: false,
            jump: None,
        }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            at: self.at,
            jump: self.jump,
        }
    }

    /// Whether a here-document was read since.
    pub(super) fn has_jumped(&self, since: &Mark) -> bool {
        self.jump != since.jump
    }

    pub(super) fn go_back(&mut self, to: Mark) {
        self.at = to.at;
        self.jump = to.jump;
    }

    pub(super) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    pub(super) fn is_over(&self) -> bool {
        self.at == self.text.len()
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    pub(super) fn starts(&self, with: &str) -> bool {
        self.rest().starts_with(with)
    }

    pub(super) fn eat(&mut self, text: &str) -> bool {
        let found = self.starts(text);
        if found {
            self.at += text.len();
        }
        found
    }

    pub(super) fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let length = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Up to `end`, which is taken too.
    pub(super) fn take_until(&mut self, end: char) -> Option<&'t str> {
        let rest = self.rest();
        let length = rest.find(end)?;
        self.at += length + end.len_utf8();
        Some(&rest[..length])
    }

    /// The end of a line, and the here-documents after it.
    pub(super) fn eat_newline(&mut self) -> bool {
        match self.jump {
            Some((end, after)) if self.at == end => {
                self.at = after;
                self.jump = None;
                true
            }
            _ => self.eat("\n"),
        }
    }

    /// Whether quotes went over the end of a line whose here-documents were read: then they were
    /// read too early, and what stands in them is not what it seemed.
    pub(super) fn went_astray(&self) -> bool {
        self.jump.is_some_and(|(end, _)| self.at > end)
    }

    /// The lines of a here-document, which begin after the current line. The cursor stays.
    pub(super) fn here_document(&mut self, end: &str, indented: bool) -> String {
        let (line_end, mut at) = match self.jump {
            Some(jump) => jump,
            None => {
                let line_end = self.line_end();
                (line_end, (line_end + 1).min(self.text.len()))
            }
        };
        let mut body = String::new();
        while at < self.text.len() {
            let rest = &self.text[at..];
            let line = rest.split('\n').next().unwrap_or_default();
            at = (at + line.len() + 1).min(self.text.len());
            let line = match indented {
                true => line.trim_start_matches('\t'),
                false => line,
            };
            if line.trim_end_matches('\r') == end {
                break;
            }
            body.push_str(line);
            body.push('\n');
        }
        self.jump = Some((line_end, at));
        body
    }

    /// Where the current line ends; a line that is continued does not.
    fn line_end(&self) -> usize {
        let mut newlines = self.rest().match_indices('\n').map(|(at, _)| self.at + at);
        newlines
            .find(|at| !self.text[..*at].ends_with('\\'))
            .unwrap_or(self.text.len())
    }

    /// Blanks, continued lines and a comment.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            self.take_while(|c| c == ' ' || c == '\t' || c == '\r');
            if self.eat("\\\n") || self.eat("\\\r\n") {
                continue;
            }
            if self.peek() == Some('#') {
                self.take_while(|c| c != '\n');
            }
            return;
        }
    }

    /// The unquoted word that stands here, if it is a plain one.
    pub(super) fn peek_word(&self) -> &'t str {
        let rest = self.rest();
        let length = rest.find(is_meta).unwrap_or(rest.len());
        &rest[..length]
    }
}

/// Whether a word ends before this.
pub(super) fn is_meta(c: char) -> bool {
    matches!(
        c,
        ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')'
    )
}
