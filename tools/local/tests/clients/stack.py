"""Clients of the stack that tools/local/tests/with-clients started."""

import json
import os
import subprocess
import time
import unittest
import uuid

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

TABLE = "VersionControl"
ARN = "arn:aws:lambda:us-east-1:000000000000:function:"
PATIENCE = 30

# A refusal is what is asked about: it is not asked for twice.
ONCE = Config(retries={"total_max_attempts": 1}, read_timeout=60)


def client(service):
    variable = "VZERO_TEST_LAMBDA" if service == "lambda" else "VZERO_TEST_DYNAMODB"
    return boto3.client(service, endpoint_url=os.environ[variable], config=ONCE)


def table():
    return boto3.resource("dynamodb", endpoint_url=os.environ["VZERO_TEST_DYNAMODB"]).Table(TABLE)


def name():
    """The name of an entity that no other test has."""
    return f"Entity#{uuid.uuid4()}"


def eventually(what, ask):
    """Asks until there is an answer."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"no {what} within {PATIENCE} s")


def aws(*arguments, code=0):
    """The AWS CLI, as its user runs it: what it says, read as JSON, or its error."""
    service = arguments[0]
    variable = "VZERO_TEST_LAMBDA" if service == "lambda" else "VZERO_TEST_DYNAMODB"
    command = ["aws", *arguments, "--endpoint-url", os.environ[variable], "--output", "json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (ran.returncode == 0) == (code == 0), f"{command}: {ran.returncode} {ran.stdout} {ran.stderr}"
    return json.loads(ran.stdout or "null") if code == 0 else ran.stderr


class Case(unittest.TestCase):
    maxDiff = None

    def refused(self, code, status, ask):
        """A call that is refused with this code and this status, and the whole of what was said."""
        with self.assertRaises(ClientError) as caught:
            ask()
        response = caught.exception.response
        self.assertEqual(response["Error"]["Code"], code)
        self.assertEqual(response["ResponseMetadata"]["HTTPStatusCode"], status)
        self.assertTrue(response["ResponseMetadata"]["RequestId"])
        self.assertTrue(response["Error"]["Message"])
        return response
