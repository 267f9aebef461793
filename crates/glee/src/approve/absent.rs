//! Nobody sits at a server. Whoever calls it is asked through their client, if at all.

use glee_core::port::{Answer, Approver, Later, Question};

pub struct Absent;

impl Approver for Absent {
    fn ask<'a>(&'a self, question: &'a Question<'a>) -> Later<'a, Answer> {
        let tool = question.spec.name.clone();
        Box::pin(async move {
            Answer::Nobody {
                hint: format!(
                    "use a client that can ask its user (elicitation), or run it from a terminal: `glee run {tool}`"
                ),
            }
        })
    }
}
