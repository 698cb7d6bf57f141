// Client of the Lambda Runtime API for a handler in this folder: `node runtime.mjs stream.handler`.
//
// AWS's client for Node.js, aws-lambda-ric, has no prebuilt package: it requires Node.js 22, cmake and a C++ compiler, and builds
// curl. This loop starts as fast. It uses node:http, which the SDK loads anyway, over one connection.

import http from "node:http";

const [host, port] = process.env.AWS_LAMBDA_RUNTIME_API.split(":");
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

/** Sends one request and returns the headers and body of its response. There is no timeout: polls wait for the next event. */
function call(method, path, body) {
  return new Promise((resolve, reject) => {
    const headers = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
    const request = http.request({ agent, host, port, method, headers, path: `/2018-06-01/runtime/${path}` });
    request.on("error", reject);
    request.on("response", (response) => {
      const chunks = [];
      response.on("data", (chunk) => chunks.push(chunk));
      response.on("end", () => resolve({ headers: response.headers, body: Buffer.concat(chunks).toString() }));
      response.on("error", reject);
    });
    request.end(body);
  });
}

function described(error) {
  return JSON.stringify({ errorType: error.name, errorMessage: error.message, trace: [] });
}

async function load(name) {
  const [module, method] = name.split(".");
  try {
    return (await import(`./${module}.mjs`))[method];
  } catch (error) {
    await call("POST", "init/error", described(error));
    throw error;
  }
}

const handler = await load(process.argv[2]);
for (;;) {
  const { headers, body } = await call("GET", "invocation/next");
  const awsRequestId = headers["lambda-runtime-aws-request-id"];
  try {
    const result = await handler(JSON.parse(body), { awsRequestId });
    await call("POST", `invocation/${awsRequestId}/response`, JSON.stringify(result ?? null));
  } catch (error) {
    await call("POST", `invocation/${awsRequestId}/error`, described(error));
  }
}
