#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""elastic_jobs.py PROGRAM FOLDER [SCENARIO]...

Runs elastic jobs of PROGRAM (elastic_job.cpp) whose processes are killed, stopped, cut off from etcd and
joined by others, and compares weights, losses and samples with a run that nothing has disturbed. Without
names it runs all scenarios, four at a time as they mostly wait, but those that measure. Prints a line for
each; the exit code is 0 if all hold, 77 where there is no etcd."""
import base64
import json
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../backend/gloo"))
from strangers import Strangers  # noqa: E402

PROGRAM = FOLDER = None
CTRL = {"PLAIT_ELASTIC", "PLAIT_ELASTIC_AT", "PLAIT_JOB", "PLAIT_MEMBER"}


class Wrong(Exception):
    pass


def expect(holds, text):
    if not holds:
        raise Wrong(text)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Etcd:
    scheme, environment = "etcd", {}

    def __init__(self, folder):
        self.folder, self.client, self.peer = folder, free_port(), free_port()
        self.process, self.address = None, None
        self.start()

    def listen_at(self, address):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.address = address
        self.start()

    def start(self):
        url = "http://127.0.0.1:%d"
        beside = ",http://%s:%d" % (self.address, self.client) if self.address else ""
        self.process = subprocess.Popen(
            ["etcd", "--data-dir", self.folder, "--listen-client-urls", url % self.client + beside,
             "--advertise-client-urls", url % self.client, "--listen-peer-urls", url % self.peer,
             "--initial-advertise-peer-urls", url % self.peer, "--initial-cluster", "default=" + url % self.peer,
             "--log-level", "error"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.time() + 200
        while time.time() < end:
            try:
                with urllib.request.urlopen((url % self.client) + "/health", timeout=1) as answer:
                    if b"true" in answer.read():
                        return
            except OSError:
                time.sleep(0.05)
        raise Wrong("etcd does not come up")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def is_full(self, full):
        """Makes etcd behave as over its quota: it refuses writes that would make it larger."""
        self.call("maintenance/alarm", action="ACTIVATE" if full else "DEACTIVATE", alarm="NOSPACE", memberID="0")

    def call(self, what, **body):
        request = urllib.request.Request("http://127.0.0.1:%d/v3/%s" % (self.client, what),
                                         json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def lease_of(self, key):
        found = self.call("kv/range", key=base64.b64encode(key.encode()).decode()).get("kvs")
        return int(found[0].get("lease", 0)) if found else 0


class SecuredEtcd(Etcd):
    """An etcd with TLS and a password; its tokens expire after a second or two."""
    scheme = "etcds"

    def __init__(self, folder):
        self.keys, self.token = folder + "-keys", None
        shutil.rmtree(self.keys, ignore_errors=True)
        os.makedirs(self.keys)
        with open(self.path("names"), "w") as file:
            file.write("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
        kind = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
        for words in ("req -x509 %s -days 2 -subj /CN=ca -keyout ca.key -out ca.pem" % kind,
                      "req %s -subj /CN=server -keyout server.key -out server.csr" % kind,
                      "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -days 2 "
                      "-out server.pem"):
            subprocess.run(["openssl", *words.split()], cwd=self.keys, check=True, capture_output=True)
        for name in ("password", "wrong"):
            with open(os.open(self.path(name), os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                file.write("secret of the job\n" if name == "password" else "another\n")
        self.context = ssl.create_default_context(cafile=self.path("ca.pem"))
        self.environment = {"PLAIT_ELASTIC_CA": self.path("ca.pem"), "PLAIT_ELASTIC_USER": "root",
                            "PLAIT_ELASTIC_PASSWORD_FILE": self.path("password")}
        super().__init__(folder)
        self.call("auth/user/add", name="root", password="secret of the job")
        self.call("auth/user/grant", user="root", role="root")
        self.call("auth/enable")

    def path(self, name):
        return os.path.join(self.keys, name)

    def start(self):
        url = "https://127.0.0.1:%d" % self.client
        peer = "http://127.0.0.1:%d" % self.peer
        self.process = subprocess.Popen(
            ["etcd", "--data-dir", self.folder, "--listen-client-urls", url, "--advertise-client-urls", url,
             "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
             "--cert-file", self.path("server.pem"), "--key-file", self.path("server.key"), "--auth-token-ttl", "1",
             "--bcrypt-cost", "4", "--log-level", "error"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.time() + 200
        while time.time() < end:
            try:
                with urllib.request.urlopen(url + "/health", timeout=1, context=self.context) as answer:
                    if b"true" in answer.read():
                        return
            except OSError:
                time.sleep(0.05)
        raise Wrong("etcd does not come up")

    def call(self, what, **body):
        headers = {"Content-Type": "application/json"}
        if not what.startswith("auth/"):
            headers["Authorization"] = self.call("auth/authenticate", name="root", password="secret of the job")["token"]
        return self.ask(what, headers, **body)

    def ask(self, what, headers, **body):
        request = urllib.request.Request("https://127.0.0.1:%d/v3/%s" % (self.client, what), json.dumps(body).encode(),
                                         headers)
        with urllib.request.urlopen(request, timeout=20, context=self.context) as answer:
            return json.load(answer)


class Proxy(threading.Thread):
    """Forwards bytes between members and etcd; after cut() it forwards nothing."""

    def __init__(self, to):
        super().__init__(daemon=True)
        self.to, self.is_cut = to, False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            one, _ = self.listener.accept()
            try:
                other = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                one.close()
                continue
            for a, b in ((one, other), (other, one)):
                threading.Thread(target=self.pump, args=(a, b), daemon=True).start()

    def pump(self, source, target):
        try:
            while data := source.recv(65536):
                while self.is_cut:
                    time.sleep(0.02)
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Job:
    """An elastic job. A member that dies loses its lease at once where revokes is set, as a launcher does it."""
    count, counting = 0, threading.Lock()

    def __init__(self, plan="dp", steps=200, bounds="2:4", revokes=True, store=Etcd, **settings):
        with Job.counting:
            Job.count += 1
            self.name = "job%d" % Job.count
        self.plan, self.steps, self.bounds, self.revokes, self.settings = plan, steps, bounds, revokes, settings
        self.folder = os.path.join(FOLDER, self.name)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.etcd = store(os.path.join(self.folder, "etcd"))
        self.members, self.ends = {}, {}
        self.lock = threading.Lock()

    def add(self, count=1, at=None, **settings):
        return [self.start_one(at, {**self.settings, **settings}) for _ in range(count)]

    def start_one(self, at, settings):
        uid = os.urandom(8).hex()
        environment = {**os.environ, "PLAIT_ELASTIC": self.bounds, "PLAIT_JOB": self.name, "PLAIT_MEMBER": uid,
                       "PLAIT_ELASTIC_AT": "%s://%s:%d" % (self.etcd.scheme, self.etcd.address or "127.0.0.1",
                                                           at or self.etcd.client),
                       **self.etcd.environment, **settings.pop("environment", {}),
                       "OPENBLAS_NUM_THREADS": "1"}
        plan = settings.pop("plan", self.plan)
        host, words = settings.pop("host", None), []
        if host:
            environment["PLAIT_INTERFACE"] = "cable"
            words = ["ip", "netns", "exec", host, "unshare", "--uts", "sh", "-c",
                     "hostname " + host + "; exec \"$0\" \"$@\""]
        words += [PROGRAM, plan, str(settings.pop("steps", self.steps)), self.folder] + [
            "%s=%s" % one for one in settings.items()]
        out = open(os.path.join(self.folder, "out-" + uid), "w+")
        process = subprocess.Popen(words, env=environment, stdout=out, stderr=out)
        process.uid, process.out, process.host = uid, out, host
        with self.lock:
            self.members[process.pid] = process
        threading.Thread(target=self.wait_for, args=(process,), daemon=True).start()
        return process

    def wait_for(self, process):
        code = process.wait()
        if self.revokes and code != 0:
            try:
                lease = self.etcd.lease_of("/plait/%s/members/%s" % (self.name, process.uid))
                if lease:
                    self.etcd.call("lease/revoke", ID=str(lease))
            except OSError:
                pass
        with self.lock:
            self.members.pop(process.pid, None)
            self.ends[process.pid] = code

    def events(self):
        """[(generation, rank, ranks, step, process, when)]"""
        try:
            with open(os.path.join(self.folder, "events")) as file:
                words = [line.split() for line in file]
        except FileNotFoundError:
            return []
        return [(int(w[1]), int(w[2]), int(w[4]), int(w[6]), int(w[8]), int(w[10]) / 1000) for w in words if len(w) == 11]

    def until(self, holds, what, seconds=300):
        end = time.time() + seconds
        while time.time() < end:
            if found := holds():
                return found
            time.sleep(0.01)
        raise Wrong("not within %d s: %s\n%s" % (seconds, what, self.texts()))

    def generation(self, ranks=None, above=0, seconds=300):
        """Waits for a whole generation, with this many ranks and above this number; returns its processes by rank."""
        def look():
            found = {}
            for number, rank, size, step, pid, when in self.events():
                if number > above and (ranks is None or size == ranks):
                    found.setdefault((number, size), {})[rank] = pid
            for (number, size), by_rank in sorted(found.items(), reverse=True):
                if len(by_rank) == size:
                    return number, by_rank
            return None
        return self.until(look, "a generation of %s ranks behind %d" % (ranks, above), seconds)

    def step(self):
        try:
            with open(os.path.join(self.folder, "losses.csv")) as file:
                return len(file.readlines()) - 1
        except FileNotFoundError:
            return 0

    def reach(self, step, seconds=300):
        self.until(lambda: self.step() >= step, "step %d" % step, seconds)

    def end(self, seconds=600):
        """Waits until all have ended; returns the exit codes of those that were not killed."""
        self.until(lambda: not self.members, "all members end", seconds)
        return [code for code in self.ends.values() if code != -signal.SIGKILL]

    def saves(self):
        """(name, whether it counts) of each checkpoint that is there."""
        folder = os.path.join(self.folder, "saves")
        names = os.listdir(folder)
        newest = max([int(name[11:]) for name in names if name.startswith("plait.list-")], default=0)
        counts = []
        if newest:
            with open(os.path.join(folder, "plait.list-%d" % newest)) as file:
                counts = json.load(file)["names"]
        return [(name, ".lease-" not in name or ".lease-%d-" % newest in name or name in counts)
                for name in names if re.fullmatch(r"step-\d+(\.lease-\d+-\d+)?", name)]

    def check_saves(self):
        """After the end of a job: all saves count, because the newest root has removed the remains of older roots."""
        found = self.saves()
        expect(found and all(counts for _, counts in found), "%s\n%s" % (found, self.texts()))

    def texts(self):
        out = ""
        for name in sorted(os.listdir(self.folder)):
            if name.startswith("out-") or name == "events":
                with open(os.path.join(self.folder, name)) as file:
                    out += name + ": " + file.read()[-2000:] + "\n"
        return out

    def hashes(self):
        return {line.split()[1] for line in self.texts().splitlines() if "hash: " in line
                for line in [line[line.index("hash: "):]]}

    def check(self, codes=(0,)):
        """The run is as if nothing had been."""
        got = self.end()
        expect(set(got) <= set(codes), "exit codes %s\n%s" % (got, self.texts()))
        reference = undisturbed(self.plan, self.steps, self.settings.get("noise", 0))
        expect(self.hashes() == {reference[0]}, "hash %s, undisturbed %s\n%s" % (self.hashes(), reference[0], self.texts()))
        with open(os.path.join(self.folder, "losses.csv")) as file:
            expect(file.read() == reference[1], "the losses differ")
        self.check_samples()

    def check_samples(self):
        """In the last generation that did a step each sample of its batch was taken once."""
        steps = {}
        for name in os.listdir(self.folder):
            if name.startswith("samples-"):
                with open(os.path.join(self.folder, name)) as file:
                    for line in file:
                        words = [int(word) for word in line.split()]
                        steps.setdefault(words[1], {}).setdefault(words[0], {})[words[2]] = (words[3], words[4:])
        expect(len(steps) == self.steps, "%d steps of %d were done" % (len(steps), self.steps))
        if self.plan != "dp":
            return
        for step, tries in steps.items():
            ranks = tries[max(number for number, ranks in tries.items() if len(ranks) == next(iter(ranks.values()))[0])]
            samples = [sample for _, some in ranks.values() for sample in some]
            expect(len(samples) == len(set(samples)) == (24 if step % 5 != 4 else 4),
                   "step %d took %d samples, %d different ones" % (step, len(samples), len(set(samples))))

    def begin_again(self, count):
        """Another job continues from the checkpoints; it also numbers its generations from 1."""
        done = self.step()
        for name in os.listdir(self.folder):
            if name.startswith("samples-"):  # are written down before the step
                with open(os.path.join(self.folder, name)) as file:
                    lines = [line for line in file if int(line.split()[1]) < done]
                with open(os.path.join(self.folder, name), "w") as file:
                    file.writelines(lines)
        self.ends.clear()
        self.add(count)

    def close(self):
        with self.lock:
            left = list(self.members.values())
        for process in left:
            process.kill()
        self.etcd.kill()
        shutil.rmtree(os.path.join(self.folder, "etcd"), ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


REFERENCES = {}


REFERRING = threading.Lock()


def undisturbed(plan, steps, noise=0):
    with REFERRING:
        return find_undisturbed(plan, steps, noise)


def find_undisturbed(plan, steps, noise):
    if (plan, steps, noise) not in REFERENCES:
        folder = os.path.join(FOLDER, "undisturbed-%s-%d-%d" % (plan, steps, noise))
        shutil.rmtree(folder, ignore_errors=True)
        out = subprocess.run([PROGRAM, plan, str(steps), folder, "threads=1", "noise=%d" % noise],
                             check=True, capture_output=True, text=True)
        with open(os.path.join(folder, "losses.csv")) as file:
            REFERENCES[plan, steps, noise] = (out.stdout.split("hash: ")[1].split()[0], file.read())
    return REFERENCES[plan, steps, noise]


# ---- Scenarios -----------------------------------------------------------------------------------

def kill_one_rank(which):
    with Job(pause=4) as job:
        job.add(4)
        number, ranks = job.generation(4)
        job.reach(20)
        os.kill(ranks[which], signal.SIGKILL)
        job.generation(3, number)
        job.check()


def kill_first_rank():
    kill_one_rank(0)


def kill_second_rank():
    kill_one_rank(1)


def kill_last_rank():
    kill_one_rank(3)


def samples_are_read_ahead():
    """Random samples, read ahead by threads: as if each had been read when it was asked for, by one process."""
    with Job(pause=4, noise=1, ahead=2, readers=2) as job:
        job.add(4)
        number, ranks = job.generation(4)
        job.reach(20)
        os.kill(ranks[2], signal.SIGKILL)
        number, ranks = job.generation(3, number)
        job.reach(job.step() + 10)
        os.kill(ranks[0], signal.SIGKILL)
        job.generation(2, number)
        job.check()


def strangers_at_every_port():
    """While members of each generation meet, strangers come to their ports; none is admitted. A port is open for
    milliseconds: on a busy machine the strangers do not see it in every rendezvous."""
    with Job(steps=500, pause=4) as job:
        strangers = Strangers(lambda: list(job.members))
        job.add(3)
        number, ranks = job.generation(3)
        job.reach(20)
        for _ in range(2):
            os.kill(ranks[1], signal.SIGKILL)
            number, _ = job.generation(2, number)
            job.add(1)
            number, ranks = job.generation(3, number)
            if strangers.connections:
                break
        job.check()
        return "%d connections" % strangers.stop()


def come_and_go():
    with Job(steps=400, bounds="2:5", pause=4) as job:
        job.add(4)
        number, ranks = job.generation(4)
        job.reach(20)
        os.kill(ranks[1], signal.SIGKILL)
        number, _ = job.generation(3, number)
        job.add(1)
        number, ranks = job.generation(4, number)
        job.reach(job.step() + 10)
        os.kill(ranks[0], signal.SIGKILL)
        os.kill(ranks[3], signal.SIGKILL)
        number, _ = job.generation(2, number)
        job.add(3)
        job.generation(5, number)
        job.check()


def stopped_for_a_while():
    with Job(steps=700, bounds="2:3", pause=5) as job:
        job.add(3)
        number, ranks = job.generation(3)
        job.reach(20)
        os.kill(ranks[1], signal.SIGSTOP)
        number, _ = job.generation(2, number)
        time.sleep(1)
        os.kill(ranks[1], signal.SIGCONT)
        job.generation(3, number)
        job.check()


def root_is_stopped():
    """The stopped root has the lock of the checkpoints' folder, and continues when it is woken up again."""
    with Job(steps=600, bounds="2:3", pause=5, every=20) as job:
        job.add(3)
        number, ranks = job.generation(3)
        job.reach(30)
        os.kill(ranks[0], signal.SIGSTOP)
        begin = time.time()
        number, _ = job.generation(2, number)
        took = time.time() - begin
        step = job.step()
        job.until(lambda: any(counts and int(name[5:13]) > step for name, counts in job.saves()), "another checkpoint")
        os.kill(ranks[0], signal.SIGCONT)
        job.generation(3, number)
        job.check()
        job.check_saves()
        expect(took < 50, "the others went on after %.1f s, of a time-out of 5 s" % took)
        return "%.1f s" % took


