"""A FastMCP server with the tools that the bench calls, as its documentation would have them."""

import asyncio
import sys

import httpx2
from fastmcp import FastMCP
from fastmcp.tools import Tool

transport, count, upstream, port = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
server = FastMCP("bench")
client = httpx2.AsyncClient(limits=httpx2.Limits(max_keepalive_connections=64), trust_env=False)


def prints(word: str = "x", count: int = 1, mode: str = "plain") -> str:
    return word


for n in range(count):
    server.add_tool(Tool.from_function(prints, name=f"tool_{n}", description="Prints a word"))


@server.tool
def echo(text: str) -> str:
    return text


@server.tool
async def fetch(id: str) -> dict:
    answer = await client.get(f"{upstream}/items/{id}")
    return {"value": answer.json()["data"]["value"]}


@server.tool
async def say(word: str) -> str:
    process = await asyncio.create_subprocess_exec("/bin/echo", word, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    return output.decode()


if transport == "stdio":
    server.run(transport="stdio", show_banner=False)
else:
    server.run(
        transport="http",
        port=port,
        show_banner=False,
        log_level="error",
        uvicorn_config={"access_log": False, "timeout_keep_alive": 120},
    )
