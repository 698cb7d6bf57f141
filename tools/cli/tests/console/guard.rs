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
    let host = ("Host", console.address.as_str());
    for path in [PAGE, "/", "/no/such/page", "/health", "/?find=E"] {
        let response = console.raw("GET", path, &[host], "");
        assert_eq!(response.status, 401, "{path}");
        let page = Page::parse(&response.body);
        let form = page.named("form")[0];
        assert_eq!(
            (form.attribute("method"), form.attribute("action")),
            (Some("post"), Some("/sign-in"))
        );
        assert_eq!(page.field("to"), Some(path));
        // The form reveals nothing about the table, not even its name.
        assert!(!response.body.contains("VersionControl"), "{path}: {response:?}");
        let response = console.raw("GET", path, &[host, ("Accept", "application/json")], "");
        assert_eq!(response.status, 401, "{path}");
        assert!(response.json()["Error"].as_str().unwrap().contains("Bearer"), "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "HEAD"] {
        let response = console.raw(method, PAGE, &[host], "");
        assert!([401, 403].contains(&response.status), "{method}: {response:?}");
    }
}

#[test]
fn the_token_of_an_address_becomes_a_cookie() {
    let (_table, console) = console();
    let host = ("Host", console.address.as_str());
    let token = &console.token;
    assert!(token.len() >= 32, "too short: {token}");
    let port = console.address.rsplit_once(':').unwrap().1;
    for (path, to) in [
        (format!("/entity?id=E&token={token}"), PAGE),
        (format!("/entity?token={token}&id=E"), PAGE),
        (format!("/?token={token}"), "/"),
        // The last token counts.
        (format!("/?token=wrong&token={token}"), "/"),
        (format!("//evil.example/?token={token}"), "/evil.example/"),
        (format!("///evil.example/?token={token}&a=b"), "/evil.example/?a=b"),
        (format!("/\\evil.example?token={token}"), "/"),
        (format!("/\\evil.example/?token={token}&a=b"), "/"),
        (format!("/entity\\?id=E&token={token}"), "/"),
    ] {
        let response = console.raw("GET", &path, &[host], "");
        assert_eq!(
            (response.status, response.header("location")),
            (303, Some(to)),
            "{path}"
        );
        let cookie = response.header("set-cookie").unwrap();
        let (cookie, attributes) = cookie.split_once("; ").unwrap();
        assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Lax; Max-Age=28800");
        let (name, value) = cookie.split_once('=').unwrap();
        assert_eq!(name, format!("vzero-{port}"));
        assert!(value.len() >= 32 && value != token, "the cookie is not the token");
        assert!(is_authorized(&console.raw(
            "GET",
            PAGE,
            &[host, ("Cookie", cookie)],
            ""
        )));
    }
    // The token is removed from the address even with a valid cookie.
    let again = console.get(&format!("/entity?id=E&token={token}"));
    assert_eq!((again.status, again.header("location")), (303, Some(PAGE)));
    for path in [
        "/entity?id=E&token=",
        "/entity?id=E&token=wrong",
        &format!("{PAGE}&token={token}0"),
    ] {
        let response = console.raw("GET", path, &[host], "");
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
    let (name, value) = console.cookie.split_once('=').unwrap();
    let other = format!("{}={}", name, value.replace(value.chars().next().unwrap(), "x"));
    for (header, is_in) in [
        (("Cookie", console.cookie.clone()), true),
        (("Cookie", format!("a=b; {}; c=d", console.cookie)), true),
        (("Cookie", format!("{name}=wrong; {}", console.cookie)), true),
        (("Cookie", other), false),
        (("Cookie", format!("{name}=")), false),
        (("Cookie", format!("{name}={value}x")), false),
        (("Cookie", format!("{name}={}", console.token)), false),
        (("Cookie", format!("vzero-1={value}")), false),
        (("Cookie", value.to_owned()), false),
        (("Authorization", format!("Bearer {}", console.token)), true),
        (("Authorization", format!("Bearer {value}")), false),
        (("Authorization", "Bearer ".to_owned()), false),
        (("Authorization", "Bearer wrong".to_owned()), false),
        (("Authorization", console.token.clone()), false),
        (("Authorization", format!("Basic {}", console.token)), false),
    ] {
        let host = ("Host", console.address.as_str());
        let response = console.raw("GET", PAGE, &[host, (header.0, &header.1)], "");
        assert_eq!(is_authorized(&response), is_in, "{header:?}");
    }
}

#[test]
fn unknown_host_names_are_rejected() {
    let (_table, console) = console();
    let bearer = format!("Bearer {}", console.token);
    let in_by = [("Cookie", console.cookie.as_str()), ("Authorization", &bearer)];
    let port = console.address.rsplit_once(':').unwrap().1;
    for (host, is_own) in [
        (console.address.clone(), true),
        (format!("localhost:{port}"), true),
        (format!("[::1]:{port}"), true),
        (format!("evil.example:{port}"), false),
        ("evil.example".to_owned(), false),
        (format!("127.0.0.1.evil.example:{port}"), false),
        (format!("10.0.0.1:{port}"), false),
        (String::new(), false),
    ] {
        for path in [
            PAGE,
            "/assets/console.css",
            "/sign-in",
            &format!("/?token={}", console.token),
        ] {
            let response = console.raw("GET", path, &[("Host", &host), in_by[0], in_by[1]], "");
            assert_eq!(response.status != 421, is_own, "{host:?} {path}");
            assert!(is_own || response.header("set-cookie").is_none());
        }
    }
    let none = console.raw("GET", PAGE, &in_by, "");
    assert!([400, 421].contains(&none.status), "no Host at all: {none:?}");
    // The request line can contain a host, too.
    let absolute = console.raw(
        "GET",
        &format!("http://evil.example{PAGE}"),
        &[("Host", "evil.example"), in_by[0]],
        "",
    );
    assert_eq!(absolute.status, 421);
}

#[test]
fn forms_of_other_origins_are_rejected() {
    let (_table, console) = console();
    let own = format!("http://{}", console.address);
    let host = ("Host", console.address.as_str());
    let cookie = ("Cookie", console.cookie.as_str());
    let fields = http::form(&[("token", &console.token), ("to", PAGE)]);
    for path in ["/sign-in", "/restore", "/undelete", "/no/such/page", "/"] {
        for origin in [
            None,
            Some("null".to_owned()),
            Some("http://evil.example".to_owned()),
            Some(format!(
                "http://evil.example:{}",
                console.address.rsplit_once(':').unwrap().1
            )),
            Some(format!("{own}.evil.example")),
            Some(format!("{own}0")),
            Some(console.address.clone()),
            Some(format!("ftp://{}", console.address)),
            Some(String::new()),
        ] {
            let mut headers = vec![host, cookie];
            headers.extend(origin.as_deref().map(|origin| ("Origin", origin)));
            let response = console.raw("POST", path, &headers, &fields);
            assert_eq!(response.status, 403, "{path} {origin:?}");
            assert!(
                response.body.contains("another site"),
                "{path} {origin:?}: {response:?}"
            );
            assert!(response.header("set-cookie").is_none());
        }
    }
    // Another name of the console is another origin.
    let port = console.address.rsplit_once(':').unwrap().1;
    let other = format!("http://localhost:{port}");
    let response = console.raw("POST", "/sign-in", &[host, ("Origin", &other)], &fields);
    assert_eq!(response.status, 403);
    let response = console.raw("POST", "/sign-in", &[host, ("Origin", &own)], &fields);
    assert_eq!((response.status, response.header("location")), (303, Some(PAGE)));
}

#[test]
fn forms_without_a_csrf_token_are_rejected() {
    let (_table, console) = console();
    let session = console.cookie.split_once('=').unwrap().1;
    for csrf in [
        None,
        Some(""),
        Some("wrong"),
        Some(console.token.as_str()),
        Some(session),
    ] {
        let fields: Vec<_> = [Some(("id", "E")), csrf.map(|csrf| ("csrf", csrf))]
            .into_iter()
            .flatten()
            .collect();
        for path in ["/restore", "/undelete", "/no/such/page", "/"] {
            let response = console.post(path, &fields);
            assert_eq!(response.status, 403, "{path} {csrf:?}");
            assert!(
                response.body.contains("belongs to another console"),
                "{path} {csrf:?}: {response:?}"
            );
            // The access token does not replace the CSRF token.
            let bearer = format!("Bearer {}", console.token);
            let headers = [("Host", console.address.as_str()), ("Authorization", &bearer)];
            assert_eq!(console.raw("POST", path, &headers, &http::form(&fields)).status, 403);
        }
    }
    for body in ["csrf=%ff", &"x".repeat(100_000)] {
        let origin = format!("http://{}", console.address);
        let headers = [
            ("Host", console.address.as_str()),
            ("Cookie", &console.cookie),
            ("Origin", &origin),
        ];
        assert!([400, 403].contains(&console.raw("POST", "/restore", &headers, body).status));
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
    for fields in [&[][..], &[("token", "")], &[("to", "/")]] {
        let fields = [fields, &[("a", "b")]].concat();
        assert_eq!(console.post("/sign-in", &fields).status, 401, "{fields:?}");
    }
}

#[test]
fn every_response_has_security_headers() {
    let (_table, console) = console();
    let host = ("Host", console.address.as_str());
    let cookie = ("Cookie", console.cookie.as_str());
    let json = ("Accept", "application/json");
    for (method, path, headers, status) in [
        ("GET", PAGE, vec![host, cookie], 200),
        ("GET", PAGE, vec![host, cookie, json], 200),
        ("HEAD", "/assets/icon.svg", vec![host], 200),
        ("GET", "/assets/console.css", vec![host], 200),
        ("GET", "/assets/console.js", vec![host], 200),
        ("GET", "/assets/none", vec![host, cookie], 404),
        ("GET", "/none", vec![host, cookie], 404),
        ("GET", "/entity", vec![host, cookie], 400),
        ("GET", "/entity?id=none", vec![host, cookie, json], 404),
        ("PUT", PAGE, vec![host, cookie], 403),
        ("GET", PAGE, vec![host], 401),
        ("GET", PAGE, vec![("Host", "evil.example")], 421),
        ("GET", &format!("/?token={}", console.token), vec![host], 303),
        ("POST", "/restore", vec![host, cookie], 403),
    ] {
        let response = console.raw(method, path, &headers, "");
        assert_eq!(response.status, status, "{method} {path}");
        let policy = response.header("content-security-policy").unwrap();
        let directives: Vec<_> = policy.split("; ").map(str::trim).collect();
        for needed in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ] {
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
        let host = ("Host", one.address.as_str());
        let (name, _) = one.cookie.split_once('=').unwrap();
        let (_, value) = other.cookie.split_once('=').unwrap();
        let cookie = format!("{name}={value}; {}", other.cookie);
        assert!(!is_authorized(&one.raw("GET", PAGE, &[host, ("Cookie", &cookie)], "")));
        let bearer = format!("Bearer {}", other.token);
        assert!(!is_authorized(&one.raw(
            "GET",
            PAGE,
            &[host, ("Authorization", &bearer)],
            ""
        )));
    }
}
