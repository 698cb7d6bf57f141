//! Access control: tokens, cookies, CSRF tokens, and requests at the limits of their sizes.

use std::thread;

use testkit::{script_tests, table::Table};

use crate::{http, new_table, served::Console};

script_tests! {
    crate::Subject;
    fn without_a_token_the_sign_in_form_is_shown();
    fn the_token_of_an_address_becomes_a_cookie();
    fn only_valid_cookies_and_bearer_tokens_are_accepted();
    fn hosts_and_origins_of_others_are_rejected();
    fn sign_in_redirects_only_to_own_paths();
    fn every_response_has_security_headers();
    fn forms_without_a_csrf_token_are_rejected();
}

fn console() -> (Table, Console) {
    let table = new_table();
    table.write_versions("E", 1);
    let console = Console::writing(&table);
    (table, console)
}

#[test]
fn consoles_do_not_share_tokens_and_cookies() {
    let (table, first) = console();
    assert_eq!(first.fill("{name}"), format!("vzero-{}", first.port));
    let second = Console::of(&table);
    for (one, other) in [(&first, &second), (&second, &first)] {
        let (value, cookie, token) = (other.fill("{value}"), &other.cookie, &other.token);
        assert!(token.len() >= 32 && value.len() >= 32 && value != *token);
        one.requests(&format!(
            "
            GET {{page}} | Cookie: {{name}}={value}; {cookie} => 401 | !~ Latest
            GET {{page}} | Authorization: Bearer {token} => 401 | !~ Latest
            "
        ));
    }
}

#[test]
fn many_large_forms_are_rejected() {
    let (_table, console) = console();
    let many = (0..9000).map(|n| format!("p{n}=x&")).collect::<Vec<_>>().concat();
    let large = "x".repeat(65_000);
    let flood = format!(
        "
        POST /sign-in | Origin: http://{{address}} | form: token={large} => 401
        POST /restore | Authorization: Bearer {{token}} | form: {many} => 400,403
        "
    );
    thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| console.requests(&flood));
        }
    });
    console.requests("GET {page} | Cookie: {cookie} => 200");
}

const PATHS: [&str; 10] = [
    "/?find=E",
    "/entity?id=E",
    "/version?id=E&version=1",
    "/compare?id=E",
    "/as-of?id=E",
    "/restore?id=E&version=1",
    "/undelete?id=E",
    "/health",
    "/changes?actor=E",
    "/changes/undo?id=E&version=1",
];

#[test]
fn long_addresses_and_many_parameters_are_rejected_or_ignored() {
    let (_table, console) = console();
    let many = (0..5000).map(|n| format!("&p{n}=x")).collect::<Vec<_>>().concat();
    let (repeated, separators) = ("&id=E".repeat(5000), "&".repeat(60_000));
    for path in PATHS {
        let separator = if path.contains('?') { "" } else { "?" };
        for more in [&many, &repeated, &separators, "&state=%00%ff", "&id[]=x&=&==&%"] {
            let status = console.get(&format!("{path}{separator}{more}")).status;
            assert!(
                [200, 400, 404, 409].contains(&status),
                "{path} {}: {status}",
                &more[..9]
            );
        }
    }
    let headers = (0..2000).map(|n| format!("X-{n}: x\r\n")).collect::<Vec<_>>().concat();
    let addresses =
        [63_000, 70_000, 130_000, 1_000_000].map(|length| format!("GET /?find={} HTTP/1.1\r\n", "x".repeat(length)));
    for request in addresses.iter().chain([&format!("GET / HTTP/1.1\r\n{headers}")]) {
        let answer = http::exchange(console.port, &format!("{request}Host: 127.0.0.1\r\n"), "");
        let is_refused = |status: &str| answer.starts_with(&format!("HTTP/1.1 {status} "));
        assert!(
            answer.is_empty() || ["401", "414", "431"].into_iter().any(is_refused),
            "{}: {answer}",
            request.len()
        );
    }
    for path in PATHS.into_iter().chain(["/none", "/entity?id=none"]) {
        let (head, get) = (
            console.send("HEAD", path, &[("Cookie", &console.cookie)], ""),
            console.get(path),
        );
        assert_eq!((head.status, head.body.as_str()), (get.status, ""), "{path}");
    }
}
