//! Tests through the public door, against the real kernel.

#![expect(clippy::unwrap_used, reason = "a test ends where it fails")]
mod bombs;
mod checked;
mod confined;
mod death;
mod escapes;
mod malformed;
mod network;
mod plain;
mod refused;
mod support;
mod tiers;
mod work;
