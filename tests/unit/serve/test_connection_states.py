"""One connection from its first byte to its last, with a clock and a wire that the tests hold."""

import asyncio
import json
import socket
import struct
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from rankine.serve.connection import (
    SWEEP_SECONDS,
    Connection,
    ConnectionPool,
    Reply,
    RequestReader,
    State,
)
from rankine.serve.limits import Limits
from rankine.serve.metrics import Metrics

GET = b"GET /now HTTP/1.1\r\nHost: a\r\n\r\n"
LATER = b"POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"
HEAD_OF_BODY = b"POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n"
START = 100.0


class Loop:
    """Stands still until it is told; work of the thread waits in ``jobs``."""

    def __init__(self):
        self.now, self.soon, self.later, self.jobs = START, [], [], []

    def time(self):
        return self.now

    def call_soon(self, work):
        self.soon.append(work)

    def call_later(self, seconds, work, *arguments):
        self.later.append((seconds, work, arguments))

    def run_in_executor(self, thread, work):
        self.jobs.append((thread, work, Future()))
        return self.jobs[-1][2]

    def turn(self):
        """What was put off to the next turn."""
        soon, self.soon = self.soon, []
        for work in soon:
            work()
        return len(soon)

    def work(self):
        """The thread does its oldest job."""
        _, work, future = self.jobs.pop(0)
        future.set_result(work())


class Wire(asyncio.Transport):
    """What the connection does to its socket."""

    def __init__(self, peer=("10.0.0.1", 5)):
        super().__init__()
        self.sent, self.did, self.options = b"", [], []
        self.peer, self.closing, self.deaf, self.half = peer, False, None, True

    def get_extra_info(self, name, default=None):
        channel = SimpleNamespace(setsockopt=lambda *option: self.options.append(option))
        return {"socket": channel, "peername": self.peer}.get(name, default)

    def write(self, data):
        self.sent += data
        if self.deaf is not None:
            self.deaf.pause_writing()

    def set_write_buffer_limits(self, high=None, low=None):
        self.did.append(f"high {high}")

    def is_closing(self):
        return self.closing

    def can_write_eof(self):
        return self.half

    def close(self):
        self.closing = True
        self.did.append("close")

    def abort(self):
        self.closing = True
        self.did.append("abort")

    def write_eof(self):
        self.did.append("eof")

    def pause_reading(self):
        self.did.append("pause")

    def resume_reading(self):
        self.did.append("resume")


def answer(request, on_event_loop):
    """A reply at once, in the thread, or a fault."""
    if request.target == b"/fault":
        raise ZeroDivisionError
    if request.target == b"/later" and on_event_loop:
        return None
    return Reply(200, request.method + request.body, b"text/plain", ((b"x", b"y"),))


class House:
    """A pool with its connections."""

    def __init__(self, **limits):
        self.loop, self.limits = Loop(), Limits(**limits)
        self.pool = ConnectionPool(self.limits, Metrics(), "thread")
        self.server = SimpleNamespace(
            connections=set(), total_requests=0, default_headers=[(b"date", b"today")]
        )

    def connect(self, peer=("10.0.0.1", 5)):
        one = Connection(self.pool, answer, None, self.server, {}, self.loop)
        one.connection_made(Wire(peer))
        return one

    def refused(self, limit):
        return self.pool.metrics.registry.get_sample_value(
            "rankine_refused_total", {"limit": limit}
        )

    def counted(self, status):
        labels = {"path": "other", "status": str(status)}
        return self.pool.metrics.registry.get_sample_value("rankine_http_requests_total", labels)


def feed(connection, data):
    view = connection.get_buffer(-1)
    assert len(view) >= len(data)
    view[: len(data)] = data
    connection.buffer_updated(len(data))


def replies(connection):
    """Status, fields and body of everything that was sent."""
    found, rest = [], connection.transport.sent
    while rest:
        head, _, rest = rest.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        fields = dict(line.split(": ") for line in lines)
        size = int(fields.get("content-length", 0))
        found.append((int(first.split()[1]), fields, rest[:size]))
        rest = rest[size:]
    return found


def error(connection):
    ((status, fields, body),) = replies(connection)
    return status, fields, json.loads(body)["error"]


def test_a_new_connection_waits_for_its_first_byte():
    house = House(idle_seconds=15)
    one = house.connect()
    assert (one.state, one.deadline, one.address) == (State.IDLE, START + 15, "10.0.0.1")
    assert house.server.connections == house.pool.connections == {one}
    assert one.transport.did == ["high 0"]
    assert one.transport.options == [(socket.SOL_SOCKET, socket.SO_SNDBUF, 256 * 1024)]
    assert house.connect(peer="/run/socket").address == ""
    one.connection_lost(None)
    assert one not in house.server.connections | house.pool.connections