def root_hangs():
    with Job(steps=200, bounds="2:3", pause=5, timeout=1500, loops=30, loops_on=0, every=7) as job:
        job.add(3)
        number, ranks = job.generation(3)
        job.generation(2, number)
        job.until(lambda: job.hashes(), "the others end")
        job.until(lambda: len(job.ends) == 3, "the process that hangs is ended", 200)
        expect(sorted(job.ends.values())[:2] == [0, 0], str(job.ends))
        expect(job.hashes() == {undisturbed("dp", 200)[0]}, job.texts())
        job.check_saves()
        key = base64.b64encode(("/plait/%s/last" % job.name).encode()).decode()
        last = json.loads(base64.b64decode(job.etcd.call("kv/range", key=key)["kvs"][0]["value"]))
        expect(last["number"] > number and len(last["members"]) == 2, "the job ended in %s" % last)


def root_wakes_up_after_the_end():
    """Members that continue do not take what the old root writes then."""
    with Job(steps=150, bounds="2:3", pause=5, every=3, keep=2) as job:
        job.add(3)
        number, ranks = job.generation(3)
        job.reach(30)
        os.kill(ranks[0], signal.SIGSTOP)
        job.until(lambda: len(job.members) == 1, "the others end")
        before = sorted(name for name, counts in job.saves() if counts)
        os.kill(ranks[0], signal.SIGCONT)
        job.check()
        after = sorted(name for name, counts in job.saves() if counts)
        expect(before == after, "%s, then %s" % (before, after))


