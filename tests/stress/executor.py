"""A fast tab executor for stress tests: answers after a random short time, fails one action in ten.

    python executor.py PORT SEED

It prints `ready` once it listens.
"""

import asyncio
import json
import random
import sys

from taskyard_server.conversion.payload import Json


async def main(port: int, seed: int) -> None:
    """Serve until killed."""
    draw = random.Random(seed)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
                )
                action: Json = json.loads(await reader.readexactly(length))
                await asyncio.sleep(draw.random() * 0.01)
                status = "422 Unprocessable Entity" if draw.random() < 0.1 else "200 OK"
                body = json.dumps({"did": action}).encode()
                headers = f"content-type: application/json\r\ncontent-length: {len(body)}"
                writer.write(f"HTTP/1.1 {status}\r\n{headers}\r\n\r\n".encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
