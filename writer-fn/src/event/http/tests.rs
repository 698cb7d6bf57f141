use serde_json::json;
use shared::logging::chain;
use testkit::cases::{cases, patched};

use super::*;
use crate::error::Error;

fn event() -> Value {
    json!({
        "version": "2.0", "rawPath": "/updates", "rawQueryString": "ID=other",
        "headers": {"content-type": "application/json", "if-match": "\"7\"", "idempotency-key": "key-1", "x-sender": "other"},
        "requestContext": {
            "authorizer": {"iam": {"userArn": "arn:user", "callerId": "AIDA"}},
            "http": {"method": "POST", "path": "/updates"}, "requestId": "gateway",
        },
        "body": r#"{"ID": "E", "State": "OK"}"#, "isBase64Encoded": false,
    })
}

fn opened(event: &str) -> Result<Option<Update>, InvalidEvent> {
    let members = json::members(event).unwrap();
    let request = HttpRequest::find(event, &members)?;
    request
        .map(|request| request.open("invocation", Ordering::Arrival))
        .transpose()
}

/// Returns the caller, the id of the request and the expected version, or the error.
fn found(event: &str) -> String {
    match opened(event).map_err(Error::from) {
        Ok(None) => "no request".to_owned(),
        Ok(Some(update)) => {
            assert_eq!(update.entity.as_str(), "E");
            let expected = update.expected.map(|expected| format!(" {}", expected.number()));
            format!(
                "{} {}{}",
                update.sender.unwrap_or_default(),
                update.request_id.as_str(),
                expected.unwrap_or_default()
            )
        }
        Err(error) => {
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
            chain(&error).trim_start_matches("the event is invalid: ").to_owned()
        }
    }
}

