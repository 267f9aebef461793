//! What went wrong on the way, in words that hold no URL: secrets may stand in its query.

use std::error::Error;
use std::io;

use glee_core::outcome::{Failure, FailureKind};
use url::Url;

use super::guard::NotPublic;

/// A request that brought no response.
pub(super) struct Failed {
    pub(super) failure: Failure,
    /// Whether it failed before a connection stood, so that nothing was sent.
    pub(super) unconnected: bool,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        Failed {
            failure,
            unconnected: false,
        }
    }
}

impl From<Failed> for Failure {
    fn from(failed: Failed) -> Failure {
        failed.failure
    }
}

pub(super) fn failed(err: reqwest::Error, url: &Url) -> Failed {
    let err = err.without_url();
    if let Some(refused) = causes(&err).find_map(|it| it.downcast_ref::<NotPublic>()) {
        let port = url.port_or_known_default().unwrap_or_default();
        return refused.failure(port).into();
    }
    let host = url.host_str().unwrap_or_default();
    let (reason, message, hint) = if causes(&err).any(is_tls) {
        (
            "tls",
            format!("`{host}` could not prove who it is"),
            "the host must have a valid certificate for its name; glee does not skip this check",
        )
    } else if err.is_dns() {
        (
            "dns",
            format!("the name `{host}` could not be resolved"),
            "check the host's name and this machine's network",
        )
    } else if err.is_connect() {
        (
            "connect",
            format!("no connection to `{host}`"),
            "check that the service is running and can be reached from here",
        )
    } else {
        (
            "connection",
            format!("the connection to `{host}` broke before it answered"),
            "whether the service has acted on the request is unknown; look before sending it again",
        )
    };
    let unconnected = matches!(reason, "dns" | "connect");
    let failure = broken(reason, message, &err).hint(hint);
    Failed {
        failure: if unconnected {
            failure.retryable()
        } else {
            failure
        },
        unconnected,
    }
}

/// A response whose body could not be read to its end.
pub(super) fn body(err: reqwest::Error) -> Failure {
    let err = err.without_url();
    broken("body", "the response broke off".to_owned(), &err)
        .hint("the service sent an incomplete or damaged body; try again")
}

fn broken(reason: &str, message: String, err: &reqwest::Error) -> Failure {
    let cause = causes(err).last().map(ToString::to_string);
    let message = match cause {
        Some(cause) => format!("{message}: {cause}"),
        None => message,
    };
    Failure::new(FailureKind::HttpError, message).with("reason", reason)
}

/// The causes of an error, outermost first. An `io::Error` hides the error it wraps from `source`.
fn causes<'a>(err: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(err), |&err| {
        let wrapped = err
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
            .map(|inner| inner as &(dyn Error + 'static));
        wrapped.or_else(|| err.source())
    })
}

fn is_tls(err: &(dyn Error + 'static)) -> bool {
    err.is::<rustls::Error>()
}
