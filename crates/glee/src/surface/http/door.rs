//! Where clients come in: a port, or a socket in the file system.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::connection;
use super::crowd::Crowd;
use super::reception::Reception;
use super::resumed::Resumed;

/// How long nobody is let in when the machine has no more to give.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) trait Door {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Door for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.accept().await?;
        // Small answers must not wait for the client's acknowledgement of earlier ones.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

/// Lets clients in, for ever.
pub(super) async fn receive(
    door: &impl Door,
    crowd: &Arc<Crowd>,
    reception: &Arc<Reception>,
    stopping: &watch::Receiver<bool>,
) {
    loop {
        match door.next().await {
            Ok(stream) => {
                // One for whom there is no place is closed at once.
                if let Some(place) = crowd.enter() {
                    let (reception, stopping) = (reception.clone(), stopping.clone());
                    let served = connection::serve(stream, place, reception, stopping);
                    tokio::spawn(Resumed::new(served));
                }
            }
            Err(err) if is_of_the_client(&err) => {}
            Err(_) => {
                crowd.thin_out();
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Whether it was gone before it was let in.
fn is_of_the_client(err: &io::Error) -> bool {
    matches!(
        err.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}