#[test]
fn what_is_read_of_a_request() {
    const REQUESTS: &str = r#"
        ["/unused", null]                            -> arn:user key-1 7
        ["/isBase64Encoded"]                         -> arn:user key-1 7
        ["/cookies", 7]                              -> arn:user key-1 7
        ["/requestContext/authorizer/iam/callerId"]  -> arn:user key-1 7
        ["/headers/x-sender", null]                  -> arn:user key-1 7
        ["/body", "eyJJRCI6IkUifQ=="]                -> it is not JSON, or nested too deeply
        // The caller.
        ["/requestContext/authorizer", {"jwt": {"claims": {"sub": "amy", "iss": "x"}, "scopes": null}}] -> amy key-1 7
        ["/requestContext/authorizer/iam/userArn", ""]   -> the request has no caller: it requires AWS_IAM or a JWT authorizer
        ["/requestContext/authorizer/iam/userArn", null] -> the request has no caller: it requires AWS_IAM or a JWT authorizer
        ["/requestContext/authorizer/iam/userArn", 7]    -> the request has no caller: it requires AWS_IAM or a JWT authorizer
        ["/requestContext/authorizer/iam"]               -> the request has no caller: it requires AWS_IAM or a JWT authorizer
        ["/requestContext/authorizer", {"lambda": {"sub": "amy"}}]     -> the request has no caller: it requires AWS_IAM or a JWT authorizer
        ["/requestContext/authorizer", {"jwt": {"claims": {"sub": {}}}}] -> the request has no caller: it requires AWS_IAM or a JWT authorizer
        ["/requestContext/authorizer", null]             -> the request has no caller: it requires AWS_IAM or a JWT authorizer
        ["/requestContext/authorizer"]                   -> the request has no caller: it requires AWS_IAM or a JWT authorizer
        ["/body", "{\"ID\": \"E\", \"Sender\": \"secret\"}"] -> Sender is reserved
        // The source of an envelope is a claim.
        ["/body", "{\"detail-type\": \"t\", \"source\": \"secret\", \"detail\": {\"ID\": \"E\"}}"] -> ID is missing
        // Method and content.
        ["/requestContext/http/method", "GET"]           -> the method is not POST
        ["/requestContext/http/method", "post"]          -> the method is not POST
        ["/requestContext/http/method"]                  -> the method is not POST
        ["/requestContext/http", null]                   -> the method is not POST
        ["/headers/content-type", "Application/JSON; charset=utf-8"] -> arn:user key-1 7
        ["/headers/content-type", "application/json,text/secret"]    -> content-type is not application/json
        ["/headers/content-type", "application/x-www-form-urlencoded"] -> content-type is not application/json
        ["/headers/content-type"]                        -> content-type is not application/json
        ["/headers/content-type", ["application/json"]]  -> the header content-type is not one string
        ["/headers/Content-Type", "application/json"]    -> the header content-type is not one string
        ["/headers/content-encoding", "gzip"]            -> content-encoding is not supported
        ["/headers/content-encoding", "identity"]        -> arn:user key-1 7
        ["/headers", null]                               -> content-type is not application/json
        ["/headers", [7]]                                -> content-type is not application/json
        // Applied once only with this header.
        ["/headers/idempotency-key"]                     -> arn:user invocation 7
        ["/headers/idempotency-key", " key-2 "]          -> arn:user key-2 7
        ["/headers/idempotency-key", ""]                 -> idempotency-key is not 1 to 1,000 visible ASCII characters without a comma
        ["/headers/idempotency-key", "secret,secret"]    -> idempotency-key is not 1 to 1,000 visible ASCII characters without a comma
        ["/headers/idempotency-key", "a b"]              -> idempotency-key is not 1 to 1,000 visible ASCII characters without a comma
        ["/headers/idempotency-key", "ä"]                -> idempotency-key is not 1 to 1,000 visible ASCII characters without a comma
        ["/headers/idempotency-key", null]               -> the header idempotency-key is not one string
        ["/headers/Idempotency-Key", "key-1"]            -> the header idempotency-key is not one string
        ["/body", "{\"ID\": \"E\", \"RequestId\": \"secret\"}"] -> RequestId in the body: use the header idempotency-key
        // Optimistic locking.
        ["/headers/if-match"]                            -> arn:user key-1
        ["/headers/if-match", "\"9223372036854775807\""] -> arn:user key-1 9223372036854775807
        ["/headers/if-match", "7"]                       -> if-match is not one ETag of a version, such as "7"
        ["/headers/if-match", "\""]                      -> if-match is not one ETag of a version, such as "7"
        ["/headers/if-match", "\"\""]                    -> if-match is not one ETag of a version, such as "7"
        ["/headers/if-match", "\"0\""]                   -> if-match is not one ETag of a version, such as "7"
        ["/headers/if-match", "\"07\""]                  -> if-match is not one ETag of a version, such as "7"
        ["/headers/if-match", "\"+7\""]                  -> if-match is not one ETag of a version, such as "7"
        ["/headers/if-match", "\"9223372036854775808\""] -> if-match is not one ETag of a version, such as "7"
        ["/headers/if-match", "W/\"7\""]                 -> if-match is not one ETag of a version, such as "7"
        ["/headers/if-match", "\"7\",\"8\""]             -> if-match is not one ETag of a version, such as "7"
        ["/headers/if-match", "*"]                       -> if-match is not one ETag of a version, such as "7"
        ["/headers/if-match", "\"secret\""]              -> if-match is not one ETag of a version, such as "7"
        ["/headers/if-match", 7]                         -> the header if-match is not one string
        ["/headers/if-none-match", "*"]                  -> if-none-match is not * alone
        ["/body", "{\"ID\": \"E\", \"ExpectedVersion\": 7}"] -> ExpectedVersion in the body: use the header if-match, or if-none-match
        // The body.
        ["/isBase64Encoded", true]                       -> it is not base64
        ["/isBase64Encoded", "true"]                     -> isBase64Encoded is not true or false
        ["/body", null]                                  -> it is not JSON, or nested too deeply
        ["/body"]                                        -> it is not JSON, or nested too deeply
        ["/body", {"ID": "E"}]                           -> it is not JSON, or nested too deeply
        ["/body", "[{\"ID\": \"E\"}]"]                   -> the update is not a JSON object
        ["/body", "{\"Updates\": [{\"ID\": \"E\"}, {\"ID\": \"F\"}]}"] -> Updates in the body: a request has one update
        // Other events.
        ["/version", "1.0"]                              -> the HTTP request does not have the payload format version 2.0
        ["/version"]                                     -> the HTTP request does not have the payload format version 2.0
        ["/httpMethod", "POST"]                          -> the HTTP request does not have the payload format version 2.0
        ["/requestContext", {"requestId": "r", "condition": "Success"}] -> no request
        ["/requestContext"]                              -> no request
        ["/ID", "F"]                                     -> no request
    "#;
    for (patch, expected) in cases(REQUESTS) {
        assert_eq!(found(&patched(event(), &patch).to_string()), expected, "{patch}");
    }
    let mut created = event();
    let headers = created["headers"].as_object_mut().unwrap();
    headers.remove("if-match");
    headers.insert("if-none-match".to_owned(), json!("*"));
    created["isBase64Encoded"] = json!(true);
    created["body"] = json!("eyJJRCI6ICJFIn0=");
    assert_eq!(found(&created.to_string()), "arn:user key-1 0");
    // The last member of a name counts, but not of headers.
    let twice = |name: &str, member: &str| event().to_string().replacen(name, &format!("{member},{name}"), 1);
    assert_eq!(
        found(&twice(r#""userArn""#, r#""userArn":"first""#)),
        "arn:user key-1 7"
    );
    let error = "the header if-match is not one string";
    assert_eq!(found(&twice(r#""if-match""#, r#""if-match":"\"7\"""#)), error);
    let deep = format!(r#"{{"ID":"E","A":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let deep = patched(event(), &json!(["/body", deep]));
    assert_eq!(found(&deep.to_string()), "it is not JSON, or nested too deeply");
}
