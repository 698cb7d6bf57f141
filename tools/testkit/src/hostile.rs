//! Documents that harm programs which trust their input.

/// Name that the deserializer of `serde_json::Value` reserves for JSON text.
pub const RAW_VALUE: &str = "$serde_json::private::RawValue";
/// Name that it reserves for a number.
pub const NUMBER: &str = "$serde_json::private::Number";

/// Returns objects whose only member is [`RAW_VALUE`], with JSON text that has the next one, each inside of lists. The deserializer
/// of `serde_json::Value` reads the texts inside of each other, each with its own limit of nesting: with 120 lists and 40 objects or
/// more, its stack overflows.
pub fn overflow(lists: usize, objects: usize) -> String {
    let (begin, end) = ("[".repeat(lists), "]".repeat(lists));
    (0..objects).fold("1".to_owned(), |text, _| {
        // Escapes of a fixed length: the document grows with the square of the number of objects, and does not double.
        let text = text.replace('\\', "\\u005c").replace('"', "\\u0022");
        format!("{begin}{{\"{RAW_VALUE}\":\"{text}\"}}{end}")
    })
}

/// Returns bytes that no compression makes smaller, in base64.
pub fn incompressible(bytes: usize) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut rng = fastrand::Rng::with_seed(1);
    (0..bytes / 3 * 4)
        .map(|_| char::from(DIGITS[rng.usize(..64)]))
        .collect()
}