def test_a_request_is_answered_and_the_next_one_awaited():
    house = House()
    one = house.connect()
    house.loop.now += 3
    feed(one, GET)
    expected = {
        "date": "today",
        "content-type": "text/plain",
        "content-length": "3",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
        "x": "y",
    }
    assert replies(one) == [(200, expected, b"GET")]
    assert (one.state, one.deadline) == (State.IDLE, START + 3 + house.limits.idle_seconds)
    assert house.server.total_requests == 1
    feed(one, GET.replace(b"GET", b"HEAD"))
    assert one.transport.sent.endswith(b"content-length: 4\r\nx-content-type-options: nosniff\r\n"
                                       b"cache-control: no-store\r\nx: y\r\n\r\n")  # fmt: skip
    assert one.transport.did == ["high 0"]
    assert house.server.total_requests == 2


@pytest.mark.parametrize(
    ("line", "closes"),
    [(b"", False), (b"Connection: close\r\n", True), (b"Connection: keep-alive\r\n", False)],
)
@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_a_close_request_is_confirmed_in_the_reply(line, closes, version):
    one = House().connect()
    feed(one, GET.replace(b"1.1", version)[:-2] + line + b"\r\n")
    ((status, fields, _),) = replies(one)
    closes |= version == b"1.0"
    assert (status, fields.get("connection")) == (200, "close" if closes else None)
    assert ("close" in one.transport.did) == closes
    if closes:
        assert (one.state, one.deadline) == (State.CLOSING, START + 10)
        sent = one.transport.sent
        feed(one, GET)
        assert one.transport.sent == sent


def test_connections_are_capped_in_all_and_by_address():
    house = House(connections=3, connections_per_address=2)
    first, second = house.connect(), house.connect()
    third = house.connect()
    status, fields, told = error(third)
    assert (status, fields["retry-after"], fields["connection"]) == (503, "1", "close")
    assert (told["code"], told["message"]) == ("overload", "too many connections")
    assert "close" in third.transport.did
    assert third.deadline == float("inf")
    other = house.connect(("10.0.0.2", 1))
    assert other in house.pool.connections
    assert error(house.connect(("10.0.0.3", 1)))[0] == 503
    assert (house.refused("connections"), house.counted(503)) == (2, 2)
    third.connection_lost(None)
    assert house.pool.per_address == {"10.0.0.1": 2, "10.0.0.2": 1}
    for one in (first, second):
        one.connection_lost(None)
    assert dict(house.pool.per_address) == {"10.0.0.2": 1}
    assert house.connect() in house.pool.connections


@pytest.mark.parametrize(
    ("data", "kind", "seconds"),
    [
        (b"GET / HT", "header", 5),
        (HEAD_OF_BODY + b"\r\nabc", "body", 10),
    ],
)
def test_deadlines_count_from_the_first_byte(data, kind, seconds):
    house = House()
    one = house.connect()
    house.loop.now += 2
    feed(one, data[:4])
    house.loop.now += 1
    feed(one, data[4:])
    assert (one.state, one.deadline) == (State.READING, START + 2 + seconds)
    house.loop.now = one.deadline - 0.01
    house.pool.sweep(house.loop)
    assert one.state is State.READING
    house.loop.now = one.deadline
    house.pool.sweep(house.loop)
    assert house.loop.later == [(SWEEP_SECONDS, house.pool.sweep, (house.loop,))] * 2
    assert house.refused(f"{kind}_deadline") == 1
    status, fields, told = error(one)
    assert (status, fields["connection"], told["code"]) == (408, "close", "request")
    assert told["message"] == f"the {kind} of the request did not arrive in time"
    assert "retry-after" not in fields
    assert (one.state, one.deadline) == (State.LINGERING, house.loop.now + 1)
    assert one.transport.did[-1] == "eof"
    feed(one, GET)
    assert len(replies(one)) == 1
    one.expire()
    assert one.transport.options[-1] == (
        socket.SOL_SOCKET,
        socket.SO_LINGER,
        struct.pack("ii", 1, 0),
    )
    assert one.transport.did[-1] == "abort"


def test_an_idle_connection_is_closed_and_counted():
    house = House()
    one = house.connect()
    one.expire()
    assert house.refused("idle_deadline") == 1
    assert one.transport.did[-1] == "close"
    assert (one.transport.sent, one.state) == (b"", State.CLOSING)
    one.expire()
    assert one.transport.did[-1] == "abort"
    assert house.refused("send_deadline") is None