def storm_of_roots(rounds=12, seed=3):
    """Roots are stopped at any moment of a save, and woken up again at any moment later."""
    dice = random.Random(seed)
    with Job(steps=10000000, bounds="2:4", pause=1, every=2) as job:
        job.add(4)
        number, ranks = job.generation(4)
        sleeping = []
        for _ in range(rounds):
            job.reach(job.step() + dice.randrange(5, 30))
            time.sleep(dice.random() * 0.05)
            os.kill(ranks[0], signal.SIGSTOP)
            sleeping.append(ranks[0])
            number, ranks = job.generation(None, number)
            if len(sleeping) > 1 or dice.random() < 0.5:
                time.sleep(dice.random())
                for pid in sleeping:
                    os.kill(pid, signal.SIGCONT)
                sleeping.clear()
                number, ranks = job.generation(4, number - 1)
        for pid in sleeping:
            os.kill(pid, signal.SIGCONT)
        if sleeping:
            number, ranks = job.generation(4, number)
        newest = max((int(name[5:13]) for name, counts in job.saves() if counts))
        for pid in ranks.values():
            os.kill(pid, signal.SIGTERM)
        codes = job.end()
        expect(codes == [143] * 4, "%s %s" % (codes, job.texts()))
        last = job.step()
        expect(max(int(name[5:13]) for name, counts in job.saves() if counts) == last >= newest, str(job.saves()))
        # A fixed job whose ranks are threads continues from there to the weights of the undisturbed
        # run.
        steps = last + 40
        out = subprocess.run([PROGRAM, "dp", str(steps), job.folder, "threads=1", "every=1000"], check=True,
                             capture_output=True, text=True)
        expect(out.stdout.split("hash: ")[1].split()[0] == undisturbed("dp", steps)[0], out.stdout + out.stderr)
        return "%d generations, %d steps" % (number, last)


