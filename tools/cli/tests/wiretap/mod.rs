//! A way to an endpoint of S3 and SQS that writes down what it is asked for.

use std::{
    collections::BTreeSet,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// Passes everything on, and keeps what was sent.
pub(crate) struct Wiretap {
    pub(crate) endpoint: String,
    sent: Arc<Mutex<Vec<u8>>>,
}

impl Wiretap {
    pub(crate) fn before(endpoint: &str) -> Self {
        let behind = endpoint
            .strip_prefix("http://")
            .unwrap()
            .trim_end_matches('/')
            .to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tap = Self {
            endpoint: format!("http://{}", listener.local_addr().unwrap()),
            sent: Arc::default(),
        };
        let sent = Arc::clone(&tap.sent);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, sent) = (client.unwrap(), Arc::clone(&sent));
                let server = TcpStream::connect(&behind).unwrap();
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || pass(from, to, Some(&sent)));
                thread::spawn(move || pass(server, client, None));
            }
        });
        tap
    }

    /// The actions that were asked for, as IAM names them.
    pub(crate) fn asked(&self) -> BTreeSet<String> {
        let sent = self.sent.lock().unwrap();
        let sent = String::from_utf8_lossy(&sent);
        // A request line, wherever the body before it ended.
        let requests = sent.split(" HTTP/1.1\r\n").collect::<Vec<_>>();
        let targets = sent
            .lines()
            .filter_map(|line| line.strip_prefix("x-amz-target: AmazonSQS."));
        // To IAM, a batch is what it is made of.
        let mut asked: BTreeSet<_> = targets
            .map(|operation| format!("sqs:{}", operation.trim_end_matches("Batch")))
            .collect();
        for before in &requests[..requests.len() - 1] {
            let Some((_, path)) = before.rsplit_once("GET ") else {
                continue;
            };
            let action = if path.contains("list-type=2") {
                "s3:ListBucket"
            } else {
                "s3:GetObject"
            };
            asked.insert(action.to_owned());
        }
        asked
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, sent: Option<&Mutex<Vec<u8>>>) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if let Some(sent) = sent {
            sent.lock().unwrap().extend(&buffer[..read]);
        }
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}
