# The commands of a working day. `just` lists them.

_default:
    @just --list

# the whole stack on this machine
run *ARGS:
    cargo run -p local -- {{ARGS}}

# all tests
test:
    cargo test --workspace

# boto3 and the AWS CLI as clients of the local stack
clients *ARGS:
    tools/local/tests/with-clients {{ARGS}}

# the local stack and redrive with queues and a bucket, against S3 and SQS (moto)
queues:
    tools/cli/tests/with-moto cargo test --workspace --test queues

# the console in a browser: chromium, chromedriver and npm; with names, the paths that are called so
browser *ARGS:
    tools/cli/tests/with-browser cargo test --workspace --test console_browser -- {{ARGS}}

# the pages' commands that need more than Rust: the AWS CLI, the SAM CLI, cargo-lambda
docs:
    tools/check-docs

# the suite that runs on any engine
suite := "cargo test -p local -p vzero --test library --test stack --test vzero --test operations --test redrive --test repair"

# the integration suite on Amazon's DynamoDB Local: npm and a JDK
conformance *ARGS:
    tools/local/tests/with-dynamodb-local {{suite}} {{ARGS}}

# the integration suite on MiniStack
conformance-ministack *ARGS:
    tools/local/tests/with-ministack {{suite}} {{ARGS}}

# the integration suite on AWS, with the credentials and the Region of the usual chain. It makes tables, and deletes them
conformance-aws *ARGS:
    VZERO_TEST_ENDPOINT=aws {{suite}} {{ARGS}}

# what CI checks besides
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    sam validate --lint

# one fuzz target, until it finds something: `just fuzz update -- -max_total_time=60`; it needs cargo-fuzz and a nightly compiler
fuzz TARGET *ARGS:
    cargo +nightly fuzz run --fuzz-dir tools/fuzz -s none {{TARGET}} {{ARGS}}

# the promises under faults, in virtual time: `just simulation --schedules 10000 --seed 1`
simulation *ARGS:
    cargo run --release -p simulation -- {{ARGS}}

# what bench measures our functions against: `just peers` installs all of them
peers *ARGS:
    tools/bench/peers/install {{ARGS}}

# the functions side by side with their peers: `just bench start 'cold path'`
bench *ARGS:
    cargo run --release -p bench -- {{ARGS}}

# many updates through functions that are killed, on Amazon's DynamoDB Local
soak *ARGS:
    tools/soak {{ARGS}}

# all that CI does
ci:
    .ci/run

# look at changed request snapshots
review:
    cargo insta review

# the functions as they are deployed, built and tried
build:
    tools/deploy/build

# the stack in an emulated AWS: `just build emulate`
emulate:
    tools/deploy/emulate

deploy *ARGS:
    sam build
    sam deploy {{ARGS}}
