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
    let host = ("Host", console.address.as_str());
    let origin = format!("http://{}", console.address);
    let sign_in = || {
        let response = console.raw("GET", &format!("/?token={}", console.token), &[host], "");
        let cookie = response.header("set-cookie").unwrap().split(';').next().unwrap();
        cookie.to_owned()
    };
    let (one, other) = (sign_in(), sign_in());
    assert_ne!(one, other);
    let get = |path: &str, cookie: &str| console.raw("GET", path, &[host, ("Cookie", cookie)], "");
    let footer = Page::parse(&get(PAGE, &one).body);
    assert!(footer.links().contains(&"/sign-out"));
    let page = Page::parse(&get("/sign-out", &one).body);
    let fields = http::form(&[("csrf", page.field("csrf").unwrap())]);
    let post = |cookie: &str, fields: &str| {
        console.raw(
            "POST",
            "/sign-out",
            &[host, ("Cookie", cookie), ("Origin", &origin)],
            fields,
        )
    };
    // Another site cannot sign the user out.
    assert_eq!(post(&one, "csrf=wrong").status, 403);
    assert!(is_authorized(&get(PAGE, &one)));
    let response = post(&one, &fields);
    let port = console.address.rsplit_once(':').unwrap().1;
    let removed = format!("vzero-{port}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0");
    assert_eq!((response.status, response.header("location")), (303, Some("/")));
    assert_eq!(response.header("set-cookie"), Some(removed.as_str()));
    assert!(!is_authorized(&get(PAGE, &one)) && is_authorized(&get(PAGE, &other)));
    assert_eq!(get("/sign-out", &one).status, 401);
}

#[test]
fn the_printed_address_starts_a_session_only_when_it_is_visited() {
    let (_table, console) = console();
    let host = ("Host", console.address.as_str());
    let cookie = ("Cookie", console.cookie.as_str());
    let path = format!("/?token={}", console.token);
    let prefetch = ("Sec-Purpose", "prefetch;prerender");
    for (method, headers, status) in [
        ("HEAD", vec![host], 401),
        ("GET", vec![host, prefetch], 401),
        ("HEAD", vec![host, cookie], 303),
        ("GET", vec![host, cookie], 303),
        ("GET", vec![host, cookie, prefetch], 303),
    ] {
        // More than the maximum number of sessions.
        for _ in 0..100 {
            let response = console.raw(method, &path, &headers, "");
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
    let host = ("Host", console.address.as_str());
    let own = format!("http://{}", console.address);
    let origin = ("Origin", own.as_str());
    for (referer, to) in [
        (None, "/"),
        (Some(format!("{own}/restore?id=E&version=1")), "/restore?id=E&version=1"),
        (Some(format!("{own}/health")), "/health"),
        (Some(format!("{own}/health?token=old&a=b")), "/health?a=b"),
        (Some(own.clone()), "/"),
        (Some(format!("{own}//evil.example/")), "/"),
        (Some(format!("{own}/\\evil.example/")), "/"),
        (Some(format!("{own}0/health")), "/"),
        (Some("http://evil.example/health".to_owned()), "/"),
        (Some(format!("ftp://{}/health", console.address)), "/"),
        (Some("/health".to_owned()), "/"),
        (Some(String::new()), "/"),
    ] {
        for path in ["/health/audit", "/restore?token=wrong"] {
            let mut headers = vec![host, origin];
            headers.extend(referer.as_deref().map(|referer| ("Referer", referer)));
            let response = console.raw("POST", path, &headers, "csrf=x");
            assert_eq!(response.status, 401, "{path} {referer:?}");
            let page = Page::parse(&response.body);
            assert_eq!(page.field("to"), Some(to), "{path} {referer:?}");
            assert!(page.text.contains("the form was not sent"), "{page:?}");
        }
    }
    let page = Page::parse(&console.raw("GET", PAGE, &[host], "").body);
    assert!(!page.text.contains("the form was not sent"), "{page:?}");
}
