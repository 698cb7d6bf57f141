//! The start and the end of sessions.

use crate::{
    guard::{PAGE, console, is_authorized},
    html::Page,
    http,
};

/// Style, script, icon and the sign-in form need no token.
#[test]
fn addresses_that_need_no_token_start_no_session() {
    let (table, console) = console();
    let own = format!("http://{}", console.address);
    let headers = [("Host", console.address.as_str()), ("Origin", own.as_str())];
    for path in [
        "/assets/console.css",
        "/assets/none",
        "/assets/",
        "/sign-in",
        "/sign-in/",
    ] {
        for method in ["GET", "HEAD", "PUT", "PATCH", "OPTIONS"] {
            for token in ["", "?token=wrong", "?token="] {
                let response = console.raw(method, &format!("{path}{token}"), &headers, "");
                assert!(response.header("set-cookie").is_none(), "{method} {path}{token}");
                assert!(response.header("location").is_none(), "{method} {path}{token}");
                assert!(
                    !response.body.contains(&table.name) && !response.body.contains("read-only"),
                    "{method} {path}{token}: {response:?}"
                );
            }
        }
    }
}

#[test]
fn each_sign_in_has_its_own_session_until_sign_out() {
    let (_table, console) = console();
    let (one, other) = (console.sign_in(), console.sign_in());
    assert_ne!(one, other);
    let get = |path: &str, cookie: &str| console.plain("GET", path, &[("Cookie", cookie)]);
    assert!(Page::parse(&get(PAGE, &one).body).links().contains(&"/sign-out"));
    let page = Page::parse(&get("/sign-out", &one).body);
    let fields = http::form(&[("csrf", page.field("csrf").unwrap())]);
    let origin = console.origin();
    let headers = [
        ("Host", console.address.as_str()),
        ("Cookie", &one),
        ("Origin", &origin),
    ];
    let post = |fields: &str| console.raw("POST", "/sign-out", &headers, fields);
    // Another site cannot sign the user out.
    assert_eq!(post("csrf=wrong").status, 403);
    assert!(is_authorized(&get(PAGE, &one)));
    let response = post(&fields);
    let removed = console.fill("vzero-{port}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0");
    assert_eq!((response.status, response.header("location")), (303, Some("/")));
    assert_eq!(response.header("set-cookie"), Some(removed.as_str()));
    assert!(!is_authorized(&get(PAGE, &one)) && is_authorized(&get(PAGE, &other)));
    assert_eq!(get("/sign-out", &one).status, 401);
}

#[test]
fn the_printed_address_starts_a_session_only_when_it_is_visited() {
    let (_table, console) = console();
    let cookie = ("Cookie", console.cookie.as_str());
    let path = format!("/?token={}", console.token);
    let prefetch = ("Sec-Purpose", "prefetch;prerender");
    for (method, headers, status) in [
        ("HEAD", &[][..], 401),
        ("GET", &[prefetch], 401),
        ("HEAD", &[cookie], 303),
        ("GET", &[cookie], 303),
        ("GET", &[cookie, prefetch], 303),
    ] {
        // More than the maximum number of sessions.
        for _ in 0..100 {
            let response = console.plain(method, &path, headers);
            assert_eq!(response.status, status, "{method} {headers:?}");
            assert_eq!(response.header("set-cookie"), None, "{method} {headers:?}");
            assert_eq!(response.header("location"), (status == 303).then_some("/"));
        }
        assert!(is_authorized(&console.get(PAGE)), "{method} {headers:?}");
    }
}

#[test]
fn after_the_session_sign_in_leads_to_the_page_of_the_form() {
    let (_table, console) = console();
    let own = console.origin();
    for (referer, to) in [
        (None, "/"),
        (
            Some("http://{address}/restore?id=E&version=1"),
            "/restore?id=E&version=1",
        ),
        (Some("http://{address}/health"), "/health"),
        (Some("http://{address}/health?token=old&a=b"), "/health?a=b"),
        (Some("http://{address}"), "/"),
        (Some("http://{address}//evil.example/"), "/"),
        (Some("http://{address}/\\evil.example/"), "/"),
        (Some("http://{address}0/health"), "/"),
        (Some("http://evil.example/health"), "/"),
        (Some("ftp://{address}/health"), "/"),
        (Some("/health"), "/"),
        (Some(""), "/"),
    ] {
        let filled = referer.map(|referer| console.fill(referer));
        for path in ["/health/audit", "/restore?token=wrong"] {
            let mut headers = vec![("Host", console.address.as_str()), ("Origin", &own)];
            headers.extend(filled.as_deref().map(|referer| ("Referer", referer)));
            let response = console.raw("POST", path, &headers, "csrf=x");
            assert_eq!(response.status, 401, "{path} {referer:?}");
            let page = Page::parse(&response.body);
            assert_eq!(page.field("to"), Some(to), "{path} {referer:?}");
            assert!(page.text.contains("the form was not sent"), "{page:?}");
        }
    }
    let page = Page::parse(&console.plain("GET", PAGE, &[]).body);
    assert!(!page.text.contains("the form was not sent"), "{page:?}");
}
