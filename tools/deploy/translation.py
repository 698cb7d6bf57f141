"""Translates template.yaml to CloudFormation with aws-sam-translator. Requires an environment with aws-sam-cli."""

import os
import pathlib

os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")

from samcli.yamlhelper import yaml_parse  # noqa: E402
from samtranslator.parser.parser import Parser  # noqa: E402
from samtranslator.translator.translator import Translator  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "template.yaml"
ARCHIVE = ROOT / "tools/archive/template.yaml"
ATTACH = ROOT / "tools/attach/template.yaml"
EVENTS = ROOT / "tools/events/template.yaml"
MONITORING = ROOT / "tools/monitoring/template.yaml"
SEAL = ROOT / "tools/seal/template.yaml"
WHOLE_TABLE = ROOT / "tools/whole-table/template.yaml"
# A table to attach.
ATTACHED = {
    "TableName": "Orders",
    "StreamArn": "arn:aws:dynamodb:us-east-1:123456789012:table/Orders/stream/2026-11-22T06:24:48.123",
}
# A table to seal, with everything that is optional.
SEALED = {
    "Tables": "Orders",
    "TableArns": "arn:aws:dynamodb:us-east-1:123456789012:table/Orders,arn:aws:dynamodb:us-east-1:123456789012:table/Orders-history",
    "LogOrigin": "example.com/log",
    "CheckpointEmail": "auditor@example.com",
    "CheckpointTopicArn": "arn:aws:sns:us-east-1:210987654321:checkpoints",
    "ErasePrincipalArn": "arn:aws:iam::123456789012:role/eraser",
    "AuditorPrincipalArn": "arn:aws:iam::123456789012:role/auditor",
}
# Values of the monitored stack's output, for the parameters without a default.
MONITORED = {
    "StackName": "version-control",
    "Table": "Orders",
    "HistoryTable": "Orders-history",
    "StreamFunction": "stream-fn",
    "StreamMapping": "a1b2c3d4-5678-90ab-cdef-11111EXAMPLE",
    "StreamLogs": "stream-logs",
    "StreamDeadLetterQueue": "failed-records",
    "Alarms": "arn:aws:cloudwatch:us-east-1:123456789012:alarm:StreamErrors",
}

# The table that is archived.
ARCHIVED = {"TableArn": "arn:aws:dynamodb:us-east-1:123456789012:table/Orders-history"}
# The export that is queried.
EXPORTED = {
    "ExportLocation": "s3://bucket/AWSDynamoDB/01234567890123-a1b2c3d4/data/",
    "ResultLocation": "s3://bucket/results/",
}


def translated(code="s3://bucket/{}.zip", text=None, parameters=None):
    """Returns the translated template, with these values as the defaults of its parameters.

    `code` is the address of the functions' code; {} is replaced with the binary's name.
    """
    template = yaml_parse(text or TEMPLATE.read_text())
    for name, value in (parameters or {}).items():
        template["Parameters"][name]["Default"] = value
    for function in template["Resources"].values():
        if function["Type"] == "AWS::Serverless::Function":
            binary = function["Metadata"]["BuildProperties"]["Binary"]
            function["Properties"]["CodeUri"] = code.format(binary)
    template["Globals"]["Function"].pop("CodeUri")
    parameters = {name: parameter.get("Default") for name, parameter in template["Parameters"].items()}
    translation = Translator({}, Parser()).translate(template, parameters)
    # CloudFormation must not translate it again.
    translation.pop("Transform", None)
    return translation


def packaged(text):
    """Returns a template as plain CloudFormation, with two more parameters for the place of the functions' code.

    No value of a parameter is resolved, so all parameters can be set when the stack is created.
    """
    template = yaml_parse(text)
    for function in template["Resources"].values():
        if function["Type"] == "AWS::Serverless::Function":
            binary = function.pop("Metadata")["BuildProperties"]["Binary"]
            function["Properties"]["CodeUri"] = {"Bucket": {"Ref": "CodeBucket"}, "Key": {"Fn::Sub": f"${{CodePrefix}}{binary}.zip"}}
    template["Globals"]["Function"].pop("CodeUri")
    template["Parameters"] |= {
        "CodeBucket": {
            "Description": "Bucket with the zip files of the functions, in the Region of the stack.",
            "Type": "String",
        },
        "CodePrefix": {
            "Description": "Text before the names of the zip files in the bucket, such as version-control/0.1.0/.",
            "Type": "String",
            "Default": "",
        },
    }
    translation = Translator({}, Parser()).translate(template, {})
    translation.pop("Transform", None)
    return translation