def test_pipelined_requests_take_turns():
    house = House()
    one = house.connect()
    whole = HEAD_OF_BODY + b"\r\n123456789"
    feed(one, whole * 4)
    assert one.transport.did[1:] == ["pause"]
    assert (one.state, one.deadline) == (State.READING, START + 5)
    for number in (1, 2, 3):
        assert len(replies(one)) == number
        assert house.pool.buffered == 9 * (4 - number)
        assert one.transport.did[1:] == ["pause"]
        assert house.loop.turn() == 1
    assert len(replies(one)) == 4
    assert house.loop.turn() == 0
    assert one.transport.did[1:] == ["pause", "resume"]
    assert (one.state, house.pool.buffered) == (State.IDLE, 0)
    feed(one, GET * 2)
    assert house.loop.turn() == 1
    assert one.transport.did[1:] == ["pause", "resume"] * 2


def test_an_unfinished_request_behind_another_is_read_on():
    house = House()
    one = house.connect()
    feed(one, GET * 2 + HEAD_OF_BODY + b"\r\nabc")
    house.loop.now += 1
    while house.loop.turn():
        pass
    assert len(replies(one)) == 2
    assert one.transport.did[1:] == ["pause", "resume"]
    assert (one.state, one.deadline) == (State.READING, START + 1 + 10)
    assert house.pool.buffered == 3
    feed(one, b"d" * 6)
    assert replies(one)[2][2] == b"POSTabcdddddd"
    assert house.pool.buffered == 0


def test_continue_is_sent_once_per_expected_body():
    for more, body in ((b"", b"x" * 9), (b"Expect: 100-continue\r\n", b"x" * 9)):
        one = House().connect()
        feed(one, HEAD_OF_BODY + more + b"\r\n")
        feed(one, body[:3])
        feed(one, body[3:])
        asked = b"HTTP/1.1 100 Continue\r\n\r\n" if more else b""
        assert one.transport.sent.startswith(asked + b"HTTP/1.1 200 OK\r\n")
        assert one.transport.sent.count(b"100 Continue") == bool(more)
    at_once = House().connect()
    feed(at_once, HEAD_OF_BODY + b"Expect: 100-continue\r\n\r\n" + b"x" * 9)
    assert at_once.transport.sent.startswith(b"HTTP/1.1 200 OK\r\n")
    empty = RequestReader(Limits())
    empty.feed(GET[:-2] + b"Expect: 100-continue\r\n\r\n")
    assert not empty.wants_continue
    chunked = RequestReader(Limits())
    line = b"Transfer-Encoding: chunked\r\nExpect: 100-Continue\r\n\r\n"
    chunked.feed(GET.replace(b"GET", b"POST")[:-2] + line)
    assert chunked.wants_continue


def test_unfinished_bodies_share_one_limit():
    house = House(buffered_bytes=8)
    first, second = house.connect(), house.connect()
    feed(first, HEAD_OF_BODY + b"\r\n12345")
    feed(second, HEAD_OF_BODY + b"\r\n123")
    assert (house.pool.buffered, first.state, second.state) == (8, State.READING, State.READING)
    feed(second, b"4")
    status, fields, told = error(second)
    assert (status, fields["retry-after"]) == (503, "1")
    assert "too many unfinished" in told["message"]
    assert (house.refused("memory"), house.counted(503)) == (1, 1)
    assert house.pool.buffered == 5
    first.connection_lost(None)
    assert house.pool.buffered == 0


def test_what_takes_long_is_answered_by_the_thread():
    house = House(queue=2)
    three = [house.connect() for _ in range(3)]
    for one in three:
        feed(one, LATER)
    assert [one.state for one in three] == [State.WORKING, State.WORKING, State.IDLE]
    status, fields, told = error(three[2])
    assert (status, told["code"], fields["retry-after"]) == (503, "overload", "1")
    assert "connection" not in fields
    assert (house.refused("queue"), house.pool.large.queued) == (1, 2)
    assert [job[0] for job in house.loop.jobs] == ["thread"] * 2
    assert three[0].deadline == float("inf")
    three[0].expire()
    assert three[0].state is State.WORKING
    house.loop.work()
    assert (replies(three[0])[0][2], house.pool.large.queued) == (b"POSTbody", 1)
    assert three[0].state is State.IDLE
    three[1].connection_lost(None)
    assert three[1].state is State.CLOSING
    house.loop.work()
    assert (three[1].transport.sent, house.pool.large.queued) == (b"", 0)
    assert house.server.total_requests == 1
    feed(three[0], LATER)
    house.loop.jobs.pop()[2].cancel()
    assert three[0].transport.did[-1] == "abort"
    assert house.pool.large.queued == 0


def test_events_have_a_queue_of_their_own(monkeypatch):
    """A full queue of events answers 429; rankings and large requests go on."""
    house = House(event_queue=1, queue=1)
    first, second, large, small = (house.connect() for _ in range(4))

    def handle(request, on_event_loop):
        if request.body == b"body" and on_event_loop:
            return house.pool.events
        return answer(request, on_event_loop)

    for connection in (first, second):
        connection.handler = handle
        feed(connection, LATER)
    status, fields, told = error(second)
    assert (status, told["code"], fields["retry-after"]) == (429, "overload", "1")
    assert (house.refused("event_queue"), house.pool.events.queued) == (1, 1)
    feed(large, LATER)
    feed(small, GET)
    assert (large.state, house.pool.large.queued) == (State.WORKING, 1)
    assert replies(small)[0][0] == 200
    house.loop.work()
    assert house.pool.events.queued == 0


