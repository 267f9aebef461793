"""A stand-in for a model, on loopback, for agent CLIs that should use one tool.

It speaks the wires of the three CLIs as far as they need it. Its script: as long as the
conversation holds no result of the tool, ask for the tool; when it does, say what the result was.
So what the CLI prints at the end has been from the tool, through the CLI, to the model and back.

    stand_in.py TOOL ARGUMENTS      prints its port, serves until stdin is closed
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOOL, ARGUMENTS = sys.argv[1], json.loads(sys.argv[2])
NO_TOOL = "the tool is not offered"


def find(value, wanted):
    """The first object, anywhere in the value, that is wanted."""
    if isinstance(value, dict):
        if wanted(value):
            return value
        value = list(value.values())
    if isinstance(value, list):
        for it in value:
            if (found := find(it, wanted)) is not None:
                return found
    return None


def offered(tools):
    """The tool among those the CLI offers; they put their own words before its name."""
    return find(tools, lambda it: str(it.get("name", "")).endswith(TOOL) and "tools" not in it)


def said(result):
    return "the tool said: " + (result if isinstance(result, str) else json.dumps(result))


def responses(request):
    """The Responses API of OpenAI."""
    result = find(request["input"], lambda it: it.get("type") == "function_call_output")
    tools = request.get("tools", [])
    tool = offered(tools)
    if tool and not result:
        item = {
            "type": "function_call",
            "id": "f1",
            "call_id": "c1",
            "name": tool["name"],
            "arguments": json.dumps(ARGUMENTS),
        }
        # Tools of one server stand together in a namespace, and are asked for by both names.
        spaces = (it for it in tools if it.get("type") == "namespace" and tool in it["tools"])
        if space := next(spaces, None):
            item["namespace"] = space["name"]
    else:
        text = said(result["output"]) if result else NO_TOOL
        item = {
            "type": "message",
            "role": "assistant",
            "id": "m1",
            "content": [{"type": "output_text", "text": text}],
        }
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    yield {"type": "response.created", "response": {"id": "r1"}}
    yield {"type": "response.output_item.done", "item": item}
    yield {"type": "response.completed", "response": {"id": "r1", "usage": usage}}


def messages(request):
    """The Messages API of Anthropic."""
    result = find(request["messages"], lambda it: it.get("type") == "tool_result")
    tool = offered(request.get("tools", []))
    if tool and not result:
        reason = "tool_use"
        block = {"type": "tool_use", "id": "t1", "name": tool["name"], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(ARGUMENTS)}
    else:
        reason = "end_turn"
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": said(result["content"]) if result else NO_TOOL}
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield {"type": "message_start", "message": message}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}
    yield {"type": "message_stop"}


def generate(request):
    """The Gemini API of Google."""
    result = find(request["contents"], lambda it: "functionResponse" in it)
    tool = offered(request.get("tools", []))
    if tool and not result:
        part = {"functionCall": {"name": tool["name"], "args": ARGUMENTS}}
    else:
        part = {"text": said(result["functionResponse"]["response"]) if result else NO_TOOL}
    content = {"role": "model", "parts": [part]}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    yield {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": usage,
    }


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.split("?")[0]
        if path.endswith("/responses"):
            self.stream(responses(request))
        elif path.endswith("/messages"):
            self.stream(messages(request))
        elif path.endswith(":streamGenerateContent"):
            self.stream(generate(request))
        else:
            # Counting tokens, telemetry and the like: the CLIs go on without an answer.
            self.send_error(404)

    def do_GET(self):
        self.send_error(404)

    def stream(self, events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for it in events:
            kind = f"event: {it['type']}\n" if "type" in it else ""
            self.wfile.write(f"{kind}data: {json.dumps(it)}\n\n".encode())

    def log_message(self, *_):
        # What the CLIs asked for, for whoever looks into a failing test.
        print(self.command, self.path, file=sys.stderr)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
