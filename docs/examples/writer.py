"""Sends an update until it is applied, once. Its argument is the update. WRITER names the function of the stack."""

import json
import os
import sys
import time
import uuid
from datetime import datetime, timezone

import boto3

functions, sent_at = boto3.client("lambda"), datetime.now(timezone.utc).isoformat()
update = {"RequestId": str(uuid.uuid4()), "RequestSentAt": sent_at, **json.loads(sys.argv[1])}
for attempt in range(5):
    output = functions.invoke(FunctionName=os.environ.get("WRITER", "writer-fn"), Payload=json.dumps(update))
    response = json.load(output["Payload"])
    if "FunctionError" not in output:
        print(response["Outcome"], response["Version"])
        break
    if response.get("errorType") in ("InvalidEvent", "VersionConflict"):
        sys.exit(f"{response['errorType']}: {response['errorMessage']}")
    time.sleep(0.1 * 2**attempt)
else:
    sys.exit(f"not applied: {response['errorMessage']}")
