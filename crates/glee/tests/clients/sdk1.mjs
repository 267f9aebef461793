// One session of the TypeScript SDK 1.x: lists the tools, makes the calls of the job, prints a
// report. The job is the first argument; `tests/it/mcp/clients.rs` tells what it holds.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const job = JSON.parse(process.argv[2]);
const client = new Client({ name: "sdk1", version: "1" }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, () => ({ action: "accept", content: job.answer }));

const transport = job.url
  ? new StreamableHTTPClientTransport(new URL(job.url), { requestInit: { headers: job.headers } })
  : new StdioClientTransport({ command: job.command[0], args: job.command.slice(1) });
await client.connect(transport);

const { tools } = await client.listTools();
const results = [];
for (const [name, args] of job.calls) results.push(await client.callTool({ name, arguments: args }));
console.log(JSON.stringify({ tools, results }));
await client.close();
