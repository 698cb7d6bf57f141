//! The verifier of the console and the one of `vzero verify` agree about a proof and its mutations.

use seal::{log::note::VerifierKey, proof::document::Document};
use serde_json::json;
use testkit::pages::root;

use crate::browser::Browser;

/// What is replaced in the document without white space, and by what.
const MUTATIONS: [(&str, &str); 24] = [
    (r#""Version":1,"#, r#""Version":1,"Version":1,"#),
    (r#""Version":1,"#, r#""Version":2,"#),
    (r#""Version":1,"#, r#""Version":01,"#),
    (r#""Version":1,"#, r#""Version":1.0,"#),
    (r#""Version":1,"#, r#""Version":18446744073709551616,"#),
    (r#""Index":0"#, r#""Index":1"#),
    (r#""Index":0,"#, ""),
    (r#""Kind":"Version""#, r#""Kind":"Erase""#),
    (r#""Kind":"Version","Version":1"#, r#""Version":1,"Kind":"Version""#),
    ("Press#12", "Press#13"),
    ("Press#12", r"\u0050ress#12"),
    ("VersionControl", "VersionControl2"),
    ("vzero-proof-1", "vzero-proof-2"),
    ("05050505", "0505050A"),
    (r"example.com/log\n8", r"example.com/log\n9"),
    (r"— example.com/log R", r"— example.com/lag R"),
    ("R4Dxgz", "R4Dxgy"),
    (r#"{"S":"H1"}"#, r#"{"S":"H2"}"#),
    (r#"{"S":"H1"}"#, r#"{"S":"H2","S":"H1"}"#),
    (r#"["Place","Hall"]"#, r#"["Place"]"#),
    (r#"["Place","Hall"]"#, r#"["Place","Rows"]"#),
    (r#"{"M":{}}"#, r#"{"M":{"a":{"S":""}}}"#),
    (
        r#""Withheld":["#,
        r#""Withheld":["0000000000000000000000000000000000000000000000000000000000000000","#,
    ),
    (r#""Inclusion":["8a"#, r#""Inclusion":["8b"#),
];

impl Browser {
    pub(crate) async fn verifies_proofs(&self) {
        let read = |name: &str| std::fs::read_to_string(root().join("tools/seal/example").join(name)).unwrap();
        let (proof, vkey) = (read("proof.json"), read("vkey"));
        let key = VerifierKey::parse(&vkey).unwrap();
        let compact = serde_json::to_string(&Document::parse(&proof).unwrap()).unwrap();
        let mut texts = vec![proof, compact.clone()];
        texts.extend(MUTATIONS.map(|(from, to)| compact.replacen(from, to, 1)));
        let holds = |text: &String| Document::parse(text).is_ok_and(|proof| proof.verify(&key).is_ok());
        let expected: Vec<_> = texts.iter().map(holds).collect();
        assert_eq!(expected.iter().filter(|holds| **holds).count(), 2);
        let script = format!(
            "import('/assets/verify.js').then((module) => Promise.all({}.map((text) => module.verify(text, {}).then(() => true, () => false))))
                .then(arguments[0]);",
            json!(texts),
            json!(vkey)
        );
        assert_eq!(self.async_script(&script).await, json!(expected));
    }
}
