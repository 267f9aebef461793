//! Rules that a project writes for itself.

mod fit;

use serde_json::{Map, Value};

use super::condition::{ArgumentTest, Condition};
use super::reach::Reach;
use crate::glob;
use crate::host::HostPattern;
use crate::name;
use crate::policy::{Case, Decision, Rule};
use crate::port::Anywhere;
use crate::shell::Script;
use crate::slug;

use fit::{Pattern, Seen, address, begins, surely_begins, told};

/// A rule as it was written.
#[derive(Clone, Debug, Default)]
pub struct Written {
    pub name: String,
    /// Names or patterns; empty for every tool.
    pub tools: Vec<String>,
    pub forbidden_patterns: Vec<String>,
    pub prefix: Option<Vec<String>>,
    pub arguments: Vec<(String, ArgumentTest)>,
    pub host: Option<String>,
    pub path_below: Option<String>,
    pub ruling: Option<Ruling>,
    pub reason: Option<String>,
    pub matching: Vec<Example>,
    pub not_matching: Vec<Example>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    Allow,
    Ask,
    Deny,
}

/// A call that a rule is tried on.
#[derive(Clone, Debug)]
pub enum Example {
    Line(String),
    Arguments(Map<String, Value>),
}

/// What is wrong with a rule, and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// From the rule.
    pub pointer: String,
    pub message: String,
}

/// A rule that can be used. Everything in it is compiled.
#[derive(Debug)]
pub struct CustomRule {
    name: String,
    about: String,
    tools: Vec<String>,
    patterns: Vec<Pattern>,
    prefix: Option<Vec<String>>,
    arguments: Condition,
    host: Option<HostPattern>,
    path_below: Option<String>,
    ruling: Ruling,
    reason: Option<String>,
}

impl CustomRule {
    /// Compiles a rule and tries it on its examples; gives everything that is wrong with it.
    pub fn new(written: Written) -> Result<CustomRule, Vec<Flaw>> {
        let mut flaws = Vec::new();
        let mut flaw = |pointer: &str, message: String| {
            flaws.push(Flaw {
                pointer: pointer.to_owned(),
                message,
            })
        };
        if written.name.trim().is_empty() {
            flaw("/name", "a rule needs a name".to_owned());
        }
        for (at, tool) in written.tools.iter().enumerate() {
            if let Some(why) = no_possible_name(tool) {
                flaw(
                    &format!("/tools/{at}"),
                    format!("the rule can never match: {why}"),
                );
            }
        }
        let mut patterns = Vec::new();
        for (at, pattern) in written.forbidden_patterns.iter().enumerate() {
            let words: Vec<&str> = pattern.split_whitespace().collect();
            if words.is_empty() {
                flaw(
                    &format!("/forbidden_patterns/{at}"),
                    "an empty pattern says nothing".to_owned(),
                );
            }
            let operator = words.iter().find(|it| OPERATORS.contains(it));
            if let Some(operator) = operator {
                flaw(
                    &format!("/forbidden_patterns/{at}"),
                    format!(
                        "the rule can never match: a pattern is held against one command, and `{operator}` stands between commands"
                    ),
                );
            }
            patterns.push(Pattern(words.join(" ")));
        }
        match written.prefix.as_deref() {
            Some([]) => flaw("/prefix", "an empty prefix says nothing".to_owned()),
            Some([program, ..]) if program.contains('/') => flaw(
                "/prefix/0",
                "the rule can never match: programs are known by their names, without directories"
                    .to_owned(),
            ),
            Some([program, ..]) if program.trim().contains(char::is_whitespace) => flaw(
                "/prefix/0",
                "the rule can never match: each word of a prefix stands alone, as in [git, push]"
                    .to_owned(),
            ),
            Some([program, ..]) if program.trim().is_empty() => {
                flaw(
                    "/prefix/0",
                    "the rule can never match: a program has a name".to_owned(),
                );
            }
            _ => {}
        }
        let tests_arguments = !written.arguments.is_empty();
        let arguments = Condition::new(written.arguments).unwrap_or_else(|wrong| {
            for it in wrong {
                flaw(&format!("/when/arguments{}", it.pointer), it.message);
            }
            Condition::default()
        });
        let host = written
            .host
            .as_deref()
            .map(str::parse::<HostPattern>)
            .transpose();
        if let Err(err) = &host {
            flaw("/when/host", err.to_string());
        }
        if written
            .path_below
            .as_deref()
            .is_some_and(|it| it.trim().is_empty())
        {
            flaw("/when/path_below", "an empty path says nothing".to_owned());
        }
        let says_something = !patterns.is_empty()
            || written.prefix.is_some()
            || tests_arguments
            || written.host.is_some()
            || written.path_below.is_some();
        if !says_something && written.tools.is_empty() {
            flaw(
                "",
                "the rule says neither which tools nor what of them: give `tools`, `forbidden_patterns`, `prefix` or `when`".to_owned(),
            );
        }
        if !patterns.is_empty() && written.prefix.is_some() {
            flaw(
                "/prefix",
                "a rule has either forbidden_patterns or a prefix".to_owned(),
            );
        }
        let ruling = written
            .ruling
            .or((!patterns.is_empty()).then_some(Ruling::Deny));
        if ruling.is_none() {
            flaw(
                "",
                "the rule has no `decision`: allow, ask or deny".to_owned(),
            );
        }
        if !patterns.is_empty() && ruling == Some(Ruling::Allow) {
            flaw("/decision", "a forbidden pattern cannot allow".to_owned());
        }
        if !flaws.is_empty() {
            return Err(flaws);
        }
        let rule = CustomRule {
            about: String::new(),
            name: written.name,
            tools: written.tools,
            patterns,
            prefix: written.prefix,
            arguments,
            host: host.unwrap_or_default(),
            path_below: written.path_below,
            ruling: ruling.unwrap_or(Ruling::Deny),
            reason: written.reason,
        };
        let rule = CustomRule {
            about: rule.in_words(),
            ..rule
        };
        rule.try_on(&written.matching, &written.not_matching)?;
        Ok(rule)
    }

