//! The public port of the embedded DynamoDB, in front of a server of the test.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures::future::join_all;
use local::dynamodb::public_port;
use testkit::http::{self, Message};
use tokio::{net::TcpListener, sync::Barrier};

use crate::http::Connection;

const CLIENTS: usize = 300;
const REQUESTS: usize = 5;
/// Maximum number of connections to the server that are used, and as many idle ones.
const MAX_CONNECTIONS: usize = 2 * 32;

/// Numbers of connections to the server: open ones, and the most that were open at once.
type Connections = Arc<[AtomicUsize; 2]>;

/// Returns the endpoint of a server that responds to each request, and counts its connections.
fn serve(connections: Connections) -> String {
    http::listen(move |stream| {
        let [open, most] = &*connections;
        most.fetch_max(open.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        // Ends when the port closes the connection.
        http::respond_to(stream, |_| Message::new("HTTP/1.1 200 OK", "{}"));
        open.fetch_sub(1, Ordering::Relaxed);
    })
}

#[tokio::test]
async fn many_clients_share_few_connections_to_the_server() {
    let connections = Connections::default();
    let server = serve(connections.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = server.trim_start_matches("http://").parse().unwrap();
    let router = public_port::router(address, server, Arc::default());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let address = address.to_string();
    let all_open = Barrier::new(CLIENTS);
    let clients = (0..CLIENTS).map(async |_| {
        let mut client = Connection::open(&address).await;
        all_open.wait().await;
        for _ in 0..REQUESTS {
            let response = client.request("GET /", "", b"").await;
            assert_eq!((response.status(), &response.body[..]), (200, &b"{}"[..]));
        }
        client
    });
    let clients = join_all(clients).await;
    let most = connections[1].load(Ordering::Relaxed);
    assert!(
        (1..=MAX_CONNECTIONS).contains(&most),
        "{most} connections of {} clients",
        clients.len()
    );
}
