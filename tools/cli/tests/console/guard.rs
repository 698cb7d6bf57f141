//! Access control: tokens, cookies, hosts, origins and CSRF tokens, and requests at the limits of their sizes.

use std::thread;

use testkit::table::Table;

use crate::{
    http::{self, encoded},
    new_table,
    served::{Console, PAGE},
};

fn console() -> (Table, Console) {
    let table = new_table();
    table.write_versions("E", 1);
    let console = Console::writing(&table);
    (table, console)
}

#[test]
fn without_a_token_the_sign_in_form_is_shown() {
    let (table, console) = console();
    for path in [PAGE, "/", "/no/such/page", "/health", "/?find=E"] {
        // The form reveals nothing about the table, not even its name.
        console.requests(&format!(
            "
            GET {path} => 401 | field to: {path} | ~ action=\"/sign-in\" | !~ VersionControl | !~ Latest
            GET {path} | Accept: application/json => 401 | ~ Bearer
            "
        ));
    }
    let methods = ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "HEAD"];
    console.requests(&methods.map(|method| format!("{method} {{page}} => 401,403")).join("\n"));
    // Style, script, icon and the sign-in form need no token, and reveal nothing.
    for path in [
        "/assets/console.css",
        "/assets/none",
        "/assets/",
        "/sign-in",
        "/sign-in/",
    ] {
        for method in ["GET", "HEAD", "PUT", "PATCH", "OPTIONS"] {
            for token in ["", "?token=wrong", "?token="] {
                let (own, name) = ("Origin: http://{address}", &table.name);
                let nothing = "set-cookie: | location: | !~ writes are allowed";
                console.requests(&format!("{method} {path}{token} | {own} => {nothing} | !~ {name}"));
            }
        }
    }
}

#[test]
fn the_token_of_an_address_becomes_a_cookie() {
    let (_table, console) = console();
    assert!(console.token.len() >= 32 && console.fill("{value}").len() >= 32);
    assert_ne!(console.fill("{value}"), console.token);
    console.requests(&format!("GET {PAGE} | Cookie: {{name}}={{value}} => 200 | ~ Latest"));
    assert_eq!(console.fill("{name}"), format!("vzero-{}", console.port));
    let signed_in = "set-cookie: {cookie}; Path=/; HttpOnly; SameSite=Strict";
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
        // The token is removed from the address even with a cookie. A request for a preview gets none.
        console.requests(&format!(
            "
            GET {path} => 303 | location: {to} | {signed_in}
            GET {path} | Cookie: {{cookie}} => 303 | location: {to}
            HEAD {path} | Cookie: {{cookie}} => 303 | location: {to} | set-cookie:
            HEAD {path} => 401 | set-cookie:
            GET {path} | Sec-Purpose: prefetch;prerender => 401 | set-cookie:
            GET {path} | Purpose: prefetch => 401 | set-cookie:
            "
        ));
    }
    for token in ["", "wrong", "{token}0"] {
        let invalid = "401 | ~ Invalid token. | field to: {page} | set-cookie: | !~ {token}";
        console.requests(&format!(
            "
            GET {PAGE}&token={token} => {invalid}
            GET {PAGE}&token={token} | Cookie: {{cookie}} => 303 | location: {{page}} | set-cookie:
            POST /restore?token={{token}} | Origin: http://{{address}} | form: csrf=x => 401 | set-cookie:
            "
        ));
    }
}

#[test]
fn only_valid_cookies_and_bearer_tokens_are_accepted() {
    let (table, console) = console();
    let value = console.fill("{value}");
    let other = value.replace(&value[..1], "x");
    console.requests(&format!(
        "
        GET {{page}} | Cookie: {{name}}={{value}} => 200
        GET {{page}} | Cookie: a=b; {{name}}={{value}}; c=d => 200
        GET {{page}} | Cookie: {{name}}=wrong; {{name}}={{value}} => 200
        GET {{page}} | Cookie: {{name}}=wrong | Cookie: {{name}}={{value}} => 200
        GET {{page}} | Cookie: {{name}}={{value}} | Cookie: {{name}}=wrong => 200
        GET {{page}} | Cookie: {{name}}=wrong | Cookie: a=b => 401
        GET {{page}} | Cookie: {{name}}={other} => 401
        GET {{page}} | Cookie: {{name}}= => 401
        GET {{page}} | Cookie: {{name}}={{value}}x => 401
        GET {{page}} | Cookie: {{name}}=\"{{value}}\" => 401
        GET {{page}} | Cookie: {{name}}={{token}} => 401
        GET {{page}} | Cookie: {{name}} => 401
        GET {{page}} | Cookie: ;;=;=; => 401
        GET {{page}} | Cookie: vzero-1={{value}} => 401
        GET {{page}} | Cookie: {{value}} => 401
        GET {{page}} | Authorization: Bearer {{token}} => 200
        GET {{page}} | Authorization: Bearer {{value}} => 401
        GET {{page}} | Authorization: Bearer => 401
        GET {{page}} | Authorization: Bearer wrong => 401
        GET {{page}} | Authorization: {{token}} => 401
        GET {{page}} | Authorization: Basic {{token}} => 401
        "
    ));
    // Consoles do not share tokens and cookies.
    let second = Console::of(&table);
    for (one, other) in [(&console, &second), (&second, &console)] {
        let (value, cookie) = (other.fill("{value}"), &other.cookie);
        one.requests(&format!(
            "
            GET {{page}} | Cookie: {{name}}={value}; {cookie} => 401 | !~ Latest
            GET {{page}} | Authorization: Bearer {} => 401 | !~ Latest
            ",
            other.token
        ));
    }
}

