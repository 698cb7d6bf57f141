//! The Lambda function `seal-fn`.

fn main() {}