def sigterm_to_one():
    with Job(bounds="2:3", pause=4) as job:
        job.add(3)
        number, ranks = job.generation(3)
        job.reach(20)
        os.kill(ranks[0], signal.SIGTERM)
        job.generation(2, number)
        job.check(codes=(0, 143))
        expect(list(job.ends.values()).count(143) == 1, str(job.ends))


def sigterm_to_all_saves():
    with Job(steps=200, bounds="2:3", pause=4, every=1000) as job:
        job.add(3)
        number, ranks = job.generation(3)
        job.reach(20)
        for pid in ranks.values():
            os.kill(pid, signal.SIGTERM)
        got = job.end()
        expect(got == [143] * 3, "%s %s" % (got, job.texts()))
        expect(any(name.startswith("step-") for name in os.listdir(os.path.join(job.folder, "saves"))), job.texts())
        job.etcd.call("kv/deleterange", key=base64.b64encode(b"/plait/").decode(),
                      range_end=base64.b64encode(b"/plait0").decode())
        job.begin_again(2)
        job.check()


def a_full_disk_saves():
    with Job(steps=60, bounds="2:3", every=1000, full=20) as job:
        job.add(3)
        got = job.end()
        expect(got == [1] * 3 and job.texts().count("rank 0: the log has no room") >= 3, "%s %s" % (got, job.texts()))
        saved = os.listdir(os.path.join(job.folder, "saves"))
        expect(any(name.startswith("step-00000022.") for name in saved), "%s %s" % (saved, job.texts()))
        job.etcd.call("kv/deleterange", key=base64.b64encode(b"/plait/").decode(),
                      range_end=base64.b64encode(b"/plait0").decode())
        job.add(2, full=-1)
        job.ends.clear()
        expect(set(job.end()) == {0} and job.hashes() == {undisturbed("dp", 60)[0]}, job.texts())


def replica_loses_one_rank(plan):
    with Job(plan=plan, steps=250, bounds="1:3", pause=4) as job:
        job.add(6)
        number, ranks = job.generation(6)
        job.reach(20)
        os.kill(ranks[2], signal.SIGKILL)
        number, _ = job.generation(4, number)
        job.add(1)  # the partner of the rank that was left over
        number, ranks = job.generation(6, number)
        job.reach(job.step() + 5)
        for rank in (0, 1, 5):
            os.kill(ranks[rank], signal.SIGKILL)
        job.generation(2, number)
        job.check()


def tensor_replica():
    replica_loses_one_rank("dp.tp2")


def staged_replica():
    replica_loses_one_rank("dp.pp2")


def endless_loop():
    with Job(steps=120, bounds="2:3", timeout=1500, loops=30, loops_on=1) as job:
        job.add(3)
        number, ranks = job.generation(3)
        job.generation(2, number)
        job.until(lambda: job.hashes(), "the others end")
        job.until(lambda: len(job.ends) == 3, "the process that hangs is ended", 200)
        codes = list(job.ends.values())
        expect(sorted(codes)[:2] == [0, 0], str(codes))
        expect(job.hashes() == {undisturbed("dp", 120)[0]}, job.texts())


def etcd_restarted_with_its_data():
    with Job(steps=300, bounds="2:3", pause=5) as job:
        job.add(3)
        job.generation(3)
        job.reach(20)
        job.etcd.kill()
        time.sleep(1.0)
        job.etcd.start()
        job.check()


def etcd_restarted_without_its_data():
    with Job(steps=2000, bounds="2:3", pause=5, every=1000) as job:
        job.add(3)
        job.generation(3)
        job.reach(20)
        job.etcd.kill()
        shutil.rmtree(job.etcd.folder)
        job.etcd.start()
        got = job.end()
        expect(got and set(got) == {1}, str(got) + job.texts())
        expect("etcd has lost the data of the job" in job.texts(), job.texts())
        expect(any(name.startswith("step-") for name in os.listdir(os.path.join(job.folder, "saves"))), job.texts())


SILENT = "plait: elastic: etcd at etcd://127.0.0.1:%d does not answer for "


def expect_said(job, words, by=None):
    said = [line for line in job.texts().splitlines() if words in line]
    expect(len(said) >= (by or 1), "'%s' was said %d times\n%s" % (words, len(said), job.texts()))


