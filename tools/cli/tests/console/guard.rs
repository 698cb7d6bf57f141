//! Access control: tokens, cookies, hosts, origins and CSRF tokens.

use testkit::table::Table;

use crate::{
    html::Page,
    http::{self, Answer},
    new_table,
    served::Console,
};

pub(crate) fn console() -> (Table, Console) {
    let table = new_table();
    table.write_versions("E", 1);
    let console = Console::of(&table);
    (table, console)
}

pub(crate) const PAGE: &str = "/entity?id=E";

pub(crate) fn is_authorized(response: &Answer) -> bool {
    match response.status {
        200 | 404 => true,
        401 => {
            assert!(!response.body.contains("Latest"), "{response:?}");
            false
        }
        status => panic!("{status}: {response:?}"),
    }
}

#[test]
fn without_a_token_the_sign_in_form_is_shown() {
    let (_table, console) = console();
    for path in [PAGE, "/", "/no/such/page", "/health", "/?find=E"] {
        let response = console.plain("GET", path, &[]);
        assert_eq!(response.status, 401, "{path}");
        let page = Page::parse(&response.body);
        let form = page.named("form")[0];
        assert_eq!(
            (form.attribute("method"), form.attribute("action")),
            (Some("post"), Some("/sign-in"))
        );
        assert_eq!(page.field("to"), Some(path));
        // The form reveals nothing about the table, not even its name.
        assert!(!response.body.contains("VersionControl"), "{path} {response:?}");
        let response = console.plain("GET", path, &[("Accept", "application/json")]);
        assert_eq!(response.status, 401, "{path}");
        assert!(response.json()["Error"].as_str().unwrap().contains("Bearer"), "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "HEAD"] {
        let status = console.plain(method, PAGE, &[]).status;
        assert!([401, 403].contains(&status), "{method}: {status}");
    }
}

#[test]
fn the_token_of_an_address_becomes_a_cookie() {
    let (_table, console) = console();
    let token = &console.token;
    assert!(token.len() >= 32, "too short: {token}");
    for (path, to) in [
        ("/entity?id=E&token={token}", PAGE),
        ("/entity?token={token}&id=E", PAGE),
        ("/?token={token}", "/"),
        // The last token counts.
        ("/?token=wrong&token={token}", "/"),
        ("//evil.example/?token={token}", "/evil.example/"),
        ("///evil.example/?token={token}&a=b", "/evil.example/?a=b"),
        ("/\\evil.example?token={token}", "/"),
        ("/\\evil.example/?token={token}&a=b", "/"),
        ("/entity\\?id=E&token={token}", "/"),
    ] {
        let response = console.plain("GET", &console.fill(path), &[]);
        assert_eq!(
            (response.status, response.header("location")),
            (303, Some(to)),
            "{path}"
        );
        let (cookie, attributes) = response.header("set-cookie").unwrap().split_once("; ").unwrap();
        assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Lax; Max-Age=28800");
        let (name, value) = cookie.split_once('=').unwrap();
        assert_eq!(name, format!("vzero-{}", console.port));
        assert!(value.len() >= 32 && value != token, "the cookie is not the token");
        assert!(is_authorized(&console.plain("GET", PAGE, &[("Cookie", cookie)])));
    }
    // The token is removed from the address even with a valid cookie.
    let again = console.get(&format!("/entity?id=E&token={token}"));
    assert_eq!((again.status, again.header("location")), (303, Some(PAGE)));
    for path in [
        "/entity?id=E&token=",
        "/entity?id=E&token=wrong",
        "/entity?id=E&token={token}0",
    ] {
        let response = console.plain("GET", &console.fill(path), &[]);
        assert_eq!(response.status, 401, "{path}");
        let page = Page::parse(&response.body);
        assert_eq!(page.field("to"), Some(PAGE));
        assert!(page.text.contains("Invalid token."));
        assert!(response.header("set-cookie").is_none() && !response.body.contains(token.as_str()));
    }
}

#[test]
fn only_valid_cookies_and_bearer_tokens_are_accepted() {
    let (_table, console) = console();
    let value = console.fill("{value}");
    let other = format!("Cookie: {{name}}={}", value.replace(&value[..1], "x"));
    for (header, is_in) in [
        ("Cookie: {name}={value}", true),
        ("Cookie: a=b; {name}={value}; c=d", true),
        ("Cookie: {name}=wrong; {name}={value}", true),
        (&other, false),
        ("Cookie: {name}=", false),
        ("Cookie: {name}={value}x", false),
        ("Cookie: {name}={token}", false),
        ("Cookie: vzero-1={value}", false),
        ("Cookie: {value}", false),
        ("Authorization: Bearer {token}", true),
        ("Authorization: Bearer {value}", false),
        ("Authorization: Bearer ", false),
        ("Authorization: Bearer wrong", false),
        ("Authorization: {token}", false),
        ("Authorization: Basic {token}", false),
    ] {
        let filled = console.fill(header);
        let response = console.plain("GET", PAGE, &[filled.split_once(": ").unwrap()]);
        assert_eq!(is_authorized(&response), is_in, "{header}");
    }
}

/// The unit tests of the crate have more of them.
#[test]
fn unknown_host_names_are_rejected() {
    let (_table, console) = console();
    let bearer = format!("Bearer {}", console.token);
    let in_by = [("Cookie", console.cookie.as_str()), ("Authorization", &bearer)];
    for (host, is_own) in [
        ("{address}", true),
        ("localhost:{port}", true),
        ("[::1]:{port}", true),
        ("evil.example:{port}", false),
        ("127.0.0.1.evil.example:{port}", false),
        ("10.0.0.1:{port}", false),
        ("", false),
    ] {
        let host = console.fill(host);
        for path in [PAGE, "/assets/console.css", "/sign-in", "/?token={token}"] {
            let response = console.raw("GET", &console.fill(path), &[("Host", &host), in_by[0], in_by[1]], "");
            assert_eq!(response.status != 421, is_own, "{host:?} {path}");
            assert!(is_own || response.header("set-cookie").is_none());
        }
    }
    let none = console.raw("GET", PAGE, &in_by, "");
    assert!([400, 421].contains(&none.status), "no Host at all: {none:?}");
    // The request line can contain a host, too.
    let evil = [("Host", "evil.example"), in_by[0]];
    let absolute = console.raw("GET", &format!("http://evil.example{PAGE}"), &evil, "");
    assert_eq!(absolute.status, 421);
}

#[test]
fn forms_of_other_origins_are_rejected() {
    let (_table, console) = console();
    let host = ("Host", console.address.as_str());
    let cookie = ("Cookie", console.cookie.as_str());
    let fields = http::form(&[("token", &console.token), ("to", PAGE)]);
    for path in ["/sign-in", "/restore", "/undelete", "/no/such/page", "/"] {
        for origin in [
            None,
            Some("null"),
            Some("http://evil.example"),
            Some("http://evil.example:{port}"),
            Some("http://{address}.evil.example"),
            Some("http://{address}0"),
            Some("{address}"),
            Some("ftp://{address}"),
            Some(""),
        ] {
            let origin = origin.map(|origin| console.fill(origin));
            let origin = origin.as_deref().map(|origin| ("Origin", origin));
            let headers: Vec<_> = [host, cookie].into_iter().chain(origin).collect();
            let response = console.raw("POST", path, &headers, &fields);
            assert_eq!(response.status, 403, "{path} {origin:?}");
            assert!(response.body.contains("another site"), "{path} {origin:?} {response:?}");
            assert!(response.header("set-cookie").is_none());
        }
    }
    // Another name of the console is another origin.
    let other = console.fill("http://localhost:{port}");
    let response = console.raw("POST", "/sign-in", &[host, ("Origin", &other)], &fields);
    assert_eq!(response.status, 403);
    let own = console.origin();
    let response = console.raw("POST", "/sign-in", &[host, ("Origin", &own)], &fields);
    assert_eq!((response.status, response.header("location")), (303, Some(PAGE)));
}

#[test]
fn forms_without_a_csrf_token_are_rejected() {
    let (_table, console) = console();
    let bearer = format!("Bearer {}", console.token);
    let headers = [("Host", console.address.as_str()), ("Authorization", &bearer)];
    for fields in [
        "id=E",
        "id=E&csrf=",
        "id=E&csrf=wrong",
        "id=E&csrf={token}",
        "id=E&csrf={value}",
    ] {
        let fields = console.fill(fields);
        for path in ["/restore", "/undelete", "/no/such/page", "/"] {
            let response = console.post_text(path, &fields);
            assert_eq!(response.status, 403, "{path} {fields}");
            assert!(
                response.body.contains("belongs to another console"),
                "{path} {fields} {response:?}"
            );
            // The access token does not replace the CSRF token.
            assert_eq!(console.raw("POST", path, &headers, &fields).status, 403);
        }
    }
    for body in ["csrf=%ff", &"x".repeat(100_000)] {
        assert!([400, 403].contains(&console.post_text("/restore", body).status));
    }
}

#[test]
fn sign_in_redirects_only_to_own_paths() {
    let (_table, console) = console();
    for (to, target) in [
        (PAGE, PAGE),
        ("/compare?id=%2F&from=1", "/compare?id=%2F&from=1"),
        ("//evil.example", "/"),
        ("///evil.example", "/"),
        ("/\\evil.example", "/"),
        ("\\\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("", "/"),
        ("/\t/evil.example", "/"),
        ("/\n/evil.example", "/"),
        ("/\r\nSet-Cookie: a=b", "/"),
        ("\t//evil.example", "/"),
    ] {
        let response = console.post("/sign-in", &[("token", &console.token), ("to", to)]);
        assert_eq!(
            (response.status, response.header("location")),
            (303, Some(target)),
            "{to:?}"
        );
        let wrong = console.post("/sign-in", &[("token", "wrong"), ("to", to)]);
        assert_eq!((wrong.status, wrong.header("set-cookie")), (401, None));
        assert_eq!(Page::parse(&wrong.body).field("to"), Some(target), "{to:?}");
    }
    for fields in ["a=b", "token=&a=b", "to=%2F&a=b"] {
        assert_eq!(console.post_text("/sign-in", fields).status, 401, "{fields}");
    }
}

#[test]
fn every_response_has_security_headers() {
    let (_table, console) = console();
    let cookie = ("Cookie", console.cookie.as_str());
    let json = ("Accept", "application/json");
    for (method, path, headers, status) in [
        ("GET", PAGE, vec![cookie], 200),
        ("GET", PAGE, vec![cookie, json], 200),
        ("HEAD", "/assets/icon.svg", vec![], 200),
        ("GET", "/assets/console.css", vec![], 200),
        ("GET", "/assets/console.js", vec![], 200),
        ("GET", "/assets/none", vec![cookie], 404),
        ("GET", "/none", vec![cookie], 404),
        ("GET", "/entity", vec![cookie], 400),
        ("GET", "/entity?id=none", vec![cookie, json], 404),
        ("PUT", PAGE, vec![cookie], 403),
        ("GET", PAGE, vec![], 401),
        ("GET", "/?token={token}", vec![], 303),
        ("POST", "/restore", vec![cookie], 403),
        ("GET", "http://evil.example/", vec![("Host", "evil.example")], 421),
    ] {
        let host = ("Host", console.address.as_str());
        let has_host = headers.iter().any(|(name, _)| *name == "Host");
        let headers: Vec<_> = (!has_host).then_some(host).into_iter().chain(headers).collect();
        let response = console.raw(method, &console.fill(path), &headers, "");
        assert_eq!(response.status, status, "{method} {path}");
        let policy = response.header("content-security-policy").unwrap();
        let directives: Vec<_> = policy.split("; ").map(str::trim).collect();
        let needed = "default-src 'none'; script-src 'self'; style-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";
        for needed in needed.split("; ") {
            assert!(directives.contains(&needed), "{path}: {policy}");
        }
        assert!(
            !policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"),
            "{policy}"
        );
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("cache-control", "no-store"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            // With "no-referrer", browsers would send forms with the Origin "null".
            ("referrer-policy", "same-origin"),
        ] {
            assert_eq!(response.header(name), Some(value), "{method} {path}");
        }
        assert!(response.header("access-control-allow-origin").is_none());
        assert!(response.header("vary").unwrap().contains("Accept"));
    }
}

#[test]
fn consoles_do_not_share_tokens_and_cookies() {
    let (table, first) = console();
    let second = Console::of(&table);
    assert!(first.token != second.token && first.cookie != second.cookie);
    for (one, other) in [(&first, &second), (&second, &first)] {
        let cookie = format!("{}={}; {}", one.fill("{name}"), other.fill("{value}"), other.cookie);
        let bearer = format!("Bearer {}", other.token);
        for header in [("Cookie", cookie.as_str()), ("Authorization", &bearer)] {
            assert!(!is_authorized(&one.plain("GET", PAGE, &[header])));
        }
    }
}
