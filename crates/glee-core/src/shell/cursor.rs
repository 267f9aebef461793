//! A place in a text that is being read.

pub(super) struct Cursor<'t> {
    text: &'t str,
    at: usize,
    /// Whether a gap in this text is one, and not just that character.
    pub(super) gaps: bool,
    /// The end of a line whose here-documents were read, and where the text goes on after them.
    jump: Option<(usize, usize)>,
    /// Whether a line ended before it should have, by where its here-documents were read.
    astray: bool,
    /// Whether something was read that shells differ in up to the end of the text.
    differs: bool,
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
            astray: false,
            differs: false,
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

    /// What was read since.
    pub(super) fn since(&self, at: usize) -> &'t str {
        &self.text[at..self.at]
    }

    /// Whether nothing of this kind was read before: the first one tells for all that follow.
    pub(super) fn is_first_difference(&mut self) -> bool {
        !std::mem::replace(&mut self.differs, true)
    }

    /// The end of the line, when here-documents wait there.
    pub(super) fn awaited(&self) -> Option<usize> {
        self.jump.map(|it| it.0).filter(|end| self.at <= *end)
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

    pub(super) fn take(&mut self, bytes: usize) {
        self.at += bytes;
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
            Some((end, _)) if self.at < end && self.starts("\n") => {
                self.astray = true;
                self.eat("\n")
            }
            _ => self.eat("\n"),
        }
    }

    /// Whether a line with here-documents did not end where they were read: then they were read too
    /// early or too late, and what stands in them is not what it seemed.
    pub(super) fn went_astray(&self) -> bool {
        self.astray || self.jump.is_some_and(|(end, _)| self.at > end)
    }

    /// The lines of a here-document, which begin after the current line. The cursor stays. Unless it
    /// is literal, continued lines are one.
    pub(super) fn here_document(&mut self, end: &str, indented: bool, literal: bool) -> String {
        let (line_end, mut at) = match self.jump {
            Some(jump) => jump,
            None => {
                let line_end = self.line_end();
                (line_end, (line_end + 1).min(self.text.len()))
            }
        };
        let mut body = String::new();
        let mut begun = 0;
        let mut goes_on = false;
        while at < self.text.len() {
            let rest = &self.text[at..];
            let line = rest.split('\n').next().unwrap_or_default();
            at = (at + line.len() + 1).min(self.text.len());
            body.push_str(match indented && !goes_on {
                true => line.trim_start_matches('\t'),
                false => line,
            });
            let backslashes = line.len() - line.trim_end_matches('\\').len();
            goes_on = !literal && backslashes % 2 == 1;
            if goes_on {
                body.pop();
                continue;
            }
            if body[begun..] == *end {
                body.truncate(begun);
                break;
            }
            body.push('\n');
            begun = body.len();
        }
        self.jump = Some((line_end, at));
        body
    }

    /// Where the current line ends: not in quotes, and not where it is continued.
    fn line_end(&self) -> usize {
        let mut chars = self.rest().char_indices();
        let mut quote = None;
        let mut before = ' ';
        while let Some((at, c)) = chars.next() {
            match (c, quote) {
                ('\\', None | Some('"')) => {
                    chars.next();
                }
                (c, Some(open)) => quote = (c != open).then_some(open),
                ('\'' | '"', None) => quote = Some(c),
                ('\n', None) => return self.at + at,
                ('#', None) if is_meta(before) => {
                    let comment = &self.rest()[at..];
                    return self.at + at + comment.find('\n').unwrap_or(comment.len());
                }
                _ => {}
            }
            before = c;
        }
        self.text.len()
    }

    /// Blanks, continued lines and a comment.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            self.take_while(|c| c == ' ' || c == '\t');
            if self.eat("\\\n") {
                continue;
            }
            if self.starts("\r\n") {
                self.eat("\r");
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
        match rest[length..].starts_with('\n') {
            true => rest[..length].trim_end_matches('\r'),
            false => &rest[..length],
        }
    }
}

/// Whether a word ends before this.
pub(super) fn is_meta(c: char) -> bool {
    matches!(
        c,
        ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')'
    )
}
