//! The providers' own libraries take what is exported: it has the types that they declare.

use std::process::Command;

use glee::dialect::function::Format;

use super::{Everything, PROVIDERS};
use crate::support::{repository, stdout};

const CHECKS: &str = r#"
import type { ChatCompletionTool } from "openai/resources/chat/completions";
import type { FunctionTool } from "openai/resources/responses/responses";
import type { Tool as AnthropicTool } from "@anthropic-ai/sdk/resources/messages";
import type { Tool as GeminiTool } from "@google/genai";
"#;

#[test]
fn the_providers_libraries_take_it() {
    let clients = repository().join("target/clients/providers");
    let home = tempfile::tempdir_in(&clients).unwrap();
    let mut text = CHECKS.to_owned();
    let everything = Everything::new();
    for (at, format) in PROVIDERS.into_iter().enumerate() {
        let kind = match format {
            Format::OpenAi | Format::ToolResult => "ChatCompletionTool[]",
            Format::OpenAiResponses => "FunctionTool[]",
            Format::Anthropic => "AnthropicTool[]",
            Format::Gemini => "GeminiTool[]",
        };
        for strict in [false, true] {
            let mut tools = everything.exported(format, strict).tools.to_string();
            if format == Format::Gemini {
                // Their types are an enum, whose values are these texts.
                tools = tools.replace("\"type\":\"", "\"type\":<any>\"");
            }
            text += &format!("export const t{at}_{strict}: {kind} = {tools};\n");
        }
    }
    std::fs::write(home.path().join("check.ts"), text).unwrap();
    let checked = Command::new(clients.join("node_modules/.bin/tsc"))
        .args("--noEmit --strict --skipLibCheck --module nodenext --target es2022 --moduleResolution nodenext --types node check.ts".split(' '))
        .current_dir(home.path())
        .env("PATH", format!("{}:/usr/bin:/bin", repository().join("target/clients/node/bin").display()))
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", stdout(&checked));
}