def without_etcd(seconds, begin, end, **settings):
    """Etcd is away for longer than members wait for each other: no member ends, and no step is lost."""
    with Job(bounds="1:3", pause=5, **settings) as job:
        job.add(3)
        job.generation(3)
        job.reach(20)
        begin(job.etcd)
        began = time.time()
        job.until(lambda: SILENT % job.etcd.client in job.texts(), "a sentence")
        said = time.time() - began
        expect(said < 30, "the first sentence came after %.1f s" % said)
        time.sleep(max(0, began + seconds - time.time()))
        expect(len(job.members) == 3 and not job.ends, job.texts())
        end(job.etcd)
        job.check()
        expect(len(job.ends) == 3, str(job.ends))
        expect_said(job, SILENT % job.etcd.client, 3 * (1 + int((seconds - 5) / 30)))
        expect_said(job, "answers again, after ", 3)
        return "first sentence after %.1f s" % said


def etcd_gone_for(seconds, **settings):
    return without_etcd(seconds, Etcd.kill, Etcd.start, **settings)


def stop(etcd):
    etcd.process.send_signal(signal.SIGSTOP)


def go_on(etcd):
    etcd.process.send_signal(signal.SIGCONT)


def etcd_paused_for(seconds, **settings):
    return without_etcd(seconds, stop, go_on, **settings)


SHORT = {"timeout": 1500, "wait": 1500, "wait_for_state": 1500}  # of the waits, for a short outage


def etcd_gone():
    return etcd_gone_for(7, **SHORT)


def etcd_paused():
    return etcd_paused_for(7, **SHORT)


def etcd_gone_for_20_s():
    return etcd_gone_for(20)


def etcd_gone_for_35_s():
    return etcd_gone_for(35)


def etcd_gone_for_120_s():
    return etcd_gone_for(120)


def etcd_paused_for_35_s():
    return etcd_paused_for(35)


def etcd_paused_for_120_s():
    return etcd_paused_for(120)


def too_few_while_etcd_is_gone():
    """The time limit for missing members is held."""
    with Job(bounds="2:2", pause=5, wait=20000, wait_for_state=20000) as job:
        job.add(2)
        number, ranks = job.generation(2)
        job.reach(20)
        os.kill(ranks[0], signal.SIGKILL)
        time.sleep(2)
        job.etcd.kill()
        job.add(1)
        time.sleep(25)
        job.etcd.start()
        job.generation(2, number)
        job.check()


def silent_etcd(job):
    job.add(3)
    _, ranks = job.generation(3)
    job.reach(20)
    job.etcd.kill()
    job.until(lambda: job.texts().count(SILENT % job.etcd.client) == 3, "all wait")
    return ranks


def sigterm_to_all_without_etcd_saves():
    with Job(steps=200, bounds="2:3", pause=4, every=1000, timeout=3000) as job:
        ranks = silent_etcd(job)
        time.sleep(3.5)  # a rank that has done a step more than others still waits for them
        begin = time.time()
        for pid in ranks.values():
            os.kill(pid, signal.SIGTERM)
        got = job.end()
        took = time.time() - begin
        expect(got == [143] * 3, "%s %s" % (got, job.texts()))
        expect(any(name.startswith("step-") for name in os.listdir(os.path.join(job.folder, "saves"))), job.texts())
        shutil.rmtree(job.etcd.folder)
        job.etcd.start()
        job.begin_again(2)
        job.check()
        return "%.1f s" % took


def sigterm_to_one_without_etcd():
    with Job(steps=200, bounds="2:3", pause=4) as job:
        ranks = silent_etcd(job)
        begin = time.time()
        os.kill(ranks[1], signal.SIGTERM)
        job.until(lambda: job.ends, "it leaves")
        took = time.time() - begin
        expect(job.ends == {ranks[1]: 143}, "%s %s" % (job.ends, job.texts()))
        job.etcd.start()
        job.check(codes=(0, 143))
        expect(sorted(job.ends.values()) == [0, 0, 143], str(job.ends))
        return "%.1f s" % took


def store_wait_is_over():
    """One process has been without etcd for longer than the others, and ends the job for all."""
    with Job(steps=2000, bounds="2:3", pause=5, every=1000, store_wait=4000) as job:
        cables = [Proxy(job.etcd.client) for _ in range(2)]
        first = job.add(1, at=cables[0].port)[0]
        job.add(2, at=cables[1].port)
        job.generation(3)
        job.reach(20)
        cables[0].is_cut = True
        time.sleep(1)
        cables[1].is_cut = True
        got = job.end()
        expect(got == [1] * 3, str(got) + job.texts())
        with open(first.out.name) as file:
            said = file.read()
        expect(" s, and this process has stopped waiting for it (store_wait); the job has ended after step" in said, job.texts())
        expect(job.texts().count(" s, and another process of the job has stopped waiting for it; the job has ended after") == 2,
               job.texts())
        expect(any(name.startswith("step-") for name in os.listdir(os.path.join(job.folder, "saves"))), job.texts())


def etcd_gone_at_the_end():
    """Members that are done wait until they can record it, because spares would otherwise start the job again."""
    with Job(steps=60, bounds="2:3", pause=20) as job:
        job.add(3)
        job.generation(3)
        job.reach(50)
        job.etcd.kill()
        time.sleep(4)
        expect(len(job.members) == 3 and not job.ends, job.texts())
        job.etcd.start()
        job.check()
        late = job.add(1)[0]
        expect(late.wait() == 0, job.texts())
        expect(len(job.hashes()) == 1, job.texts())


def etcd_over_its_quota():
    with Job(bounds="1:3", pause=4) as job:
        job.add(3)
        number, ranks = job.generation(3)
        job.reach(20)
        job.etcd.is_full(True)
        os.kill(ranks[1], signal.SIGKILL)
        begin = time.time()
        job.until(lambda: "cannot be used for" in job.texts(), "a sentence")
        said = time.time() - begin
        expect(said < 30, "the first sentence came after %.1f s" % said)
        job.etcd.is_full(False)
        job.check()
        expect_said(job, "s, 'etcdserver: mvcc: database space exceeded': no member can join or leave")
        expect_said(job, "can be used again, after ")
        return "first sentence after %.1f s" % said


def members_without_etcd_but_spares_with_it():
    with Job(steps=600, bounds="2:2", pause=5, wait_for_state=20000) as job:
        proxy = Proxy(job.etcd.client)
        job.add(2, at=proxy.port)
        number, ranks = job.generation(2)
        job.reach(20)
        job.add(2)  # spares
        time.sleep(0.5)
        proxy.is_cut = True
        time.sleep(4)
        proxy.is_cut = False
        job.generation(2, number)
        job.check()


