'use strict';

// An app with one stack: cdk deploy --context archive=version-control-0.1.0-arm64 --context parameters='{"VersionDigits": 10}'

const { App, Stack } = require('aws-cdk-lib');
const { VersionControl } = require('./index.js');

const app = new App();
const archive = app.node.tryGetContext('archive');
if (!archive) {
  throw new Error('pass --context archive=FOLDER, the folder of an unpacked release archive');
}
const parameters = JSON.parse(app.node.tryGetContext('parameters') ?? '{}');
const stack = new Stack(app, app.node.tryGetContext('stack') ?? 'version-control');
new VersionControl(stack, 'VersionControl', { archive, parameters });
