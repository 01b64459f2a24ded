#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""strangers.py TRAINED FOLDER [CONNECTIONS]

Connects to every port at which processes over Gloo listen, as somebody who is no rank of the job: garbage, half
messages, what was heard before, and CONNECTIONS (100) at a time that say nothing. Nobody is let in, nobody is
told more than the question, no rank ends by it, and the losses are those of threads.

One rank is this script where a test needs it: it speaks the exchange of backend/gloo/gloo_challenge.hpp by
Python's own HMAC. The exit code is 0 if all holds."""
import hashlib
import hmac
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

MARK = b"plait 1\n"
QUESTION, ANSWER, PROOF = 40, 76, 32


class Wrong(Exception):
    pass


def expect(holds, text):
    if not holds:
        raise Wrong(text)


# ---- Ports ---------------------------------------------------------------------------------------

def listening(pids):
    """[(process, port)] of the TCP sockets over IPv4 that these processes listen at."""
    ports = {}
    with open("/proc/net/tcp") as file:
        for line in file.readlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                ports["socket:[%s]" % words[9]] = int(words[1].split(":")[1], 16)
    found = []
    for pid in pids:
        try:
            for fd in os.listdir("/proc/%d/fd" % pid):
                link = os.readlink("/proc/%d/fd/%s" % (pid, fd))
                if link in ports:
                    found.append((pid, ports[link]))
        except OSError:
            pass  # it has ended, or closed it
    return found


def connect(port, seconds=60):
    one = socket.create_connection(("127.0.0.1", port), timeout=seconds)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one


def read(one, most):
    data = b""
    try:
        while len(data) < most:
            piece = one.recv(most - len(data))
            if not piece:
                break
            data += piece
    except ConnectionError:
        pass
    return data


# ---- The exchange --------------------------------------------------------------------------------

def code(key, what, rendezvous, ranks, addresses, question, answer):
    fields = [b"plait: processes of one job over Gloo", what, rendezvous]
    for rank in ranks:
        fields += [b"%d" % rank, addresses[rank]]
    fields += [question, answer]
    return hmac.new(key, b"".join(struct.pack("<Q", len(field)) + field for field in fields), hashlib.sha256).digest()


class Member:
    """A rank's knowledge of its rendezvous."""

    def __init__(self, rank, key, rendezvous, addresses):
        self.rank, self.key, self.rendezvous, self.addresses = rank, key, rendezvous, addresses

    def answer(self, question, to, **other):
        rank = other.get("rank", self.rank)
        text = MARK + struct.pack("<I", rank) + os.urandom(32)
        return text + code(other.get("key", self.key), b"answer", other.get("rendezvous", self.rendezvous), (rank, to),
                           self.addresses, question, text)

    def join(self, one, to):
        """True if the other end takes it and is a member, too. What was said is left in `said`."""
        question = read(one, QUESTION)
        self.said = self.answer(question, to)
        one.sendall(self.said)
        return read(one, PROOF) == code(self.key, b"proof", self.rendezvous, (self.rank, to), self.addresses, question,
                                        self.said[:-32])


# ---- What strangers do ---------------------------------------------------------------------------

GLOO = struct.pack("<6Q", 56, 1, 7, 0, 8, 0) + b"12345678"  # a message as Gloo sends it
KINDS = (b"", b"\n", os.urandom(4096), b"GET / HTTP/1.0\r\n\r\n", MARK, MARK + b"\2\0\0\0" + bytes(20),
         MARK + b"\2\0\0\0" + os.urandom(64), MARK + b"\xff" * 68, GLOO, GLOO * 100, b"\0" * 65536)


def say(port, data):
    """Sends it, and returns what comes back until the other end has closed."""
    try:
        with connect(port) as one:
            try:
                one.sendall(data)
                one.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            return read(one, 1 << 20)
    except OSError:
        return b""  # the address is closed


def check_told(told, what):
    expect(len(told) <= QUESTION and (MARK + told[8:]).startswith(told[:8]),
           "a stranger was told %r (%s)" % (told, what))


