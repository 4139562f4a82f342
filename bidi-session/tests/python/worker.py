"""A worker that speaks the session handshake, version 1, and answers each command.

Written from docs/handshake.md alone. The messages are handed on as bytes: a command
and its answer have the same fields here.

    worker.py WORKER INCARNATION HIGHEST [default-options]

prints its port on one line, then one line for each session that begins or ends.
"""

import asyncio
import re
import sys

import grpc

PREFIX = "bidi-session-"
U64_MAX = 2**64 - 1
GRACE_SECONDS = 5.0


class Refused(Exception):
    """A stream that is not admitted: a word, its status and what else is told."""

    def __init__(self, word, status, text, **fields):
        super().__init__(text)
        self.word, self.status, self.fields = word, status, fields


def malformed(text):
    return Refused("malformed", grpc.StatusCode.INVALID_ARGUMENT, text)


def read_number(name, value):
    if re.fullmatch("[0-9]+", value) and int(value) <= U64_MAX:
        return int(value)
    raise malformed(f"{PREFIX}{name} is no number")


def read_text(name, value):
    if re.search("%(?![0-9A-Fa-f]{2})", value):
        raise malformed(f"{PREFIX}{name} cannot be read")
    raw = re.sub(
        rb"%([0-9A-Fa-f]{2})",
        lambda match: bytes([int(match[1], 16)]),
        value.encode("ascii"),
    )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise malformed(f"{PREFIX}{name} is no UTF-8") from None


def write_text(text):
    visible = (chr(byte) if 0x21 <= byte <= 0x7E and byte != 0x25 else f"%{byte:02X}"
               for byte in text.encode("utf-8"))
    return "".join(visible)


class Hello:
    """What the controller says."""

    def __init__(self, metadata):
        headers = {}
        for name, value in metadata:
            if isinstance(value, str):
                headers.setdefault(name, value)

        def need(name):
            if PREFIX + name not in headers:
                raise malformed(f"no {PREFIX}{name} header")
            return headers[PREFIX + name]

        if need("version") != "1":
            raise malformed("the version of the handshake is not 1")
        self.term = read_number("term", need("term"))
        if self.term == 0:
            raise malformed("the term is zero")
        self.pool = need("pool")
        if not re.fullmatch("[0-9a-f]{32}", self.pool):
            raise malformed(f"{PREFIX}pool cannot be read")
        self.generation = read_number("generation", need("generation"))
        self.worker = read_text("worker", need("worker"))
        self.scope = read_text("scope", headers.get(PREFIX + "scope", ""))
        expected = headers.get(PREFIX + "incarnation")
        self.incarnation = None if expected is None else read_number("incarnation", expected)


class Claim:
    """A stream that passed the checks: it holds the session, or waits for it."""

    def __init__(self, hello):
        self.hello = hello
        self.over = asyncio.Event()
        self.gone = asyncio.Event()
        self.task = None


class Door:
    """Decides who has the session. One event loop runs it, so it needs no lock."""

    def __init__(self, worker, incarnation, highest, scope=""):
        self.worker, self.incarnation = worker, incarnation
        self.highest, self.scope = highest, scope
        self.seen = {}
        self.holder = self.next = None

    def check(self, hello):
        failed = grpc.StatusCode.FAILED_PRECONDITION
        if hello.scope != self.scope:
            raise Refused("wrong-scope", failed, "the term is of another scope")
        if hello.worker != self.worker:
            name = write_text(self.worker)
            raise Refused("wrong-worker", failed, "another worker answers", worker=name)
        if hello.incarnation not in (None, self.incarnation):
            raise Refused("wrong-incarnation", failed, "another incarnation",
                          incarnation=str(self.incarnation))
        self.check_term(hello)
        if hello.term == self.highest:
            if hello.generation <= self.seen.get(hello.pool, -1):
                raise self.stale()
            newest = self.next or self.holder
            if newest and newest.hello.term == hello.term and newest.hello.pool != hello.pool:
                raise Refused("term-taken", grpc.StatusCode.ALREADY_EXISTS,
                              "another pool of this term has the session")

    def check_term(self, hello):
        if hello.term < self.highest:
            raise Refused("lower-term", grpc.StatusCode.FAILED_PRECONDITION,
                          f"term {self.highest} was seen", highest=str(self.highest))

    @staticmethod
    def stale():
        return Refused("stale-generation", grpc.StatusCode.ABORTED, "a newer stream came first")

    async def admit(self, claim):
        hello = claim.hello
        self.check(hello)
        if hello.term > self.highest:
            self.highest, self.seen = hello.term, {}
        self.seen[hello.pool] = hello.generation
        if self.next:
            self.next.over.set()
        self.next = claim
        while self.holder:
            self.holder.over.set()
            await self.turn(claim, self.holder)
        self.next, self.holder = None, claim

    async def turn(self, claim, holder):
        waits = [asyncio.ensure_future(event.wait()) for event in (holder.gone, claim.over)]
        try:
            done, _ = await asyncio.wait(
                waits, timeout=GRACE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self.next is not claim:
            self.check_term(claim.hello)
            raise self.stale()
        if not done:
            holder.task.cancel()
            self.leave(holder)

    def leave(self, claim):
        claim.over.set()
        claim.gone.set()
        if self.holder is claim:
            self.holder = None
        if self.next is claim:
            self.next = None


async def echo(context, claim):
    """Answers each command until the controller or the session is gone."""
    over = asyncio.ensure_future(claim.over.wait())
    try:
        while True:
            read = asyncio.ensure_future(context.read())
            await asyncio.wait((read, over), return_when=asyncio.FIRST_COMPLETED)
            if claim.over.is_set():
                read.cancel()
                return
            command = read.result()
            if command is grpc.aio.EOF:
                return
            await context.write(command)
    finally:
        over.cancel()


def fields(**values):
    return tuple((PREFIX + name, value) for name, value in values.items())


async def refuse(context, refused):
    trailers = fields(version="1", refused=refused.word, **refused.fields)
    await context.abort(refused.status, str(refused), trailers)


def control_method(door, serve):
    async def control(_requests, context):
        claim = None
        try:
            hello = Hello(context.invocation_metadata())
            claim = Claim(hello)
            claim.task = asyncio.current_task()
            await door.admit(claim)
        except Refused as refused:
            await refuse(context, refused)
        except asyncio.CancelledError:
            if claim:
                door.leave(claim)
            raise
        print(f"began {hello.term} {hello.generation}", flush=True)
        try:
            # Before the first read: the controller sends nothing until it has them.
            await context.send_initial_metadata(fields(
                version="1", worker=write_text(door.worker), incarnation=str(door.incarnation)))
            await serve(context, claim)
        finally:
            print(f"ended {hello.term} {hello.generation}", flush=True)
            is_superseded = claim.over.is_set()
            door.leave(claim)
        if is_superseded:
            await context.abort(grpc.StatusCode.ABORTED, "a newer session took over")

    return control


async def main():
    worker, incarnation, highest = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    # The pings of a controller come every 5 s, more often than a server bears by default.
    options = [
        ("grpc.keepalive_time_ms", 5000),
        ("grpc.keepalive_timeout_ms", 5000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", 4000),
    ]
    if sys.argv[4:] == ["default-options"]:
        options = []
    method = grpc.stream_stream_rpc_method_handler(
        control_method(Door(worker, incarnation, highest), echo))
    server = grpc.aio.server(options=options)
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("worker.v1.Worker", {"Control": method})])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main())
