//! Texts after the start: the endpoints of the stack, and what to try.

use history_console::Console;

use crate::stack::Stack;

/// Returns the addresses and folders of the stack, one in each line.
pub fn endpoints(stack: &Stack, console: Option<&Console>) -> String {
    let tables = match stack.store.own_history() {
        Some(history) => format!("tables {}, {history}", stack.table),
        None => format!("table {}", stack.table),
    };
    let functions = match stack.store.attached_table() {
        Some(_) => "stream-fn",
        None => "writer-fn, stream-fn",
    };
    let mut lines = format!(
        "DynamoDB  {}  ({tables})\nLambda    {}  ({functions})\nfailures  {}\nlogs      {}",
        stack.dynamodb_endpoint(),
        stack.lambda.endpoint(),
        stack.failed.display(),
        stack.logs.display(),
    );
    if let Some(console) = console {
        lines.extend(["\nconsole   ", console.url()]);
    }
    lines
}

/// Returns commands that send an update and read its history, and the address of the console. The address is no argument of a
/// command, because other users of the machine can read arguments, and it contains the access token.
pub fn to_try(stack: &Stack, console: Option<&Console>) -> String {
    let browse = match console {
        Some(_) => ", and open it in your web browser",
        None => "",
    };
    let mut text = format!(
        "Serving until Ctrl-C. Send an update, read its history{browse}:

  curl {lambda}/2015-03-31/functions/writer-fn/invocations \\
    -d '{{\"ID\": \"Equipment#1\", \"State\": \"OK\"}}'
  cargo run -p vzero -- --endpoint-url {dynamodb} history Equipment#1",
        lambda = stack.lambda.endpoint(),
        dynamodb = stack.dynamodb_endpoint(),
    );
    if let Some(console) = console {
        text.extend(["\n  ", console.url()]);
    }
    text
}
