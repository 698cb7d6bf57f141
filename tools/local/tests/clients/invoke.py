"""Lambda's Invoke, by boto3 and by the AWS CLI."""

import base64
import json
import tempfile

from stack import ARN, Case, aws, client, eventually, name, table

MEGABYTE = 1024 * 1024


class Invoke(Case):
    def setUp(self):
        self.functions = client("lambda")

    def invoke(self, payload, function="writer-fn", **more):
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        return self.functions.invoke(FunctionName=function, Payload=body, **more)

    def test_request_response(self):
        entity = name()
        answer = self.invoke({"ID": entity, "State": "OK"})
        self.assertEqual(answer["StatusCode"], 200)
        self.assertEqual(answer["ExecutedVersion"], "$LATEST")
        self.assertNotIn("FunctionError", answer)
        self.assertNotIn("LogResult", answer)
        self.assertEqual(json.load(answer["Payload"]), {"ID": entity, "Version": 1, "Outcome": "Written"})
        eventually("version", lambda: table().get_item(Key={"PK": entity, "SK": "v1"}).get("Item"))

    def test_event(self):
        entity = name()
        answer = self.invoke({"ID": entity}, InvocationType="Event")
        self.assertEqual(answer["StatusCode"], 202)
        self.assertEqual(answer["Payload"].read(), b"")
        item = eventually("version", lambda: table().get_item(Key={"PK": entity, "SK": "v1"}).get("Item"))
        # An asynchronous invocation keeps its id, by which the update is known.
        self.assertEqual(item["RequestId"], answer["ResponseMetadata"]["RequestId"])

    def test_dry_run(self):
        entity = name()
        answer = self.invoke({"ID": entity}, InvocationType="DryRun")
        self.assertEqual(answer["StatusCode"], 204)
        self.assertEqual(answer["Payload"].read(), b"")
        self.assertNotIn("Item", table().get_item(Key={"PK": entity, "SK": "v0"}, ConsistentRead=True))

    def test_names_and_qualifiers(self):
        for function in ["writer-fn", "WriterFunction", "writer-fn:$LATEST", ARN + "writer-fn", ARN + "writer-fn:$LATEST"]:
            with self.subTest(function):
                self.assertEqual(self.invoke({"ID": name()}, function)["ExecutedVersion"], "$LATEST")
        for function in ["000000000000:function:writer-fn", "function:writer-fn"]:
            with self.subTest(function):
                self.assertEqual(self.invoke({"ID": name()}, function)["StatusCode"], 200)
        self.assertEqual(self.invoke({"ID": name()}, Qualifier="$LATEST")["StatusCode"], 200)
        for kind in ["RequestResponse", "Event", "DryRun"]:
            for function, more in [
                ("nothing", {}),
                ("writer-fn:prod", {}),
                ("writer-fn", {"Qualifier": "prod"}),
                ("arn:aws:lambda:eu-west-1:000000000000:function:writer-fn", {}),
                ("arn:aws:lambda:us-east-1:999999999999:function:writer-fn", {}),
            ]:
                with self.subTest(kind=kind, function=function, **more):
                    ask = lambda: self.invoke({}, function, InvocationType=kind, **more)
                    response = self.refused("ResourceNotFoundException", 404, ask)
                    self.assertEqual(response["Type"], "User")
                    self.assertIn("Function not found: " + ARN, response["Error"]["Message"])
        ask = lambda: self.invoke({}, "writer-fn:$LATEST", Qualifier="prod")
        self.refused("InvalidParameterValueException", 400, ask)

    def test_an_error_of_the_function(self):
        answer = self.invoke({"ID": name(), "SK": "x"})
        self.assertEqual((answer["StatusCode"], answer["FunctionError"]), (200, "Unhandled"))
        error = {"errorType": "InvalidEvent", "errorMessage": "the event is invalid: SK is reserved"}
        self.assertEqual(json.load(answer["Payload"]), error)
        answer = self.invoke({"ID": name(), "ExpectedVersion": 7}, LogType="Tail")
        self.assertEqual(answer["FunctionError"], "Unhandled")
        self.assertEqual(json.load(answer["Payload"])["errorType"], "VersionConflict")
        self.assertIn(b"VersionConflict", base64.b64decode(answer["LogResult"]))
        # A dry run and an asynchronous one tell nothing of the function.
        answer = self.invoke({"SK": "x"}, InvocationType="Event")
        self.assertEqual((answer["StatusCode"], answer.get("FunctionError")), (202, None))

    def test_payloads(self):
        # An answer is an error of the function, and not of the API, up to the limit.
        def payload(size):
            return b'"' + b"x" * (size - 2) + b'"'

        at_most = self.invoke(payload(6 * MEGABYTE))
        self.assertEqual((at_most["StatusCode"], at_most["FunctionError"]), (200, "Unhandled"))
        for kind, most in [("RequestResponse", 6 * MEGABYTE), ("Event", MEGABYTE)]:
            for size in [most + 1, 7 * MEGABYTE, 20 * MEGABYTE]:
                with self.subTest(kind=kind, size=size):
                    ask = lambda: self.invoke(payload(size), InvocationType=kind)
                    response = self.refused("RequestTooLargeException", 413, ask)
                    self.assertEqual(response["Type"], "User")
                    self.assertIn(str(most), response["Error"]["Message"])
        self.assertEqual(self.invoke(payload(MEGABYTE), InvocationType="Event")["StatusCode"], 202)
        for bad in [b"{", b"no JSON", b"\xff", b"{} {}"]:
            for kind in ["RequestResponse", "Event", "DryRun"]:
                with self.subTest(bad=bad, kind=kind):
                    ask = lambda: self.invoke(bad, InvocationType=kind)
                    response = self.refused("InvalidRequestContentException", 400, ask)
                    self.assertEqual(response["Type"], "User")
        # No payload is an empty object.
        answer = self.functions.invoke(FunctionName="writer-fn")
        self.assertEqual(json.load(answer["Payload"])["errorType"], "InvalidEvent")

    def test_parameters_that_are_none(self):
        self.refused("InvalidParameterValueException", 400, lambda: self.invoke({}, InvocationType="Someday"))
        self.refused("InvalidParameterValueException", 400, lambda: self.invoke({}, LogType="Head"))

    def test_the_tail_of_the_log(self):
        for _ in range(3):
            # A refused event: its line has the level ERROR, which the default level of the template includes.
            answer = self.invoke({}, LogType="Tail")
            request = answer["ResponseMetadata"]["RequestId"]
            lines = base64.b64decode(answer["LogResult"]).decode().splitlines()
            # The function's own lines, of this invocation alone.
            self.assertTrue(lines)
            for line in lines:
                self.assertIn(request, json.dumps(json.loads(line)))

    def test_a_tail_has_4_kb_at_most(self):
        # A line for each message that is refused.
        records = [{"messageId": f"{number:036}", "body": "[]", "eventSource": "aws:sqs"} for number in range(100)]
        answer = self.invoke({"Records": records}, LogType="Tail")
        tail = base64.b64decode(answer["LogResult"])
        self.assertEqual(len(tail), 4096)
        # Its end: the last line is whole.
        json.loads(tail.splitlines()[-1])

    def test_the_stream_function(self):
        answer = self.invoke({"Records": []}, "stream-fn")
        self.assertEqual(json.load(answer["Payload"]), {"batchItemFailures": []})

    def test_another_operation(self):
        self.refused("UnknownOperationException", 404, lambda: self.functions.list_functions())