    fn try_on(&self, matching: &[Example], not_matching: &[Example]) -> Result<(), Vec<Flaw>> {
        let mut flaws = Vec::new();
        let groups = [
            ("match", matching, true),
            ("not_match", not_matching, false),
        ];
        for (key, examples, wanted) in groups {
            for (at, example) in examples.iter().enumerate() {
                let message = match self.fits_example(example) {
                    Ok(fits) if fits == wanted => continue,
                    Ok(true) => "the rule matches this example, and should not".to_owned(),
                    Ok(false) => "the rule does not match this example".to_owned(),
                    Err(why) => why,
                };
                flaws.push(Flaw {
                    pointer: format!("/{key}/{at}"),
                    message,
                });
            }
        }
        match flaws.is_empty() {
            true => Ok(()),
            false => Err(flaws),
        }
    }

    fn fits_example(&self, example: &Example) -> Result<bool, String> {
        let root = "/project";
        let args = match example {
            Example::Line(line) => [("command".to_owned(), Value::from(line.as_str()))]
                .into_iter()
                .collect(),
            Example::Arguments(args) => args.clone(),
        };
        let reach = Reach::of_args(&args, root.as_ref(), None);
        if let Some(why) = &reach.unreadable {
            return Err(why.to_string());
        }
        self.fits(&Seen {
            args: &args,
            reach: &reach,
            address: None,
            root,
            files: &Anywhere,
        })
    }

    /// Whether the rule speaks of this call. An `Err` says why that cannot be told.
    pub fn speaks_of(&self, case: &Case<'_>) -> Result<bool, String> {
        let named = self.tools.is_empty()
            || self
                .tools
                .iter()
                .any(|it| glob::matches(it, &case.spec.name));
        if !named {
            return Ok(false);
        }
        self.fits(&Seen {
            args: case.args,
            reach: case.reach(),
            address: self
                .host
                .as_ref()
                .and_then(|_| address(case.spec, case.args)),
            root: &case.root.to_string_lossy(),
            files: case.files,
        })
    }

    /// The names or patterns of the tools it is for; none for every tool.
    pub fn tools(&self) -> &[String] {
        &self.tools
    }

    /// The arguments without which it does not speak of a call; `a.b` for one inside another.
    pub fn needed_arguments(&self) -> impl Iterator<Item = &str> {
        self.arguments.needed()
    }

    pub fn ruling(&self) -> Ruling {
        self.ruling
    }

    fn fits(&self, seen: &Seen<'_>) -> Result<bool, String> {
        Ok(match self.ruling {
            Ruling::Allow => self.arguments.holds_wholly(seen.args)? && self.holds_all(seen),
            Ruling::Ask | Ruling::Deny => self.arguments.holds(seen.args)? && self.finds_some(seen),
        })
    }

