//! Tests through the public door, against the real kernel.

#![expect(clippy::unwrap_used, reason = "a test ends where it fails")]
mod confined;
mod death;
mod network;
mod plain;
mod support;
mod tiers;
