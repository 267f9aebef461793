//! Which files give access to something else, by their paths.

use std::path::{Component, Path};

use crate::glob;
use crate::shell::GAP;

/// Files that hold what gives access to something else.
#[derive(Clone, Copy)]
enum Mark {
    /// This very path.
    Exactly(&'static str),
    /// A file or directory of this name, wherever it stands, and what is in it.
    Named(&'static str),
    /// A path that ends so, and what is in it.
    Ending(&'static [&'static str]),
    /// The same, and the directory that holds it.
    Within(&'static [&'static str]),
}

const SENSITIVE: &[(Mark, &str)] = &[
    (Mark::Exactly("/etc/passwd"), "the list of users"),
    (Mark::Exactly("/etc/passwd-"), "the list of users"),
    (
        Mark::Exactly("/etc/master.passwd"),
        "the passwords of users",
    ),
    (Mark::Exactly("/etc/shadow"), "the passwords of users"),
    (Mark::Exactly("/etc/shadow-"), "the passwords of users"),
    (Mark::Exactly("/etc/gshadow"), "the passwords of groups"),
    (Mark::Exactly("/etc/gshadow-"), "the passwords of groups"),
    (
        Mark::Exactly("/etc/security/opasswd"),
        "old passwords of users",
    ),
    (Mark::Exactly("/etc/ssl/private"), "private keys"),
    (Mark::Exactly("/run/secrets"), "secrets of a container"),
    (Mark::Exactly("/var/run/secrets"), "secrets of a container"),
    (Mark::Named("ssh_host_rsa_key"), "the ssh key of a machine"),
    (
        Mark::Named("ssh_host_ecdsa_key"),
        "the ssh key of a machine",
    ),
    (
        Mark::Named("ssh_host_ed25519_key"),
        "the ssh key of a machine",
    ),
    (Mark::Exactly("/etc/sudoers"), "who may become root"),
    (Mark::Exactly("/etc/sudoers.d"), "who may become root"),
    (Mark::Named(".ssh"), "ssh keys"),
    (Mark::Named("id_rsa"), "an ssh key"),
    (Mark::Named("id_dsa"), "an ssh key"),
    (Mark::Named("id_ecdsa"), "an ssh key"),
    (Mark::Named("id_ecdsa_sk"), "an ssh key"),
    (Mark::Named("id_ed25519"), "an ssh key"),
    (Mark::Named("id_ed25519_sk"), "an ssh key"),
    (Mark::Named(".env"), "secrets of a program"),
    (Mark::Named(".envrc"), "secrets of a program"),
    (Mark::Named(".netrc"), "passwords"),
    (Mark::Named(".pgpass"), "passwords of databases"),
    (Mark::Named(".pypirc"), "passwords of a registry"),
    (Mark::Named(".vault-token"), "a token"),
    (Mark::Named(".azure"), "credentials of a cloud"),
    (Mark::Named(".bash_history"), "what somebody typed"),
    (Mark::Named(".zsh_history"), "what somebody typed"),
    (Mark::Ending(&["gh", "hosts.yml"]), "a token"),
    (Mark::Ending(&[".cargo", "credentials"]), "a token"),
    (Mark::Ending(&[".cargo", "credentials.toml"]), "a token"),
    (Mark::Named(".git-credentials"), "passwords of git"),
    (
        Mark::Ending(&[".git", "config"]),
        "addresses of git, with passwords if they have any",
    ),
    (Mark::Named(".gnupg"), "keys of gnupg"),
    (
        Mark::Within(&[".aws", "credentials"]),
        "credentials of a cloud",
    ),
    (
        Mark::Ending(&[".config", "gcloud"]),
        "credentials of a cloud",
    ),
    (
        Mark::Within(&[".kube", "config"]),
        "credentials of a cluster",
    ),
    (
        Mark::Within(&[".docker", "config.json"]),
        "credentials of a registry",
    ),
];

/// Endings of files that stand beside sensitive ones to show their form.
const HARMLESS: &[&str] = &[".example", ".sample", ".template", ".dist", ".pub"];

pub(super) fn is_harmless(name: &str) -> bool {
    HARMLESS.iter().any(|it| name.ends_with(it))
}

/// What a sensitive file holds, if this is one. In a pattern, or a path with gaps, a part that has a
/// letter to tell by stands for whatever it fits; one that stands for everything does not, except on
/// the way to a file that is named.
pub(super) fn sensitive(path: &Path, open: bool) -> Option<&'static str> {
    let parts: Vec<String> = path
        .components()
        .filter_map(|it| match it {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            _ => None,
        })
        .collect();
    let last = parts.last()?;
    if is_harmless(last) {
        return None;
    }
    if parts.len() > 2 && parts[0] == "proc" && last == "environ" {
        return Some("the environment of a process");
    }
    let fit = |part: &str, name: &str| fits(part, name, open);
    let begins = |parts: &[String], names: &[&str]| {
        let pairs = parts.iter().zip(names);
        parts.len() >= names.len() && pairs.into_iter().all(|(part, name)| fit(part, name))
    };
    let found = SENSITIVE.iter().find(|(mark, _)| match mark {
        Mark::Exactly(whole) => {
            let names: Vec<&str> = whole[1..].split('/').collect();
            leads_to(&parts, &names, open)
        }
        Mark::Named(".env") => fit(last, ".env") || is_env(last),
        Mark::Named(name) => parts.iter().any(|part| fit(part, name)),
        Mark::Ending(names) => (0..parts.len()).any(|at| begins(&parts[at..], names)),
        Mark::Within(names) => {
            let holds = |part: &String| *part == names[0];
            let all = parts.len() > 1 && is_all(last, open) && holds(&parts[parts.len() - 2]);
            holds(last) || all || (0..parts.len()).any(|at| begins(&parts[at..], names))
        }
    });
    found.map(|(_, what)| *what)
}

/// `.env.local`, `.env-prod`, `prod.env`, `.env~`; a program's own words, such as `process.env`, are
/// not told apart from a file, and `x.env` in a word with other letters is none.
fn is_env(name: &str) -> bool {
    name.strip_prefix(".env")
        .is_some_and(|it| it.starts_with(['.', '-', '_', '~']))
        || [
            "prod.env",
            "production.env",
            "staging.env",
            "local.env",
            "dev.env",
        ]
        .contains(&name)
}

/// Whether a path leads to this one or into it; a gap may be any number of parts.
fn leads_to(parts: &[String], names: &[&str], open: bool) -> bool {
    let (Some(part), Some(name)) = (parts.first(), names.first()) else {
        return names.is_empty();
    };
    let is_gap = open && part.chars().all(|c| c == GAP);
    if is_gap {
        return leads_to(&parts[1..], names, open)
            || names.len() > 1 && leads_to(parts, &names[1..], open);
    }
    let fit = match names.len() > 1 && is_all(part, open) {
        true => glob::matches(part, name),
        false => fits(part, name, open),
    };
    fit && leads_to(&parts[1..], &names[1..], open)
}

/// A part without a letter to tell by, such as `*` or `???`.
fn is_all(part: &str, open: bool) -> bool {
    open && part.chars().all(|c| "*?[]".contains(c))
}

fn fits(part: &str, name: &str, open: bool) -> bool {
    if !open || !part.contains(['*', '?', '[', GAP]) {
        return part == name;
    }
    part.contains(|c: char| c.is_alphanumeric()) && glob::matches(&part.replace(GAP, "*"), name)
}
