//! Telling clients that a list has changed, in the way of their era.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, SubscriptionContext, SubscriptionSendError};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::watch::Change;

/// Resources one client may want to hear about.
pub(super) const MOST_SUBSCRIBED: usize = 1000;
/// Longest of their URIs, in bytes: all are kept while their client is there.
pub(super) const LONGEST_URI: usize = 4096;
/// How often a quiet connection is looked at: whether it is still there.
const LOOK: Duration = Duration::from_secs(60);

fn everything() -> Change {
    Change {
        tools: true,
        prompts: true,
        resources: true,
        problems: Vec::new(),
    }
}

/// Whoever missed a change is told that everything changed.
async fn next(changes: &mut Receiver<Change>) -> Option<Change> {
    match changes.recv().await {
        Ok(change) => Some(change),
        Err(RecvError::Lagged(_)) => Some(everything()),
        Err(RecvError::Closed) => None,
    }
}

/// Tells a client of the handshake era, until it is gone.
pub(super) async fn tell(
    mut changes: Receiver<Change>,
    peer: Peer<RoleServer>,
    subscribed: Arc<Mutex<HashSet<String>>>,
) {
    loop {
        let change = tokio::select! {
            change = next(&mut changes) => change,
            () = tokio::time::sleep(LOOK) => Some(Change::default()),
        };
        let Some(change) = change else { return };
        if peer.is_transport_closed() || notify(change, &peer, &subscribed).await.is_err() {
            return;
        }
    }
}

async fn notify(
    change: Change,
    peer: &Peer<RoleServer>,
    subscribed: &Mutex<HashSet<String>>,
) -> Result<(), rmcp::ServiceError> {
    if change.tools {
        peer.notify_tool_list_changed().await?;
    }
    if change.prompts {
        peer.notify_prompt_list_changed().await?;
    }
    if change.resources {
        peer.notify_resource_list_changed().await?;
        let uris: Vec<String> = lock(subscribed).iter().cloned().collect();
        for uri in uris {
            let param = ResourceUpdatedNotificationParam::new(uri);
            peer.notify_resource_updated(param).await?;
        }
    }
    Ok(())
}

/// Tells a stateless client on the stream it opened for that.
pub(super) async fn stream(mut changes: Receiver<Change>, context: &SubscriptionContext) {
    loop {
        let change = tokio::select! {
            change = next(&mut changes) => change,
            () = context.cancelled() => None,
        };
        let Some(change) = change else { return };
        if send(change, context).await.is_err() {
            return;
        }
    }
}

async fn send(change: Change, context: &SubscriptionContext) -> Result<(), SubscriptionSendError> {
    let (sink, accepted) = (context.sink(), context.accepted());
    if change.tools && accepted.tools_list_changed == Some(true) {
        sink.notify_tool_list_changed().await?;
    }
    if change.prompts && accepted.prompts_list_changed == Some(true) {
        sink.notify_prompt_list_changed().await?;
    }
    if change.resources {
        if accepted.resources_list_changed == Some(true) {
            sink.notify_resource_list_changed().await?;
        }
        for uri in accepted.resource_subscriptions.iter().flatten() {
            sink.notify_resource_updated(uri.clone()).await?;
        }
    }
    Ok(())
}

pub(super) fn lock(set: &Mutex<HashSet<String>>) -> MutexGuard<'_, HashSet<String>> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}