class Strangers(threading.Thread):
    """Attack each port that processes open, as soon as it is there, until stop()."""

    def __init__(self, pids):
        super().__init__(daemon=True)
        self.pids, self.ends, self.problem, self.connections, self.ports = pids, False, None, 0, set()
        self.start()

    def run(self):
        try:
            while not self.ends:
                time.sleep(0.001)
                for pid, port in listening(self.pids()):
                    self.ports.add((pid, port))
                    silent = []
                    for kind in KINDS:
                        try:
                            silent.append(connect(port))
                            silent[-1].sendall(kind)
                        except OSError:
                            break
                    self.connections += len(silent)
                    for one in silent:
                        with one:
                            one.settimeout(0.05)
                            try:
                                check_told(one.recv(1 << 16), "all at once")
                            except OSError:
                                pass
        except Wrong as problem:
            self.problem = problem

    def stop(self):
        self.ends = True
        self.join()
        if self.problem:
            raise self.problem
        return self.connections


# ---- Jobs ----------------------------------------------------------------------------------------

class Job:
    def __init__(self, trained, folder, secret=os.urandom(32)):
        self.trained, self.folder, self.rendezvous, self.ranks = trained, folder, os.path.join(folder, "rendezvous"), {}
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        self.secret, self.secret_file = secret, os.path.join(folder, "secret")
        self.write(self.secret_file, secret)

    def write(self, path, secret, mode=0o600):
        with open(path, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(secret)
        return path

    def start(self, rank, size, *words, secret=None, job="strangers"):
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("PLAIT_INTERFACE", "GLOO_SOCKET_IFNAME", "MASTER_PORT")}
        environment.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size), TORCHELASTIC_RUN_ID=job,
                           PLAIT_RENDEZVOUS=self.rendezvous, TRAINED_SECONDS="250", OPENBLAS_NUM_THREADS="1",
                           PLAIT_JOB_SECRET_FILE=self.secret_file if secret is None else secret)
        with open(os.path.join(self.folder, "%d.out" % rank), "wb") as out, \
                open(os.path.join(self.folder, "%d.err" % rank), "wb") as err:
            self.ranks[rank] = subprocess.Popen([self.trained, *words], env=environment, stdin=subprocess.DEVNULL,
                                                stdout=out, stderr=err)

    def text(self, rank, kind):
        with open(os.path.join(self.folder, "%d.%s" % (rank, kind)), errors="replace") as file:
            return file.read()

    def pids(self):
        return [process.pid for process in self.ranks.values()]

    def until(self, holds, what):
        end = time.monotonic() + 200
        while time.monotonic() < end:
            if found := holds():
                return found
            time.sleep(0.005)
        raise Wrong("it did not come to this: %s; %s" % (what, {rank: self.text(rank, "err") for rank in self.ranks}))

    def note(self, name):
        """The notes of the rendezvous, when it exists."""
        def look():
            try:
                for file in os.listdir(self.rendezvous):
                    if file == name or (name != "writer" and file.endswith("." + name)):
                        with open(os.path.join(self.rendezvous, file), "rb") as note:
                            return note.read()
            except OSError:
                pass
            return None
        return self.until(look, "the note %r" % name)

    def leave(self, name, value):
        number = self.note("writer").split(b"\n")[1].decode()
        partial = os.path.join(self.rendezvous, "plait-script.partial")
        self.write(partial, value)
        os.rename(partial, os.path.join(self.rendezvous, number + "." + name))

    def ends(self, rank, code, *words):
        got = self.ranks.pop(rank).wait(timeout=240)
        said = self.text(rank, "err")
        expect(got == code, "rank %d: exit code %d instead of %d: %s" % (rank, got, code, said))
        for word in words:
            expect(word in said, "rank %d does not say %r: %s" % (rank, word, said))
        expect(said.count("\n") <= 1, "rank %d: not one sentence: %s" % (rank, said))

    def close(self):
        for process in self.ranks.values():
            process.kill()
            process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def mark(pid):
    with open("/proc/%d/stat" % pid) as file:
        start = file.read().rpartition(")")[2].split()[19]
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    return "\t".join([str(pid), start, boot, os.readlink("/proc/self/ns/pid"), os.uname().nodename,
                      os.readlink("/proc/self/ns/net")]).encode()


