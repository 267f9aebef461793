//! An event, as the journal tells it.

use glee_core::name::spelled_out;
use jiff::Timestamp;
use serde_json::Value;

pub(crate) struct Recorded(Value);

impl Recorded {
    /// `None` for what is not an event.
    pub(crate) fn read(line: &str) -> Option<Recorded> {
        let value: Value = serde_json::from_str(line).ok()?;
        value.is_object().then_some(Recorded(value))
    }

    pub(crate) fn into_value(self) -> Value {
        self.0
    }

    pub(crate) fn seq(&self) -> u64 {
        self.0["seq"].as_u64().unwrap_or_default()
    }

    pub(crate) fn at(&self) -> Option<Timestamp> {
        self.text("at").parse().ok()
    }

    pub(crate) fn get(&self, key: &str) -> &Value {
        &self.0[key]
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_default()
    }

    /// Safe to show, and on one line.
    pub(crate) fn shown(&self, key: &str) -> String {
        spelled_out(self.text(key))
    }

    /// To the second.
    pub(crate) fn time(&self) -> String {
        let at = self.shown("at");
        match at.get(..19) {
            Some(seconds) => seconds.replace('T', " "),
            None => at,
        }
    }

    pub(crate) fn args(&self) -> String {
        match (self.0.get("args"), self.0["args_bytes"].as_u64()) {
            (Some(args), _) => spelled_out(&args.to_string()),
            (None, Some(bytes)) => format!("{bytes} bytes, too many to be kept"),
            (None, None) => "none".to_owned(),
        }
    }

    /// What became of it, as far as the event says.
    pub(crate) fn result(&self) -> String {
        let mut said = self.shown("status");
        for key in ["code", "answer", "reason", "permissions"] {
            let more = self.shown(key);
            if !more.is_empty() {
                said = format!("{said} {more}").trim_start().to_owned();
            }
        }
        if let Some(ms) = self.0["duration_ms"].as_f64() {
            said.push_str(&format!(" after {ms:.1} ms"));
        }
        said
    }

    pub(crate) fn as_line(&self) -> String {
        let line = format!(
            "{}  {:17} {} by {}  {}",
            self.time(),
            self.shown("event"),
            self.shown("tool"),
            self.shown("actor"),
            self.result(),
        );
        format!("{}  {}", line.trim_end(), self.shown("id"))
    }

    pub(crate) fn as_paragraph(&self) -> String {
        let mut lines = vec![self.as_line()];
        if self.text("event") != "TOOL_EXECUTED" {
            lines.push(format!("  arguments  {}", self.args()));
        }
        for step in self.0["trail"].as_array().into_iter().flatten() {
            let text = |key: &str| spelled_out(step[key].as_str().unwrap_or_default());
            let line = format!("  {}: {} {}", text("by"), text("decision"), text("reason"));
            lines.push(line.trim_end().to_owned());
        }
        if let Some(by) = self.0["sandbox"]["by"].as_str() {
            lines.push(format!("  held by  {}", spelled_out(by)));
        }
        let message = self.shown("message");
        if !message.is_empty() {
            lines.push(format!("  {message}"));
        }
        lines.join("\n")
    }
}
