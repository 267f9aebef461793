#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

mod http;
mod upstream;
