'use strict';

// The construct adds no resource of its own: it includes `cloudformation.json` of an unpacked release archive, so the template
// of the repository stays the only description of the stack.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { Token } = require('aws-cdk-lib');
const { CfnInclude } = require('aws-cdk-lib/cloudformation-include');
const { Asset } = require('aws-cdk-lib/aws-s3-assets');
const { Construct } = require('constructs');

const BINARIES = { WriterFunction: 'writer-fn', StreamFunction: 'stream-fn', SealFunction: 'seal-fn' };
// The construct sets them to the place of the functions' code.
const OWN_PARAMETERS = ['CodeBucket', 'CodePrefix'];

class VersionControl extends Construct {
  constructor(scope, id, props) {
    super(scope, id);
    const parameters = props.parameters ?? {};
    const own = OWN_PARAMETERS.find((name) => name in parameters);
    if (own) {
      throw new Error(`The construct sets the parameter ${own}`);
    }
    const templateFile = path.join(props.archive, 'cloudformation.json');
    const declared = JSON.parse(fs.readFileSync(templateFile, 'utf8'));
    const unknown = Object.keys(parameters).find((name) => !(name in declared.Parameters));
    if (unknown) {
      throw new Error(`The template has no parameter ${unknown}`);
    }
    // A value of another resource replaces the parameter. Other values become its default, so that CloudFormation checks them.
    const entries = Object.entries(parameters);
    const isToken = ([, value]) => Token.isUnresolved(value);
    const replaced = { CodeBucket: '', CodePrefix: '', ...Object.fromEntries(entries.filter(isToken)) };
    const include = this.included(declared, replaced);
    for (const [name, value] of entries.filter((entry) => !isToken(entry))) {
      include.getParameter(name).default = declared.Parameters[name].Type === 'Number' ? Number(value) : String(value);
    }
    for (const [resource, binary] of Object.entries(BINARIES)) {
      if (resource in declared.Resources) {
        const code = new Asset(this, `${resource}Code`, { path: path.join(props.archive, `${binary}.zip`) });
        include.getResource(resource).code = { s3Bucket: code.s3BucketName, s3Key: code.s3ObjectKey };
      }
    }
    this.include = include;
  }

  /** Includes the template. Conditions and rules cannot refer to a resource: there, its value is a text that is not empty. */
  included(declared, parameters) {
    const resources = Object.entries(parameters).filter(([, value]) => Token.isUnresolved(value));
    const withText = (section) =>
      resources.reduce((text, [name]) => text.replaceAll(`{"Ref":"${name}"}`, '"value of a resource"'), JSON.stringify(section ?? {}));
    const [Conditions, Rules] = [declared.Conditions, declared.Rules].map((section) => JSON.parse(withText(section)));
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cdk-'));
    try {
      const templateFile = path.join(folder, 'cloudformation.json');
      fs.writeFileSync(templateFile, JSON.stringify({ ...declared, Conditions, Rules }));
      return new CfnInclude(this, 'Template', { templateFile, parameters });
    } finally {
      fs.rmSync(folder, { recursive: true });
    }
  }

  /** Returns the value of an output of the template. */
  output(name) {
    return this.include.getOutput(name).value;
  }
}

module.exports = { VersionControl };