/// The unit tests of the crate have more host names.
#[test]
fn hosts_and_origins_of_others_are_rejected() {
    let (_table, console) = console();
    for path in [PAGE, "/assets/console.css", "/sign-in", "/?token={token}"] {
        let signed_in = "Cookie: {cookie} | Authorization: Bearer {token}";
        for host in ["{address}", "localhost:{port}", "[::1]:{port}"] {
            console.requests(&format!("GET {path} | Host: {host} | {signed_in} => 200,303,401"));
        }
        for host in [
            "evil.example:{port}",
            "127.0.0.1.evil.example:{port}",
            "10.0.0.1:{port}",
            "",
        ] {
            console.requests(&format!("GET {path} | Host: {host} | {signed_in} => 421 | set-cookie:"));
        }
    }
    console.requests("GET http://evil.example{page} | Host: evil.example | Cookie: {cookie} => 421");
    let form = "form: token={token}&to=%2Fentity%3Fid%3DE";
    for path in ["/sign-in", "/restore", "/undelete", "/no/such/page", "/"] {
        // Another name of the console is another origin.
        for origin in [
            " | Origin: null",
            " | Origin: http://evil.example",
            " | Origin: http://evil.example:{port}",
            " | Origin: http://{address}.evil.example",
            " | Origin: http://{address}0",
            " | Origin: http://localhost:{port}",
            " | Origin: {address}",
            " | Origin: ftp://{address}",
            " | Origin:",
            "",
        ] {
            console.requests(&format!(
                "POST {path} | Cookie: {{cookie}}{origin} | {form} => 403 | ~ another site | set-cookie:"
            ));
        }
    }
    console.requests(&format!(
        "POST /sign-in | Origin: http://{{address}} | {form} => 303 | location: {{page}}"
    ));
}

#[test]
fn forms_without_a_csrf_token_are_rejected() {
    let (_table, console) = console();
    let many = (0..9000).map(|n| format!("p{n}=x&")).collect::<Vec<_>>().concat();
    for path in ["/restore", "/undelete", "/health/audit", "/no/such/page", "/"] {
        for form in [
            "id=E",
            "id=E&csrf=",
            "id=E&csrf=wrong",
            "id=E&csrf={token}",
            "id=E&csrf={value}",
        ] {
            // The access token does not replace the CSRF token.
            console.requests(&format!(
                "
                POST {path} | Cookie: {{cookie}} | Origin: http://{{address}} | form: {form} => 403 | ~ belongs to another console
                POST {path} | Authorization: Bearer {{token}} | form: {form} => 403
                "
            ));
        }
        let (large, signed_in) = ("x".repeat(100_000), "Authorization: Bearer {token}");
        for form in ["csrf=%ff", &large, &many] {
            console.requests(&format!("POST {path} | {signed_in} | form: {form} => 400,403"));
        }
    }
    let (large, many) = ("x".repeat(65_000), &many);
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
        let (to, own) = (encoded(to), "Origin: http://{address}");
        console.requests(&format!(
            "
            POST /sign-in | {own} | form: token={{token}}&to={to} => 303 | location: {target}
            POST /sign-in | {own} | form: token=wrong&to={to} => 401 | set-cookie: | field to: {target}
            "
        ));
    }
    for fields in ["a=b", "token=&a=b", "to=%2F&a=b"] {
        console.requests(&format!(
            "POST /sign-in | Origin: http://{{address}} | form: {fields} => 401"
        ));
    }
}

#[test]
fn every_response_has_security_headers() {
    let (_table, console) = console();
    // With "no-referrer", browsers would send forms with the Origin "null".
    let headers = "x-content-type-options: nosniff | x-frame-options: DENY | cache-control: no-store | vary: Accept, Cookie | \
                   cross-origin-opener-policy: same-origin | cross-origin-resource-policy: same-origin | \
                   referrer-policy: same-origin | access-control-allow-origin: | content-security-policy: default-src 'none'; \
                   script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; \
                   frame-ancestors 'none'";
    for request in "\
        GET {page} | Cookie: {cookie} => 200
        GET {page} | Cookie: {cookie} | Accept: application/json => 200
        HEAD /assets/icon.svg => 200
        GET /assets/console.css => 200
        GET /assets/console.js => 200
        GET /assets/none | Cookie: {cookie} => 404
        GET /none | Cookie: {cookie} => 404
        GET /entity | Cookie: {cookie} => 400
        GET /entity?id=none | Cookie: {cookie} | Accept: application/json => 404
        PUT {page} | Cookie: {cookie} => 403
        GET {page} => 401
        GET /?token={token} => 303
        POST /restore | Cookie: {cookie} => 403
        GET http://evil.example/ | Host: evil.example => 421"
        .lines()
    {
        console.requests(&format!("{request} | {headers}"));
    }
}

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
        let answer = http::try_send(console.port, request);
        assert!(
            ["HTTP/1.1 401", "HTTP/1.1 414", "HTTP/1.1 431", ""].contains(&answer.as_str()),
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
