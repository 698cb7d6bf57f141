//! Requests and data at the limits of their types.

use std::thread;

use serde_json::json;

use crate::{http, new_table, served::Console};

const PATHS: [&str; 8] = [
    "/?find=E",
    "/entity?id=E",
    "/version?id=E&version=1",
    "/compare?id=E",
    "/as-of?id=E",
    "/restore?id=E&version=1",
    "/undelete?id=E",
    "/health",
];

#[test]
fn the_highest_version_numbers_are_shown() {
    const MAX: u64 = 9_223_372_036_854_775_807;
    let table = new_table();
    for version in [MAX, MAX - 1] {
        let number = version.to_string();
        let item = json!({"PK": {"S": "E"}, "SK": {"S": format!("v{number}")}, "N": {"N": number}});
        table.put(item);
    }
    table.put(json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": MAX.to_string()}}));
    let console = Console::of(&table);
    for path in "\
        /?find=E /entity?id=E /entity?id=E&to={max} /entity?id=E&to={before} /entity?id=E&to={before}&scale=version \
        /entity?id=E&to=1 /version?id=E&version={max} /version?id=E&version={before} /compare?id=E \
        /compare?id=E&from={before}&to={max} /compare?id=E&from={max}&to={max} /as-of?id=E&version={max} \
        /restore?id=E&version={before} /health"
        .split(' ')
    {
        let path = path.replace("{max}", &MAX.to_string());
        let path = path.replace("{before}", &(MAX - 1).to_string());
        let answer = console.get(&path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        console.json(&path);
    }
    for path in [
        "/compare?id=E&from=0&to=9223372036854775807",
        "/compare?id=E&from=1&to=9223372036854775808",
        "/entity?id=E&to=99999999999999999999",
        "/as-of?id=E&version=0",
    ] {
        assert_eq!(console.get(path).status, 400, "{path}");
    }
}

#[test]
fn long_addresses_and_many_parameters_are_rejected_or_ignored() {
    let table = new_table();
    table.write_versions("E", 1);
    let console = Console::of(&table);
    let many = (0..5000).map(|n| format!("&p{n}=x")).collect::<Vec<_>>().concat();
    let repeated = "&id=E".repeat(5000);
    let separators = "&".repeat(60_000);
    for path in PATHS {
        let separator = if path.contains('?') { "" } else { "?" };
        for more in [&many, &repeated, &separators, "&state=%00%ff", "&id[]=x&=&==&%"] {
            let path = format!("{path}{separator}{more}");
            let answer = console.get(&path);
            assert!(
                [200, 400, 404, 409].contains(&answer.status),
                "{}: {}",
                &path[..80],
                answer.status
            );
        }
    }
    for length in [63_000, 70_000, 130_000, 1_000_000] {
        let answer = http::try_send(console.port, &format!("GET /?find={} HTTP/1.1\r\n", "x".repeat(length)));
        assert!(
            ["HTTP/1.1 401", "HTTP/1.1 414", "HTTP/1.1 431", ""].contains(&answer.as_str()),
            "{length}: {answer}"
        );
    }
    let headers = (0..2000).map(|n| format!("X-{n}: x\r\n")).collect::<Vec<_>>().concat();
    assert_eq!(
        http::try_send(console.port, &format!("GET / HTTP/1.1\r\n{headers}")),
        "HTTP/1.1 431"
    );
    assert_eq!(console.get("/entity?id=E").status, 200);
}

#[test]
fn head_requests_have_the_status_of_get_and_no_body() {
    let table = new_table();
    table.write_versions("E", 1);
    let console = Console::of(&table);
    for path in PATHS.into_iter().chain(["/none", "/sign-out", "/entity?id=none"]) {
        let head = console.plain("HEAD", path, &[("Cookie", &console.cookie)]);
        assert_eq!(head.status, console.get(path).status, "{path}");
        assert_eq!(head.body, "", "{path}");
    }
}

#[test]
fn unusual_cookies_are_checked() {
    let table = new_table();
    table.write_versions("E", 1);
    let console = Console::of(&table);
    for (cookies, status) in [
        (&["{name}=wrong", "{name}={value}"][..], 200),
        (&["{name}={value}", "{name}=wrong"], 200),
        (&["{name}=wrong", "a=b"], 401),
        (&["{name}=\"{value}\""], 401),
        (&["{name}"], 401),
        (&[";;=;=;"], 401),
    ] {
        let filled: Vec<_> = cookies.iter().map(|cookie| console.fill(cookie)).collect();
        let headers: Vec<_> = filled.iter().map(|cookie| ("Cookie", cookie.as_str())).collect();
        let answer = console.plain("GET", "/entity?id=E", &headers);
        assert_eq!(answer.status, status, "{cookies:?}");
    }
}

#[test]
fn a_flood_of_forms_is_rejected() {
    let table = new_table();
    table.write_versions("E", 1);
    let console = Console::with(&table, "--allow-write");
    let many = (0..9000).map(|n| format!("p{n}=x&")).collect::<Vec<_>>().concat();
    let large = "x".repeat(65_000);
    thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                assert_eq!(console.post("/sign-in", &[("token", &large)]).status, 401);
                for path in ["/restore", "/undelete", "/health/audit", "/sign-out"] {
                    let status = console.post_text(path, &many).status;
                    assert!([400, 403].contains(&status), "{path}: {status}");
                }
            });
        }
    });
    assert_eq!(console.get("/entity?id=E").status, 200);
}