def check_start(trained, folder, connections):
    """Ranks 0 and 1 of three wait for rank 2, which is this script, and strangers come first."""
    with Job(trained, folder) as job:
        for rank in (0, 1):
            job.start(rank, 3, "ranked", "dp3", "timeout=200000")
        writer = job.note("writer").split(b"\n")
        job.leave("here.2", mark(os.getpid()))
        with socket.create_server(("127.0.0.1", 0)) as mine:
            port = mine.getsockname()[1]
            own = struct.pack("<H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton("127.0.0.1") + bytes(8)
            addresses = [job.note("at.0"), job.note("at.1"), own]
            os.kill(job.ranks[1].pid, signal.SIGSTOP)  # so that rank 0 is not done when it has rank 2
            job.leave("at.2", own)
            ports = [struct.unpack(">H", address[2:4])[0] for address in addresses]
            expect(sorted(port for _, port in listening(job.pids())) == sorted(ports[:2]),
                   "ranks listen at %s, not %s" % (listening(job.pids()), ports[:2]))
            name = "job %s of 3 processes, rendezvous %s" % (writer[3].decode(), writer[1].decode())
            member = Member(2, job.secret, name.encode(), addresses)

            def attack(to):
                silent = [connect(ports[to]) for _ in range(connections)]
                for one in silent:
                    one.setblocking(False)
                    try:
                        one.send(MARK + b"\2\0")  # half an answer, whose end does not come
                    except OSError:
                        pass  # more than the port keeps
                for data in KINDS:
                    check_told(say(ports[to], data), data[:20])
                for what, other in (("another job", {"rendezvous": name.replace("strangers", "others").encode()}),
                                    ("another rendezvous", {"rendezvous": name.encode()[:-1] + b"x"}),
                                    ("another key", {"key": os.urandom(32)}), ("no key", {"key": b""}),
                                    ("a lower rank", {"rank": 0}), ("a rank that is not asked", {"rank": 1})):
                    with connect(ports[to]) as one:
                        question = read(one, QUESTION)
                        if other.get("rank") == 1 and to == 0:
                            continue  # a stranger with the key counts as rank 1
                        one.sendall(member.answer(question, to, **other))
                        expect(read(one, 1) == b"", "%s was taken for rank 2" % what)
                for one in silent:
                    one.settimeout(60)
                    one.close()

            def say_again(to):
                with connect(ports[to]) as one:
                    expect(len(read(one, QUESTION)) == QUESTION, "rank %d asks nothing" % to)
                    one.sendall(member.said)
                    expect(read(one, 1) == b"", "rank %d takes what was said to rank 0" % to)

            attack(0)
            zero = connect(ports[0])
            expect(member.join(zero, 0), "rank 0 does not take rank 2, which knows the secret")
            say_again(0)
            os.kill(job.ranks[1].pid, signal.SIGCONT)
            say_again(1)
            attack(1)
            one = connect(ports[1])
            expect(member.join(one, 1), "rank 1 does not take rank 2, which knows the secret")
            job.until(lambda: not listening(job.pids()), "nobody listens when all are connected")

            # A member that is not well. Its bytes end the job and no process.
            for end in (zero, one):
                end.sendall(struct.pack("<6Q", 56, 1, 7, 0, 8, 0) + b"12345678")
            for rank in (0, 1):
                job.ends(rank, 1, "rank %d: " % rank, "is lost", "bytes have arrived that are not Gloo's")
            zero.close()
            one.close()
        expect(not os.path.exists(job.rendezvous), "the rendezvous's folder is left")


def check_end_of_a_rank(trained, folder):
    """Rank 2 ends when the others have seen its address and wait for it."""
    with Job(trained, folder) as job, subprocess.Popen(["sleep", "1000"]) as second:
        try:
            for rank in (0, 1):
                job.start(rank, 3, "ranked", "dp3", "timeout=200000")
            job.note("writer")
            job.leave("here.2", mark(second.pid))
            job.leave("at.2", job.note("at.0"))
            job.note("at.1")
        finally:
            second.kill()
        for rank in (0, 1):
            job.ends(rank, 1, "rank 2, process %d on host " % second.pid,
                     "has ended before all ranks were connected")
        expect(not os.path.exists(job.rendezvous), "the rendezvous's folder is left")


def check_training(trained, folder):
    """Strangers at each port that is open, from the first moment to the last."""
    for how, plan, size in (("ranked", "dp3", 3), ("library", "dp2.pp2", 4)):  # whose groups have ports of their own
        words = [plan, "steps=40"]
        losses = subprocess.run([trained, "threads", *words], check=True, capture_output=True, text=True).stdout
        with Job(trained, folder) as job:
            strangers = Strangers(job.pids)
            for rank in range(size):
                job.start(rank, size, how, *words, "wait=5", "timeout=200000")
            job.until(lambda: job.text(0, "out").count("\n") > 5, "five steps")
            expect(not listening(job.pids()), "a job that trains listens at %s" % listening(job.pids()))
            for rank in range(size):
                job.ends(rank, 0)
            strangers.stop()
            expect(job.text(0, "out") == losses, "the losses are not those of threads")
            expect(not os.path.exists(job.rendezvous), "the rendezvous's folder is left")


def check_secrets(trained, folder):
    """Each sentence about the secret, on both ranks."""
    secret = "the secret of the job (PLAIT_JOB_SECRET_FILE) "
    with Job(trained, folder) as job:
        other = job.write(os.path.join(folder, "other"), os.urandom(32))
        for mine, words in ((other, secret + "differs between rank 0 and this rank"),
                            ("", secret + "was given to rank 0 and not to this rank")):
            job.start(0, 2, "ranked", "dp2", "timeout=200000")
            job.start(1, 2, "ranked", "dp2", "timeout=200000", secret=mine)
            job.ends(1, 1, "gloo: rank 1: " + words)
            job.ends(0, 1, "the start has failed on rank 1: " + words)
        job.start(0, 2, "ranked", "dp2", "timeout=200000", secret="")
        job.start(1, 2, "ranked", "dp2", "timeout=200000")
        job.ends(1, 1, secret + "was given to this rank and not to rank 0")
        job.ends(0, 1, "rank 1: " + secret)
        for content, mode, words in ((os.urandom(32), 0o640, "may be used by other users"),
                                     (b"", 0o600, "has 0 bytes; it must have from 32"),
                                     (b"x" * 31, 0o600, "has 31 bytes; it must have from 32"),
                                     (b"x" * 4097, 0o400, "has 4097 bytes; it must have from 32 to 4096")):
            path = os.path.join(folder, "bad")
            if os.path.exists(path):
                os.unlink(path)
            job.start(0, 2, "ranked", "dp2", secret=job.write(path, content, mode))
            job.ends(0, 1, "secret of the job (PLAIT_JOB_SECRET_FILE) '" + path + "' " + words)
        job.start(0, 2, "ranked", "dp2", secret="/no/such/file")
        job.ends(0, 1, "'/no/such/file' cannot be read: No such file")
        # Without a secret rank 0 leaves one with the notes.
        for rank in range(2):
            job.start(rank, 2, "ranked", "dp2", "steps=2", "timeout=200000", secret="")
        for rank in range(2):
            job.ends(rank, 0)


def main(trained, folder, connections="100"):
    checks = [("start", lambda to: check_start(trained, to, int(connections))),
              ("end of a rank", lambda to: check_end_of_a_rank(trained, to)),
              ("training", lambda to: check_training(trained, to)), ("secrets", lambda to: check_secrets(trained, to))]
    failures = 0
    for name, check in checks:
        begin = time.monotonic()
        try:
            check(os.path.join(folder, name))
            print("strangers.py: %s: %.1f s" % (name, time.monotonic() - begin))
        except (Wrong, OSError, subprocess.SubprocessError) as problem:
            failures += 1
            print("strangers.py: %s: %s: %s" % (name, type(problem).__name__, problem), file=sys.stderr)
    return failures


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(1 if main(*sys.argv[1:]) else 0)