def too_few():
    with Job(steps=2000, bounds="2:2", pause=5, every=1000, wait=1500) as job:
        job.add(2)
        _, ranks = job.generation(2)
        job.reach(20)
        os.kill(ranks[0], signal.SIGKILL)
        got = job.end()
        expect(got == [1], str(got) + job.texts())
        expect("there were fewer than 2 replicas for 1500 ms" in job.texts(), job.texts())
        expect(any(name.startswith("step-") for name in os.listdir(os.path.join(job.folder, "saves"))), job.texts())


def strangers_are_refused():
    with Job(steps=300, bounds="1:4", pause=5) as job:
        job.add(2)
        job.generation(2)
        for settings, text in (({"token": "x"}, "has another token"), ({"plan": "dp.pp2"}, "has another plan")):
            one = job.add(1, **settings)[0]
            expect(one.wait() == 1, job.texts())
            with open(one.out.name) as file:
                said = file.read()
            expect(text in said, said)
            job.until(lambda: job.ends.pop(one.pid, None) is not None, "its end is known")
        job.check()
        late = job.add(1)[0]
        expect(late.wait() == 0, job.texts())
        with open(late.out.name) as file:
            said = file.read()
        expect("job '%s' is done" % job.name in said and "nothing is trained; to start it again, give it another name (PLAIT_JOB, .job), "
               "or delete the key '/plait/%s/done' in etcd" % job.name in said, said)
        texts = job.texts()
        expect(texts.count("is done") == 1, texts)
        # Deletes the key, as the error text advises.
        job.etcd.call("kv/deleterange", key=base64.b64encode(b"/plait/%s/done" % job.name.encode()).decode())
        again = job.add(1, steps=301)[0]
        expect(again.wait() == 0 and "hash: " in open(again.out.name).read(), job.texts())


def words_of_the_store_move_no_cursor():
    with Job(bounds="1:2") as job:
        def put(key, value):
            job.etcd.call("kv/put", key=base64.b64encode(("/plait/%s/%s" % (job.name, key)).encode()).decode(),
                          value=base64.b64encode(value.encode()).decode())
        evil = "\x1b[2J\x1b]0;x\x07\n"
        terms = {"id": evil, "plan": evil, "version": evil, "token": 0, "min": 1, "max": 2}
        for key, value, text in (("job", json.dumps(terms), "has another version of plait: '\\x1b[2J"),
                                 ("job", evil, "has a value that no process of an elastic job writes: '\\x1b[2J"),
                                 ("done", evil, "the job has ended: \\x1b[2J")):
            job.etcd.call("kv/deleterange", key=base64.b64encode(b"/plait/").decode(),
                          range_end=base64.b64encode(b"/plait0").decode())
            put(key, value)
            one = job.add(1, wait=500)[0]
            expect(one.wait() == 1, job.texts())
            with open(one.out.name) as file:
                said = file.read()
            expect(text in said and "\x1b" not in said and "\x07" not in said, repr(said))


def secured_store():
    if shutil.which("openssl") is None:
        return "skipped: there is no openssl"
    with Job(steps=500, bounds="2:3", pause=5, store=SecuredEtcd) as job:
        job.add(3)
        number, ranks = job.generation(3)
        job.reach(20)
        done = {"key": base64.b64encode(("/plait/%s/done" % job.name).encode()).decode(), "value": ""}
        for headers in ({}, {"Authorization": "guessed.1"}):
            try:
                job.etcd.ask("kv/put", headers, **done)
                raise Wrong("a stranger has ended the job")
            except urllib.error.HTTPError as refusal:
                expect(refusal.code in (400, 401), str(refusal))
        for variable, path, text in (("PASSWORD_FILE", job.etcd.path("wrong"), "user 'root' is not known to etcd, or"),
                                     ("CA", "/etc/hostname", "TLS: "), ("CA", "/none", "etcd's CA file '/none' cannot")):
            one = job.add(1, environment={"PLAIT_ELASTIC_" + variable: path})[0]
            expect(one.wait() == 1, job.texts())
            with open(one.out.name) as file:
                said = file.read()
            expect(text in said and "another" not in said, said)
            job.until(lambda: job.ends.pop(one.pid, None) is not None, "its end is known")
        os.kill(ranks[1], signal.SIGKILL)
        number, _ = job.generation(2, number)
        job.reach(job.step() + 5)
        job.etcd.kill()  # its tokens are gone
        job.etcd.start()
        job.add(1)
        job.generation(3, number)
        job.check()
        expect("secret of the job" not in job.texts(), "a password was printed")


def joining_ranks_are_refused():
    with Job(steps=500, bounds="2:4", pause=5, every=100) as job:
        job.add(2)
        job.generation(2)
        job.reach(20)
        for settings, text in (({"seed": 7}, "trainer 1: seed is 7 here and 1 in the job"),
                               ({"rate": 2}, "trainer 1: the optimizer's learning_rate is 0.0"),
                               ({"batch": 48}, "the samples of a global batch is 48 here and 24 in the job"),
                               ({"data": 3}, "the fingerprint of the data set, of which each data rank takes its share"),
                               ({"every": 7}, "checkpoint_options: .every is 7 here and 100 in the job")):
            one = job.add(1, **settings)[0]
            expect(one.wait() == 2, job.texts())
            with open(one.out.name) as file:
                said = file.read()
            expect("elastic: this process is refused by job '%s': " % job.name in said and text in said, said)
            job.until(lambda: job.ends.pop(one.pid, None) is not None, "its end is known")
        for _ in range(2):  # an error of a single member does not end the job, either
            one = job.add(1, batch=20)[0]
            expect(one.wait() == 1, job.texts())
            job.until(lambda: job.ends.pop(one.pid, None) is not None, "its end is known")
        expect("is refused, and the job continues: " in job.texts(), job.texts())
        job.add(1)  # a joining rank with equal options is accepted
        job.generation(3)
        job.check()