class Cli(Case):
    def invoke(self, payload, *more, code=0):
        with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as body:
            body.write(json.dumps(payload).encode())
            body.flush()
            command = ["lambda", "invoke", "--function-name", "writer-fn", "--payload", f"fileb://{body.name}", *more, out.name]
            said = aws(*command, code=code)
            return said, out.read()

    def test_each_kind(self):
        entity = name()
        said, payload = self.invoke({"ID": entity})
        self.assertEqual(said, {"StatusCode": 200, "ExecutedVersion": "$LATEST"})
        self.assertEqual(json.loads(payload)["Version"], 1)
        said, _ = self.invoke({"ID": entity}, "--invocation-type", "Event")
        self.assertEqual(said["StatusCode"], 202)
        said, _ = self.invoke({"ID": entity}, "--invocation-type", "DryRun")
        self.assertEqual(said["StatusCode"], 204)
        said, payload = self.invoke({"ID": 7})
        self.assertEqual(said["FunctionError"], "Unhandled")
        self.assertEqual(json.loads(payload)["errorType"], "InvalidEvent")

    def test_the_tail_of_the_log(self):
        said, _ = self.invoke({"ID": 7}, "--log-type", "Tail")
        messages = [json.loads(line).get("message") for line in base64.b64decode(said["LogResult"]).decode().splitlines()]
        self.assertIn("update", messages)

    def test_an_unknown_function(self):
        said, _ = self.invoke({}, "--function-name", "nothing", code=1)
        self.assertIn("(ResourceNotFoundException) when calling the Invoke operation: Function not found: " + ARN + "nothing", said)
