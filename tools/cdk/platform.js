'use strict';

// An app for a platform team: the history of many tables of many teams, from one list, with a stack for each table:
//
//   cdk deploy --all --app 'node platform.js' --context archive=version-control-attach-0.1.0-arm64 --context platform=platform.json
//
// docs/examples/platform.json is such a list. docs/attach.md describes it.

const fs = require('node:fs');
const { App, Arn, ArnFormat, CfnOutput, Stack, Tags, aws_iam: iam, aws_kms: kms } = require('aws-cdk-lib');
const { VersionControl } = require('./index.js');

const app = new App();
const [archive, file] = ['archive', 'platform'].map((name) => app.node.tryGetContext(name));
if (!archive || !file) {
  throw new Error('pass --context archive=FOLDER, an unpacked version-control-attach-… archive, and --context platform=FILE');
}
const platform = JSON.parse(fs.readFileSync(file, 'utf8'));

/** Adds the stack of a team: the key that encrypts its histories, and a role that reads them. */
function addTeam(team) {
  const stack = new Stack(app, `history-${team.name}`);
  const key = new kms.Key(stack, 'Key', { enableKeyRotation: true, description: `Histories of ${team.name}` });
  // As the policy of the AWS managed key: who may use a table may use its key, but only through DynamoDB.
  key.addToResourcePolicy(
    new iam.PolicyStatement({
      principals: [new iam.AnyPrincipal()],
      actions: ['kms:CreateGrant', 'kms:Decrypt', 'kms:DescribeKey', 'kms:Encrypt', 'kms:GenerateDataKey*', 'kms:ReEncrypt*'],
      resources: ['*'],
      conditions: { StringEquals: { 'kms:CallerAccount': stack.account, 'kms:ViaService': `dynamodb.${stack.region}.amazonaws.com` } },
    }),
  );
  if (team.readerAccount) {
    const role = new iam.Role(stack, 'Reader', { assumedBy: new iam.AccountPrincipal(team.readerAccount) });
    const allow = (actions, resources) => role.addToPolicy(new iam.PolicyStatement({ actions, resources }));
    const arn = (service, resource, resourceName) =>
      Arn.format({ service, resource, resourceName, arnFormat: ArnFormat.SLASH_RESOURCE_NAME }, stack);
    const tables = (names) => names.map((name) => arn('dynamodb', 'table', name));
    const attached = team.tables.map(({ TableName }) => TableName);
    const histories = team.tables.map(({ TableName, HistoryTableName }) => HistoryTableName ?? `${TableName}-history`);
    allow(['dynamodb:BatchGetItem', 'dynamodb:GetItem', 'dynamodb:Query'], tables(histories));
    allow(['dynamodb:DescribeTable'], tables(attached));
    allow(['ssm:GetParameter'], attached.map((name) => arn('ssm', 'parameter', `vzero/attached/${name}`)));
    new CfnOutput(stack, 'ReaderRoleArn', { value: role.roleArn });
  }
  return { stack, key };
}

/** Adds the stack of a table. */
function addTable(team, key, { reservedConcurrency, ...table }) {
  const stack = new Stack(app, `history-${team.name}-${table.TableName.replace(/[^A-Za-z0-9-]/g, '-')}`);
  const parameters = { ...platform.parameters, ...table, HistoryKmsKeyArn: key.keyArn };
  const { include } = new VersionControl(stack, 'History', { archive, parameters });
  include.getResource('StreamFunction').reservedConcurrentExecutions = reservedConcurrency;
  return stack;
}

for (const team of platform.teams) {
  const { stack, key } = addTeam(team);
  for (const each of [stack, ...team.tables.map((table) => addTable(team, key, table))]) {
    for (const [name, value] of Object.entries({ ...platform.tags, ...team.tags, team: team.name })) {
      Tags.of(each).add(name, value);
    }
    if (platform.boundary) {
      iam.PermissionsBoundary.of(each).apply(iam.ManagedPolicy.fromManagedPolicyArn(each, 'Boundary', platform.boundary));
    }
  }
}