def second_launcher():
    """Members with another seed, and restarts left for them."""
    with Job(steps=500, bounds="2:4", pause=5) as job:
        job.add(2)
        job.generation(2)
        job.reach(20)
        launch = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "launch")
        got = subprocess.run([launch, "--elastic", "2:4", "-n", "2", "--restarts", "5", "--at",
                              "etcd://127.0.0.1:%d" % job.etcd.client, PROGRAM, "dp", "500", job.folder, "seed=3"],
                             env={**os.environ, "PLAIT_JOB": job.name, "OPENBLAS_NUM_THREADS": "1"}, capture_output=True,
                             text=True, timeout=300)
        said = got.stdout + got.stderr
        expect(got.returncode == 2, said)
        expect(said.count("seed is 3 here and 1 in the job") == 2 and "takes its place" not in said, said)
        job.check()


def first_generation_differs():
    """No rank knows which of them is right, so all end."""
    with Job(steps=100, bounds="2:2") as job:
        job.add(1)
        job.add(1, seed=7)
        codes = job.end()
        expect(codes == [1, 1], str(codes) + job.texts())
        expect("the ranks differ in seed: " in job.texts(), job.texts())


def fixed_job_with_other_data():
    """Rank 1 of two reads other samples, as many."""
    folder = os.path.join(FOLDER, "other-data")
    shutil.rmtree(folder, ignore_errors=True)
    launch = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "launch")
    for every in (0, 5):  # without and with checkpoints
        got = subprocess.run([launch, "-n", "2", "sh", "-c", "exec %s dp 20 %s fixed=1 every=%d data=$PLAIT_RANK" %
                              (PROGRAM, folder, every)], capture_output=True, text=True, timeout=300,
                             env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
        said = got.stdout + got.stderr
        expect(got.returncode == 1 and "hash" not in said, said)
        text = re.findall(r"^\[(\d)\] elastic_job: batches 1: the ranks differ in the fingerprint of the data set, of which "
                          r"each data rank takes its share: (\d+) on rank 0, (\d+) on rank 1", said, re.MULTILINE)
        expect(sorted(rank for rank, _, _ in text) == ["0", "1"] and text[0][1] != text[0][2], said)


def program_is_wrong():
    with Job(steps=100, throws=10) as job:
        job.add(4)
        got = job.end()
        expect(set(got) == {1}, str(got))
        expect("the program has failed twice in step 10: the program is wrong" in job.texts(), job.texts())


def a_sample_cannot_be_read():
    with Job(steps=100, unreadable=17, ahead=2, readers=2) as job:
        job.add(4)
        got = job.end()
        expect(set(got) == {1}, str(got))
        job.seconds = time.time() - max(event[5] for event in job.events())
        expect("sample 17 cannot be read" in job.texts(), job.texts())
        expect(job.seconds < 10, "the job ended %.1f s after it began" % job.seconds)
        return "%.1f s from the first line of the program to the end of all" % job.seconds


def times_are_refused():
    environment = {**os.environ, "PLAIT_ELASTIC": "1:2", "PLAIT_JOB": "times", "PLAIT_ELASTIC_AT": "etcd://127.0.0.1:1"}
    for name, value, text in (("gather", -1, "gather in seconds is -0.001; it must be from 0 on"),
                              ("timeout", 0, "timeout in seconds is 0; it must be above 0"),
                              ("wait", -5, "wait_for_members in seconds is -0.005; it must be from 0 on"),
                              ("wait_for_state", -2000, "wait_for_state in seconds is -2; it must be from 0 on"),
                              ("store_wait", -2000, "store_wait in seconds is -2; it must be from 0 on")):
        got = subprocess.run([PROGRAM, "dp", "10", os.path.join(FOLDER, "times"), "%s=%d" % (name, value)],
                             env=environment, capture_output=True, text=True, timeout=60)
        expect(got.returncode == 1 and "elastic::" + text in got.stderr, got.stderr)


def without_launcher():
    with Job(bounds="2:3", pause=4, revokes=False) as job:
        job.add(3)
        number, ranks = job.generation(3)
        job.reach(20)
        begin = time.time()
        os.kill(ranks[2], signal.SIGKILL)
        job.generation(2, number)
        job.seconds = max(event[5] for event in job.events()) - begin
        job.check()
        expect(job.seconds < 50, "recovery took %.1f s" % job.seconds)
        return "%.1f s" % job.seconds


def storm(changes=40, seed=5):
    """Kills and joins at random moments, also while others are still met."""
    dice = random.Random(seed)
    with Job(steps=max(400, changes * 25), bounds="2:6", pause=3, every=50) as job:
        job.add(4)
        job.generation(4)
        times = []
        for change in range(changes):
            time.sleep(dice.choice((0.02, 0.1, 0.25, 0.5)))
            with job.lock:
                living = list(job.members.values())
            if not living or job.ends and 0 in job.ends.values():
                break
            if len(living) > 2 and (len(living) >= 6 or dice.random() < 0.5):
                dice.choice(living).kill()
            else:
                job.add(1)
        with job.lock:
            left = len(job.members)
        if left < 2:
            job.add(2 - left)
        job.check()
        return "%d generations" % max(event[0] for event in job.events())


def storm_with_outages(changes=30, seed=5):
    """The storm, and etcd goes away and comes back at random moments, killed or stopped."""
    dice = random.Random(seed)
    with Job(steps=600, bounds="2:6", pause=3, every=50) as job:
        job.add(4)
        job.generation(4)
        outages = 0
        for change in range(changes):
            begin, end = dice.choice(((None, None), (Etcd.kill, Etcd.start), (stop, go_on)))
            if begin:
                outages += 1
                begin(job.etcd)
                time.sleep(dice.choice((0.1, 0.5, 1, 2.5, 4)))
            with job.lock:
                living = list(job.members.values())
            if not living or job.ends and 0 in job.ends.values():
                if end:
                    end(job.etcd)
                break
            if len(living) > 2 and (len(living) >= 6 or dice.random() < 0.5):
                dice.choice(living).kill()
            else:
                job.add(1)
            time.sleep(dice.choice((0.02, 0.1, 0.25, 0.5)))
            if end:
                end(job.etcd)
                time.sleep(dice.choice((0, 0.5, 2)))
        with job.lock:
            left = len(job.members)
        if left < 2 and 0 not in job.ends.values():
            job.add(2 - left)
        job.check()
        return "%d outages, %d generations" % (outages, max(event[0] for event in job.events()))


def recoveries(plan="dp", replica=1, count=20):
    """From kill -9 of a rank to the first step of all others."""
    times = []
    least, most = (2, 4) if replica == 1 else (1, 3)
    with Job(plan=plan, steps=10000000, bounds="%d:%d" % (least, most), pause=2) as job:
        job.add(most * replica)
        number, ranks = job.generation(most * replica)
        for _ in range(count):
            job.reach(job.step() + 5)
            begin = time.time()
            os.kill(ranks[random.randrange(most * replica)], signal.SIGKILL)
            number, _ = job.generation((most - 1) * replica, number)
            times.append(max(event[5] for event in job.events() if event[0] == number) - begin)
            job.add(1)
            number, ranks = job.generation(most * replica, number)
    times.sort()
    return "median %.0f ms, 95th percentile %.0f ms, most %.0f ms" % tuple(
        1000 * times[int(part * (len(times) - 1))] for part in (0.5, 0.95, 1))


def recoveries_of_tensor_replicas():
    return recoveries("dp.tp2", 2)


def recoveries_of_staged_replicas():
    return recoveries("dp.pp2", 2)


def resources(pid):
    with open("/proc/%d/status" % pid) as file:
        values = dict(line.split(":", 1) for line in file)
    return len(os.listdir("/proc/%d/fd" % pid)), int(values["Threads"]), int(values["VmRSS"].split()[0])


def soak(changes=1000):
    """A member lives through all changes: what it takes from the system after them is what it took after ten."""
    with Job(steps=100000000, bounds="2:4", pause=1) as job:
        job.add(3)
        number, ranks = job.generation(3)
        lasting = ranks[0]
        early = None
        for change in range(changes // 2):
            if change == 5:
                early = resources(lasting)
            victim = random.choice([pid for pid in ranks.values() if pid != lasting])
            os.kill(victim, signal.SIGKILL)
            number, _ = job.generation(2, number)
            job.add(1)
            number, ranks = job.generation(3, number)
        late = resources(lasting)
        expect(late[0] <= early[0] + 2 and late[1] <= early[1] and late[2] < 1.1 * early[2] + 1024,
               "files, threads, KiB: %s after 10 changes, %s after %d" % (early, late, changes))
        return "files, threads, KiB: %s after 10 changes, %s after %d" % (early, late, changes)


def cut_cable(plan="dp", most=4, of_root=False, **settings):
    """Two hosts, which are name spaces; the cable of one is drawn. Needs the right to make them."""
    def ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True)
    own = os.getpid()  # another run may be active, or have left an address
    net, bridge = "10.211.%d." % (own % 256), "plait%d" % own
    hosts, cables = [["%s%s%d" % (what, end, own) for end in "xy"] for what in ("plait-", "pv")]
    if shutil.which("ip") is None:
        return "skipped: there is no program ip (iproute2)"
    made = subprocess.run(["ip", "link", "add", bridge, "type", "bridge"], capture_output=True, text=True)
    if os.geteuid() != 0 or "not permitted" in made.stderr:
        return "skipped: name spaces are not permitted here"
    expect(made.returncode == 0, "ip: " + made.stderr)
    try:
        ip("addr", "add", net + "1/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for i, host in enumerate(hosts):
            ip("netns", "add", host)
            ip("link", "add", cables[i], "type", "veth", "peer", "name", "cable", "netns", host)
            ip("link", "set", cables[i], "master", bridge, "up")
            for words in (("addr", "add", "%s%d/24" % (net, i + 2), "dev", "cable"), ("link", "set", "cable", "up"),
                          ("link", "set", "lo", "up")):
                ip("netns", "exec", host, "ip", *words)
        with Job(plan=plan, steps=400, bounds="1:%d" % most, pause=5, timeout=8000, **settings) as job:
            job.etcd.listen_at(net + "1")
            for host in hosts:
                job.add(2, host=host)
            number, ranks = job.generation(4)
            job.reach(20)
            cable = cables[hosts.index(job.members[ranks[0]].host) if of_root else 1]
            ip("link", "set", cable, "down")
            number, _ = job.generation(2, number)
            time.sleep(1)
            ip("link", "set", cable, "up")
            job.generation(4, number)
            job.check()
            if settings:
                job.check_saves()
        return ""
    finally:
        for host in hosts:
            subprocess.run(["ip", "netns", "del", host], capture_output=True)
        for link in (*cables, bridge):
            subprocess.run(["ip", "link", "del", link], capture_output=True)


def cut_cable_of_tensor_replicas():
    return cut_cable("dp.tp2", 2)


def cut_cable_of_the_root():
    return cut_cable(of_root=True, every=7)


# Killed ranks of each number are also in come_and_go.
USUAL = [storm, cut_cable, root_is_stopped, root_hangs, stopped_for_a_while, members_without_etcd_but_spares_with_it,
         etcd_restarted_with_its_data, come_and_go, samples_are_read_ahead, a_sample_cannot_be_read, sigterm_to_one,
         sigterm_to_all_saves, a_full_disk_saves, tensor_replica, staged_replica, endless_loop,
         etcd_restarted_without_its_data, too_few, etcd_gone, etcd_paused, etcd_gone_at_the_end, etcd_over_its_quota,
         sigterm_to_all_without_etcd_saves, sigterm_to_one_without_etcd, store_wait_is_over, strangers_are_refused,
         strangers_at_every_port, joining_ranks_are_refused, second_launcher, first_generation_differs,
         fixed_job_with_other_data, words_of_the_store_move_no_cursor, secured_store, program_is_wrong,
         times_are_refused, without_launcher]


def main():
    global PROGRAM, FOLDER
    PROGRAM, FOLDER = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    for name in CTRL:
        os.environ.pop(name, None)
    if shutil.which("etcd") is None:
        print("there is no etcd")
        return 77
    os.makedirs(FOLDER, exist_ok=True)
    wanted = [globals()[name] for name in sys.argv[3:]] or USUAL
    with ThreadPoolExecutor(4 if wanted is USUAL else 1) as pool:
        return 0 if all(list(pool.map(run, wanted))) else 1


def run(scenario):
    begin = time.time()
    try:
        said, holds = scenario() or "", True
    except (Wrong, OSError, subprocess.SubprocessError) as problem:
        said, holds = "FAILED: %s" % problem, False
    print("%-42s %5.1f s  %s" % (scenario.__name__, time.time() - begin, said), flush=True)
    return holds


if __name__ == "__main__":
    sys.exit(main())
