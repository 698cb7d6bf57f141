//! Writes `tools/attach/template.yaml`, see `local::template::attach`.
//!
//! `cargo run -p local --example attach_template`

use std::{error::Error, fs, path::Path};

use local::template::attach::generate;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let source = fs::read_to_string(root.join("tools/attach/source.yaml"))?;
    let template = fs::read_to_string(root.join("template.yaml"))?;
    fs::write(root.join("tools/attach/template.yaml"), generate(&source, &template)?)?;
    Ok(())
}
