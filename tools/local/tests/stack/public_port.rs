//! The public port of the embedded DynamoDB, in front of a server of the test.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::future::join_all;
use local::dynamodb::public_port;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::Barrier,
};

use crate::http::Connection;

const CLIENTS: usize = 300;
const REQUESTS: usize = 5;
/// Maximum number of connections to the server that are used, and as many idle ones.
const MAX_CONNECTIONS: usize = 2 * 32;

/// Numbers of connections to the server: open ones, and the most that were open at once.
type Connections = Arc<[AtomicUsize; 2]>;

/// Counts the connections of a server that responds to each request.
async fn serve(listener: TcpListener, connections: Connections) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let connections = connections.clone();
        tokio::spawn(async move {
            let [open, most] = &*connections;
            most.fetch_max(open.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            // Fails when the port closes the connection.
            let _ = respond(stream).await;
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

async fn respond(stream: TcpStream) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 0 {
        if line.ends_with("\r\n\r\n") {
            line.clear();
            let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
            stream.write_all(response).await?;
        }
    }
    Ok(())
}

/// Serves the port in front of this server, and returns its address.
async fn port(server: SocketAddr) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = public_port::router(address, server, Arc::default());
    tokio::spawn(async move { axum::serve(listener, router).await });
    address.to_string()
}

#[tokio::test]
async fn many_clients_share_few_connections_to_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (server, connections) = (listener.local_addr().unwrap(), Connections::default());
    tokio::spawn(serve(listener, connections.clone()));
    let address = port(server).await;
    let all_open = Barrier::new(CLIENTS);
    let clients = (0..CLIENTS).map(async |_| {
        let mut client = Connection::open(&address).await;
        all_open.wait().await;
        for _ in 0..REQUESTS {
            let response = client.request("GET /", "", b"").await;
            assert_eq!((response.status, response.body.as_str()), (200, "{}"));
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

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_an_error_that_clients_retry() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap();
    drop(listener);
    let mut client = Connection::open(&port(server).await).await;
    let response = client.request("POST /", "", b"{}").await;
    assert_eq!(response.status, 500);
    let body = response.body;
    assert!(
        body.contains("#InternalServerError") && body.contains("cannot be reached"),
        "{body}"
    );
}