def test_a_fault_of_the_server_is_one_reply(caplog):
    house = House()
    one = house.connect()
    feed(one, GET.replace(b"/now", b"/fault"))
    status, _, told = error(one)
    assert (status, told["code"]) == (500, "internal")
    assert "a request failed" in caplog.text
    assert one.state is State.IDLE


def test_a_bad_request_is_answered_after_those_before_it():
    house = House()
    one = house.connect()
    feed(one, GET + b"nonsense\r\n\r\n" + GET)
    assert len(replies(one)) == 1
    assert house.loop.turn() == 1
    assert [status for status, _, _ in replies(one)] == [200, 400]
    assert house.refused("protocol") == 1
    assert one.state is State.LINGERING
    assert (house.pool.buffered, house.loop.turn()) == (0, 0)
    assert one.transport.did[-1] == "eof"
    whole = house.connect()
    whole.transport.half = False
    feed(whole, b"nonsense\r\n\r\n")
    assert whole.transport.did == ["high 0"]
    closed = house.connect()
    closed.transport.closing = True
    feed(closed, b"nonsense\r\n\r\n")
    assert (closed.transport.did, closed.transport.sent) == (["high 0"], b"")


def test_a_fault_behind_a_full_buffer_lets_the_client_read_on():
    house = House()
    one = house.connect()
    feed(one, GET * 2 + b"nonsense\r\n\r\n")
    house.loop.turn()
    assert one.transport.did[1:] == ["pause"]
    house.loop.turn()
    assert one.transport.did[1:] == ["pause", "resume", "eof"]


def test_a_client_that_sends_no_more_gets_its_replies():
    house = House()
    idle, reading, working, several = (house.connect() for _ in range(4))
    assert not idle.eof_received()
    feed(reading, GET[:9])
    assert not reading.eof_received()
    assert reading.transport.did[-1] == "close"
    feed(working, LATER)
    assert working.eof_received()
    house.loop.work()
    assert replies(working)[0][0] == 200
    assert working.transport.did[-1] == "close"
    feed(several, GET * 2 + GET[:9])
    assert several.eof_received()
    house.loop.turn()
    house.loop.turn()
    assert len(replies(several)) == 2
    assert several.transport.did[-1] == "close"
    last = house.connect()
    feed(last, LATER * 2)
    assert last.eof_received()
    house.loop.work()
    assert "close" not in last.transport.did
    house.loop.turn()
    house.loop.work()
    assert len(replies(last)) == 2
    assert last.transport.did[-1] == "close"


def test_a_slow_reader_has_a_deadline_of_its_own():
    house = House(send_seconds=7)
    slow, deaf = house.connect(), house.connect()
    for one in (slow, deaf):
        one.transport.deaf = one
        feed(one, GET)
        assert (one.state, one.deadline) == (State.SENDING, START + 7)
    assert slow.eof_received()
    assert not slow._close_after
    slow.resume_writing()
    assert slow.transport.did[-1] == "close"
    deaf.expire()
    assert house.refused("send_deadline") == 1
    assert deaf.transport.did[-1] == "abort"
    patient = house.connect()
    patient.transport.deaf = patient
    feed(patient, GET)
    feed(patient, GET)
    assert len(replies(patient)) == 1
    patient.transport.deaf = None
    patient.resume_writing()
    assert patient.state is State.READING
    house.loop.turn()
    assert len(replies(patient)) == 2
    assert patient.state is State.IDLE
    patient.pause_writing()
    patient.resume_writing()
    assert patient.state is State.IDLE


def test_a_stop_leaves_time_to_what_has_begun():
    house = House(drain_seconds=4, idle_seconds=15, header_seconds=3600)
    idle, reading, soon = house.connect(), house.connect(), house.connect()
    feed(reading, GET[:9])
    soon.deadline = START + 0.1
    for one in (idle, reading, soon):
        one.shutdown()
    assert [one.deadline for one in (idle, reading, soon)] == [START + 0.3, START + 4, START + 0.1]
    for one, rest in ((idle, GET), (reading, GET[9:])):
        feed(one, rest)
        assert replies(one)[0][1]["connection"] == "close"
        assert one.transport.did[-1] == "close"


def test_nothing_is_written_to_a_connection_that_closes():
    house = House()
    one = house.connect()
    feed(one, LATER)
    one.transport.close()
    house.loop.work()
    assert one.transport.sent == b""
    assert one.state is State.WORKING
    assert one.deadline == float("inf")