    /// To object to a call, some part of it is enough.
    fn finds_some(&self, seen: &Seen<'_>) -> bool {
        let commands = || {
            let scripts = seen.reach.scripts.iter();
            scripts.flat_map(|it: &Script| &it.commands)
        };
        let patterns = self.patterns.is_empty()
            || commands().any(|it| {
                let text = told(it);
                self.patterns.iter().any(|pattern| pattern.stands_in(&text))
            });
        let prefix = self.prefix.as_ref();
        let (host, place) = (self.host.as_ref(), self.path_below.as_ref());
        patterns
            && prefix.is_none_or(|prefix| commands().any(|it| begins(it, prefix)))
            && host.is_none_or(|it| seen.reaches(it))
            && place.is_none_or(|it| seen.names_below(it))
    }

    /// To allow it, nothing else may be in it.
    fn holds_all(&self, seen: &Seen<'_>) -> bool {
        let prefix = self.prefix.as_ref();
        let (host, place) = (self.host.as_ref(), self.path_below.as_ref());
        prefix.is_none_or(|prefix| seen.all(|it| surely_begins(it, prefix)))
            && host.is_none_or(|it| seen.only_reaches(it))
            && place.is_none_or(|it| seen.names_only_below(it))
    }

    fn in_words(&self) -> String {
        let verb = match self.ruling {
            Ruling::Allow => "allows",
            Ruling::Ask => "asks before",
            Ruling::Deny => "denies",
        };
        let mut parts = Vec::new();
        let quoted = |texts: &[String]| {
            let quoted: Vec<String> = texts.iter().map(|it| format!("`{it}`")).collect();
            quoted.join(", ")
        };
        let patterns: Vec<String> = self.patterns.iter().map(|it| it.0.clone()).collect();
        if !patterns.is_empty() {
            parts.push(format!("commands with {}", quoted(&patterns)));
        }
        if let Some(prefix) = &self.prefix {
            parts.push(format!("commands that begin with `{}`", prefix.join(" ")));
        }
        for name in self.arguments.names() {
            parts.push(format!("calls by their argument `{name}`"));
        }
        if let Some(host) = &self.host {
            parts.push(format!("calls to `{host}`"));
        }
        if let Some(path) = &self.path_below {
            parts.push(format!("calls that name something below `{path}`"));
        }
        if parts.is_empty() {
            parts.push("every call".to_owned());
        }
        let of = match self.tools.is_empty() {
            true => String::new(),
            false => format!(" of {}", quoted(&self.tools)),
        };
        format!("{verb} {}{of}", parts.join(" and "))
    }
}

impl Rule for CustomRule {
    fn name(&self) -> &str {
        &self.name
    }

    fn about(&self) -> &str {
        &self.about
    }

    fn remedy(&self) -> &str {
        "another call, or another rule of this name in `.glee/config.yml`"
    }

    fn judge(&self, case: &Case<'_>) -> Result<Decision, String> {
        if !self.speaks_of(case)? {
            return Ok(Decision::Allow);
        }
        let reason = self
            .reason
            .clone()
            .unwrap_or_else(|| format!("the project {}", self.about));
        Ok(match self.ruling {
            Ruling::Allow => Decision::Allow,
            Ruling::Ask => Decision::Ask { reason },
            Ruling::Deny => Decision::Deny { reason },
        })
    }
}

/// What never stands in a command alone.
const OPERATORS: &[&str] = &["|", "||", "&", "&&", ";", "<", ">", ">>"];

/// `slug~12345678.slug.version`, of a tool of a bundle.
const LONGEST_NAME: usize = 3 * slug::MOST + 11;

/// Why no tool can have a name that fits, if none can.
fn no_possible_name(pattern: &str) -> Option<String> {
    let is_open = |c: char| "*?[]!^".contains(c);
    if pattern.is_empty() {
        return Some("a tool has a name".to_owned());
    }
    let first = pattern.chars().next().filter(|c| !is_open(*c));
    if let Some(bad @ ('.' | '-')) = first {
        return Some(format!("no tool's name starts with `{bad}`"));
    }
    let bad = pattern
        .chars()
        // `~` stands in names of bundles of which there are two with one slug.
        .find(|c| !is_open(*c) && *c != '~' && name::check(&format!("a{c}")).is_err());
    if let Some(bad) = bad {
        return Some(format!("no tool's name holds `{}`", bad.escape_debug()));
    }
    if pattern
        .to_ascii_lowercase()
        .starts_with(name::RESERVED_PREFIX)
    {
        return Some(format!(
            "no tool's name starts with `{}`",
            name::RESERVED_PREFIX
        ));
    }
    if glob::fits_nothing(pattern) {
        return Some("a set in it holds no letter".to_owned());
    }
    let least = pattern.chars().filter(|c| *c != '*').count();
    (least > LONGEST_NAME && !pattern.contains('[')).then(|| "no tool's name is so long".to_owned())
}

#[cfg(test)]
mod tests;
