//! What comes through a pipe before it is known which era its client is of. rmcp ends at anything there but a request;
//! yet a client may take back the probe that it does not wait for any more, and then say hello.

use rmcp::RoleServer;
use rmcp::model::{ClientRequest, GetMeta, JsonRpcMessage, ProtocolVersion};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use super::VERSIONS;

pub(super) struct Opening<T> {
    through: T,
    is_open: bool,
}

impl<T> Opening<T> {
    pub(super) fn new(through: T) -> Opening<T> {
        Opening {
            through,
            is_open: false,
        }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Opening<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.through.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let message = self.through.receive().await?;
            if !self.is_open {
                match &message {
                    JsonRpcMessage::Request(it) => self.is_open = opens(&it.request),
                    // There is nothing yet that it could be about.
                    _ => continue,
                }
            }
            return Some(message);
        }
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.through.close().await
    }
}

/// Whether rmcp knows by this request which era its client is of.
fn opens(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        other => {
            let meta = other.get_meta();
            let missing = meta.missing_required_keys(&ProtocolVersion::V_2026_07_28);
            let version = meta.protocol_version();
            missing.is_empty() && version.is_some_and(|it| VERSIONS.contains(&it))
        }
    }
}
