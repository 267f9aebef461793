def run():
    return {"content": [{"type": "text", "text": "hello"}]}
