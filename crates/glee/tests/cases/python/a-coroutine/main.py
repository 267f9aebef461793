import asyncio
async def run():
    await asyncio.sleep(0)
    return "awaited"
