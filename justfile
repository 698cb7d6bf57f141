# Commands for development. `just` lists them.

_default:
    @just --list

# run the whole stack on this machine
run *ARGS:
    cargo run -p local -- {{ARGS}}

# run all tests
test:
    cargo test --workspace

# test the local stack with boto3 and the AWS CLI as clients
clients *ARGS:
    tools/local/tests/with-clients {{ARGS}}

# test redrive with queues and a bucket, on S3 and SQS (moto)
queues:
    tools/cli/tests/with-moto cargo test --workspace --test queues

# test the console in a browser (requires chromium, chromedriver and npm); names select tests
browser *ARGS:
    tools/cli/tests/with-browser cargo test --workspace --test console_browser -- {{ARGS}}

# test the commands in the documentation that need the AWS CLI, the SAM CLI or cargo-lambda
docs:
    tools/check-docs

# the integration suite that runs on any engine
suite := "cargo test -p local -p patterns -p vzero --test library --test patterns --test stack --test vzero --test operations --test redrive --test repair --test console --test quarantine"

# run the integration suite on DynamoDB Local (requires npm and a JDK)
conformance *ARGS:
    tools/local/tests/with-dynamodb-local {{suite}} {{ARGS}}

# run the integration suite on MiniStack
conformance-ministack *ARGS:
    tools/local/tests/with-ministack {{suite}} {{ARGS}}

# run the integration suite on AWS, with the default credentials and Region; creates and deletes tables
conformance-aws *ARGS:
    VZERO_TEST_ENDPOINT=aws {{suite}} {{ARGS}}

# check format, lints and template
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    sam validate --lint

# run a fuzz target until it finds a failure: `just fuzz update -- -max_total_time=60` (requires cargo-fuzz and nightly Rust)
fuzz TARGET *ARGS:
    cargo +nightly fuzz run --fuzz-dir tools/fuzz -s none {{TARGET}} {{ARGS}}

# run the simulation with injected faults: `just simulation --schedules 10000 --seed 1`
simulation *ARGS:
    cargo run --release -p simulation -- {{ARGS}}

# install the peers of the benchmark: `just peers` installs all
peers *ARGS:
    tools/bench/peers/install {{ARGS}}

# compare the functions with their peers: `just bench start 'cold path'`
bench *ARGS:
    cargo run --release -p bench -- {{ARGS}}

# run everything that CI runs
ci:
    .ci/run

# review changed request snapshots
review:
    cargo insta review

# build the functions for deployment and test them
build:
    tools/deploy/build

# test the stack in MiniStack, an AWS emulator: `just build emulate`
emulate:
    tools/deploy/emulate

# build and deploy the stack
deploy *ARGS:
    sam build
    sam deploy {{ARGS}}
