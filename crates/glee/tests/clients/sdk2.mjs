// One session of the TypeScript SDK 2.x; otherwise like sdk1.mjs.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const job = JSON.parse(process.argv[2]);
const client = new Client(
  { name: "sdk2", version: "1" },
  { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: job.mode } },
);
client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: job.answer }));

await client.connect(
  job.url
    ? new StreamableHTTPClientTransport(new URL(job.url), { requestInit: { headers: job.headers } })
    : new StdioClientTransport({ command: job.command[0], args: job.command.slice(1) }),
);

const { tools } = await client.listTools();
const results = [];
for (const [name, args] of job.calls) results.push(await client.callTool({ name, arguments: args }));
console.log(JSON.stringify({ protocol: client.getNegotiatedProtocolVersion(), tools, results }));
await client.close();
