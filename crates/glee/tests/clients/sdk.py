"""One session of the Python SDK; otherwise like sdk1.mjs."""

import asyncio
import json
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

job = json.loads(sys.argv[1])


async def answer(_context, _params):
    return ElicitResult(action="accept", content=job["answer"])


def server():
    if "url" in job:
        http = httpx2.AsyncClient(headers=job["headers"])
        return streamable_http_client(job["url"], http_client=http)
    return StdioServerParameters(command=job["command"][0], args=job["command"][1:])


def wire(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main():
    async with Client(server(), mode=job["mode"], elicitation_callback=answer) as client:
        tools = (await client.list_tools()).tools
        results = [await client.call_tool(name, args) for name, args in job["calls"]]
        print(
            json.dumps(
                {
                    "protocol": client.protocol_version,
                    "tools": [wire(it) for it in tools],
                    "results": [wire(it) for it in results],
                }
            )
        )


asyncio.run(main())
