#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares Tutti with other libraries, each started by its own launcher, in one session.

    bench_vs.py [COLLECTIVE,...] -n N --vs CONTENDER,... [--record FILE.csv] [options of `tutti bench`]

A contender is a library with some settings. Its job runs `tutti bench --beside` in all ranks, which calls Tutti and the
library in turn. Each repetition runs one job of each contender, so a machine that changes meanwhile changes for all. A cell
holds the samples of all jobs for one collective, size and form. docs/bench.md explains the numbers.

Exit status: 0; 1 if a result was wrong or a job failed; 2 for a wrong command line; 128 + N if signal N ended it.
"""
import argparse
import collections
import copy
import hashlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from results import record as bench_record
from results.record import HEAP, HOPS
from results.tables import print_tables

COLLECTIVES = ("all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all",
               "sendrecv", "barrier")
PATTERNS = ("ping_pong", "window", "group")  # by name only
TWO_FORMS = ("all_reduce", "reduce", "all_gather", "gather", "scatter", "reduce_scatter")
NEAR_NS, SAME_NS = 150, 1000  # a hop below stays within a group of cores; one above means that two ranks share a CPU
# Temporary buffers are kept; otherwise each call would fault their pages in again.
KEEP = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "8589934592", "MALLOC_TOP_PAD_": "67108864"}
UCX = {"UCX_TLS": "self,posix"}
OPENMPI = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]
# More messages are eager, and large ones go through shared memory instead of process_vm_readv.
OPENMPI_TUNED = [*OPENMPI, *(word for name, value in (("btl_vader_single_copy_mechanism", "none"),
                                                      ("btl_vader_eager_limit", "32768"),
                                                      ("btl_vader_max_send_size", "131072"))
                             for word in ("--mca", name, value))]
WHEELS = Path("peers")  # below the build: scripts/peers fetches them
OPENMPI5 = [f"{WHEELS}/openmpi5/bin/mpirun", "--allow-run-as-root", "--oversubscribe"]
OPENMPI5_TUNED = [*OPENMPI5, *(word for name, value in (("mpi_yield_when_idle", "1"), ("btl_sm_eager_limit", "32768"),
                                                        ("btl_sm_max_send_size", "131072"), ("pml", "ob1"))
                               for word in ("--mca", name, value))]
MPICH5 = [f"{WHEELS}/mpich5/bin/mpiexec"]
# mpiexec gives each rank a session of its own, in which a rank that yields does not pass its CPU on to another one.
ONE_SESSION = [f"{WHEELS}/mpich5/bin/mpiexec.gforker"]
IMPI = [f"{WHEELS}/impi/bin/mpiexec.hydra"]
SHM = {"I_MPI_FABRICS": "shm"}  # its libfabric is another wheel, and one host needs none
# No launcher: `tutti run`. `sleeps`: the ranks sleep before the peer's calls. `least`, `most`: bytes of its rows. `bind`: words
# that give each rank a CPU of its own, if there are as many. `crowded`: the launcher if there are not.
Setup = collections.namedtuple("Setup", "launch environment beside packages only sleeps least most bind crowded",
                               defaults=(None, False, 0, 1 << 40, (), None))
OPENMPI_PACKAGES, MPICH_PACKAGES, GLOO = ("openmpi-bin", "libopenmpi-dev"), ("mpich", "libmpich-dev"), (None, "libgloo-dev")
WHEEL = (None, None)
BIND = ("--bind-to", "hwthread")
SETUPS = {
    "openmpi": Setup(OPENMPI, {}, "openmpi", OPENMPI_PACKAGES),
    "openmpi/t": Setup(OPENMPI_TUNED, {}, "openmpi", OPENMPI_PACKAGES, bind=BIND),
    "openmpi/tm": Setup(OPENMPI_TUNED, KEEP, "openmpi", OPENMPI_PACKAGES, bind=BIND),
    "openmpi5": Setup(OPENMPI5, {}, "openmpi5", WHEEL),
    "openmpi5/tm": Setup(OPENMPI5_TUNED, KEEP, "openmpi5", WHEEL, bind=BIND),
    "mpich": Setup(["mpiexec.mpich"], {}, "mpich", MPICH_PACKAGES),
    "mpich/t": Setup(["mpiexec.mpich"], UCX, "mpich", MPICH_PACKAGES, bind=BIND, crowded=ONE_SESSION),
    "mpich/tm": Setup(["mpiexec.mpich"], UCX | KEEP, "mpich", MPICH_PACKAGES, bind=BIND, crowded=ONE_SESSION),
    "mpich5": Setup(MPICH5, {}, "mpich5", WHEEL, crowded=ONE_SESSION),
    "mpich5/tm": Setup(MPICH5, {"MPIR_CVAR_POLLS_BEFORE_YIELD": "16"} | UCX | KEEP, "mpich5", WHEEL, bind=BIND,
                       crowded=ONE_SESSION),
    "impi": Setup(IMPI, SHM, "impi", WHEEL),
    "impi/tm": Setup(IMPI, SHM | {"I_MPI_THREAD_YIELD": "2", "I_MPI_THREAD_SPIN_COUNT": "16"} | KEEP, "impi", WHEEL),
    "gloo/ring": Setup([], {}, "gloo:ring", GLOO, sleeps=True, most=1 << 22),
    "gloo/bcube": Setup([], {}, "gloo:bcube", GLOO, "all_reduce", True, most=1 << 22),  # makes no difference in others
    "gloo/spin": Setup([], {}, "gloo:ring", GLOO, "all_reduce", most=1 << 16),  # how an event thread suffers
    HEAP: Setup([], {}, "tutti:placement=heap", WHEEL, least=1 << 16),
}
LIBRARIES = tuple(dict.fromkeys(name.split("/")[0] for name in SETUPS if name != HEAP))
SHOW_EVERY = 10  # seconds
PASSED_ON = ("-d", "-o", "--root", "-i", "--backend", "--budget")  # options of `tutti bench`

CONFIRM_SHARE = 0.04  # of the plan of all jobs, which take less: what measuring lost cells again takes

Sample = collections.namedtuple("Sample", "hop p50 ratio low high bound_us")


def say(text):
    print(f"bench_vs: {text}", file=sys.stderr, flush=True)


class Ended(Exception):
    """A signal asks to end."""


class Failed(Exception):
    """A job failed; the text says why."""


def size_of(text):
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    if not number.isdigit() or int(number) < 1 or unit not in ("", "K", "M", "G"):
        raise argparse.ArgumentTypeError(f"not a size (as in 64, 64K, 16M, 1G): '{text}'")
    return int(number) << 10 * " KMG".index(unit or " ")


def at_least(minimum):
    def number(text):
        if not text.isdigit() or int(text) < minimum:
            raise argparse.ArgumentTypeError(f"not a number from {minimum} on: '{text}'")
        return int(text)
    return number


def read_options():
    parser = argparse.ArgumentParser(prog="bench_vs", description=__doc__.splitlines()[0])
    parser.add_argument("collectives", nargs="?", default="all")
    parser.add_argument("--build", type=Path, default=Path(__file__).resolve().parent.parent / "build")
    parser.add_argument("-n", dest="ranks", type=at_least(1), default=max(2, len(os.sched_getaffinity(0))))
    parser.add_argument("-b", dest="least", type=size_of, default=8)
    parser.add_argument("-e", dest="most", type=size_of, default=16 << 20)
    parser.add_argument("-f", dest="factor", type=at_least(2), default=8)
    for option in PASSED_ON:
        parser.add_argument(option)
    parser.add_argument("--sizes", help="these sizes, with commas between them, instead of -b, -e and -f")
    parser.add_argument("--vs", required=True, help=f"{', '.join(LIBRARIES)}: each with all its settings, or one, as "
                        f"openmpi/t; {HEAP}: Tutti's own heap")
    parser.add_argument("--repeat", type=at_least(1), default=3, help="jobs of each contender")
    parser.add_argument("--confirm", action="store_true", help="measure the cells that a contender wins once more: they are lost "
                        "if it wins again")
    parser.add_argument("--limit", type=at_least(1), help="seconds after which a job is ended (default: by its rows)")
    parser.add_argument("--record", type=Path, help="the CSV file to write")
    parser.add_argument("--merge", action="store_true", help="keep what the record has of other rows and contenders")
    parser.add_argument("--jobs", type=Path, help="a folder that keeps the jobs' results until all are done: the same command "
                        "goes on where it was interrupted")
    parser.add_argument("--then", type=int, default=0, help="seconds of what comes after this comparison, for the progress")
    parser.add_argument("--estimate", action="store_true", help="print the seconds that it takes, by plan, and end")
    options = parser.parse_args()
    if not os.access(options.build / "tutti", os.X_OK):
        parser.error(f"there is no {options.build}/tutti; run make first, or name the build by --build")
    options.names = COLLECTIVES if options.collectives == "all" else options.collectives.split(",")
    if set(options.names) - set(COLLECTIVES + PATTERNS):
        parser.error(f"'{options.collectives}': there are {', '.join(COLLECTIVES + PATTERNS)} and all")
    try:
        options.all_sizes = [size_of(word) for word in options.sizes.split(",")] if options.sizes else [options.least]
    except argparse.ArgumentTypeError as error:
        parser.error(f"argument --sizes: {error}")
    while not options.sizes and options.all_sizes[-1] * options.factor <= options.most:
        options.all_sizes.append(options.all_sizes[-1] * options.factor)
    options.contenders = {}
    for word in options.vs.split(","):
        library, _, settings = word.partition("/")
        of_library = [name for name in SETUPS if name.split("/")[0] == library and name not in (HEAP, "gloo/spin")]
        of_library += [HEAP] if word == HEAP else []
        if not of_library:
            parser.error(f"--vs {options.vs}: there is no contender '{word}'; there are {', '.join(LIBRARIES)}")
        only = library if settings == "default" else word
        named = [only] if settings and only in SETUPS else [] if settings else \
            [name for name in of_library if SETUPS[name].only in (None, *options.names)]
        if not named:
            parser.error(f"--vs {word}: that library has no such settings; there are default, t and tm for openmpi and "
                         "mpich, default and tm for their newer versions and impi, ring, bcube and spin for gloo")
        options.contenders.update((name, Contender(name, options)) for name in named)
    return options


class Contender:
    def __init__(self, name, options):
        self.name, self.setup, self.options = name, SETUPS[name], options
        self.version, self.failure, self.jobs, self.failed, self.wrong = "", "", 0, 0, 0
        self.missing = self.find_missing()

    def find_missing(self):
        """Why it cannot take part, or None."""
        to_run, to_build = self.setup.packages
        if self.setup.only not in (None, *self.options.names):
            return f"its settings are about {self.setup.only} alone, which is not measured"
        if self.setup.launch and self.setup.packages != WHEEL and not shutil.which(self.setup.launch[0]):
            return f"there is no program {self.setup.launch[0]}; to have it: install {to_run} (the name in Debian)"
        if not self.sizes():
            return "no size is one that it measures"
        if self.name == HEAP:
            return None
        if self.setup.packages == WHEEL and not (self.options.build / self.launcher()).exists():
            return "it is not fetched; to have it: run scripts/peers (it needs PyPI) and build again"
        folder = Path(os.environ.get("TUTTI_BENCH_PEERS", self.options.build / "lib/tutti/bench"))
        if not (folder / f"{self.name.split('/')[0]}.so").exists():
            return f"this build has no plug-in file for it; to have it: install {to_build} (the name in Debian) and build again"
        return None

    def launcher(self):
        return Path(self.setup.launch[0])

    def launch_words(self):
        crowded = None if self.has_cpus() else self.setup.crowded
        return crowded if crowded and (self.options.build / crowded[0]).exists() else self.setup.launch

    def sizes(self):
        return [size for size in self.options.all_sizes if self.setup.least <= size <= self.setup.most]

    def rows(self):
        """Its rows of the table, as (collective, size); one for both forms."""
        names = [self.setup.only] if self.setup.only else self.options.names
        return [(name, size) for name in names
                for size in ([0] if name in ("barrier", "group") else self.sizes())]

    def seconds(self):
        """How long its job takes on two CPUs, by plan: a row takes its budget, or the time of its copies."""
        budget = int(self.options.budget or 200) / 1000
        copies = 9e-9 * self.options.ranks / min(self.options.ranks, len(os.sched_getaffinity(0)))
        return 1.5 + sum(forms(name) * (max(2 * budget, copies * size) + 0.04) for name, size in self.rows())

    def only(self, collective, sizes):
        """The same contender with these rows alone."""
        other = copy.copy(self)
        other.options = argparse.Namespace(**vars(self.options) | {"collectives": collective, "names": [collective],
                                                                   "all_sizes": sizes})
        return other

    def has_cpus(self):
        return self.options.ranks <= len(os.sched_getaffinity(0))

    def command(self, tutti):
        o = self.options
        if self.setup.launch:
            launch = self.launch_words()
            if (o.build / launch[0]).exists():
                launch = [str(o.build.resolve() / launch[0]), *launch[1:]]
            words = [*launch, *(self.setup.bind if self.has_cpus() else ()), "-n", str(o.ranks), tutti, "bench"]
        elif self.has_cpus() and o.backend != "local" and not self.setup.sleeps:
            # On CPUs of their own: a scheduler that puts two ranks on one CPU would change the times. The threads of
            # a sleeping rank's peer need a free CPU instead: bound to the rank's, Gloo's take 3.7 ms for 8 bytes.
            words = [tutti, "run", "-n", str(o.ranks), "--bind-to", "core", "--no-prefix", "--", tutti, "bench"]
        else:
            words = [tutti, "bench", "-n", str(o.ranks)]
        words += [self.setup.only or o.collectives, "--sizes", ",".join(map(str, self.sizes()))]
        for option in PASSED_ON:
            value = getattr(o, option.lstrip("-"))
            words += [option, value] if value is not None else []
        return [*words, "--beside", self.setup.beside, *(["--peer-start", "sleep"] if self.setup.sleeps else [])]

    def command_line(self):
        """For the record; without folders and sizes, which differ."""
        words = self.command("tutti")
        words[words.index("bench") + 1:words.index("--beside")] = ["..."]
        words[0] = os.path.relpath(words[0], self.options.build.resolve()) if "/" in words[0] else words[0]
        return " ".join([*(f"{name}={value}" for name, value in self.setup.environment.items()), *words])


def forms(collective):
    return 2 if collective in TWO_FORMS else 1


# ---- jobs -------------------------------------------------------------------------------------------------------------

def processes_of(job):
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"TUTTI_JOB={job}".encode() in environ.read_bytes().split(b"\0"):
                yield int(environ.parent.name)
        except OSError:
            pass  # it has ended, or belongs to another user


def end_job(process, job):
    """Asks the launcher to end, then kills what is left of the job: ranks may be in sessions of their own."""
    try:
        process.terminate()
        process.wait(3)
    except subprocess.TimeoutExpired:
        pass
    while left := list(processes_of(job)):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.poll()
        time.sleep(0.01)
    process.wait()


def rows_of(table):
    """Lines of results in the table so far."""
    return len(re.findall(r"^ +[0-9]", table.read_text(encoding="utf-8", errors="replace"), re.MULTILINE))


def wait_for(process, limit, poll):
    end = time.monotonic() + limit
    while True:
        try:
            return process.wait(min(SHOW_EVERY, max(0.01, end - time.monotonic())))
        except subprocess.TimeoutExpired:
            if time.monotonic() >= end:
                raise
            poll()


def key_of(contender, repetition):
    """Names a job's results: by all that they follow from, also the programs."""
    parts = [contender.name, repetition, contender.command("tutti"), sorted(contender.setup.environment.items())]
    for path in ("tutti", "lib/libtutti.so", "libtutti.so"):
        file = contender.options.build / path
        parts.append(file.stat().st_mtime_ns if file.exists() else 0)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def run_job(contender, folder, progress):
    """The document that the job writes. A job with wrong results ends with 1, and has written them nevertheless."""
    options = contender.options
    limit = options.limit or 60 + 6 * contender.seconds()
    path, job = folder / "rows.json", f"bench-{os.getpid()}-{os.urandom(8).hex()}"
    path.write_text("")
    command = [*contender.command(str((options.build / "tutti").resolve())), "-J", str(path)]
    with tempfile.TemporaryFile("w+", dir=folder, errors="replace") as err, open(folder / "table", "w", encoding="utf-8") as out:
        process = subprocess.Popen(command, env=os.environ | contender.setup.environment | {"TUTTI_JOB": job},
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        try:
            status = wait_for(process, limit, lambda: progress(rows_of(folder / "table")))
            why = {0: None}.get(status, f"it ended with exit code {status}")
        except subprocess.TimeoutExpired:
            why = f"it took longer than {limit:.0f} s"
        finally:
            end_job(process, job)
        try:
            return json.loads(path.read_text())
        except ValueError as error:
            err.seek(0)
            said = "".join(f"\n    | {line}" for line in err.read().splitlines()[-12:])
            raise Failed((why or f"its JSON cannot be read: {error}"), said) from None


# ---- cells ------------------------------------------------------------------------------------------------------------

def class_of(hop_ns):
    """The class of the hops before and after a row."""
    classes = {"unknown" if not ns else "near" if ns < NEAR_NS else "far" if ns <= SAME_NS else "same" for ns in hop_ns}
    return classes.pop() if len(classes) == 1 else "unknown" if "unknown" in classes else "moved"


def most_common(hops):
    """Classes are never mixed: the one that most samples have."""
    return max(set(hops), key=lambda hop: (hop in HOPS[:3], hops.count(hop), -HOPS.index(hop)))


def entry_of(samples):
    hop = most_common([sample.hop for sample in samples])
    of = Sample(*zip(*(sample for sample in samples if sample.hop == hop)))
    ratio, low = statistics.median(of.ratio), min(of.low)
    return bench_record.Entry(statistics.median(of.p50), ratio, ratio > 0 and low > 1, hop, low, max(of.high))


class Comparison:
    def __init__(self, options):
        self.options, self.samples, self.cells, self.config, self.wrong = options, {}, [], {}, 0
        self.confirming = {}  # as `samples`, of the jobs that measure lost cells again

    def take(self, contender, document, samples_of):
        """Takes the rows of a job; incomplete ones are left out."""
        config = document.get("config") or {}
        self.config = self.config or config
        contender.version = (config.get("peer") or {}).get("version") or contender.version
        crowded = self.options.ranks > config.get("cpus", self.options.ranks)
        taken = 0
        for row in document.get("results", ()):
            try:
                name = "tutti" if row["contender"] == "tutti" else contender.name
                if name == "tutti":
                    self.wrong += row["wrong"] or 0
                elif row["wrong"]:
                    contender.wrong += row["wrong"]
                    continue
                times, versus = row["time_us"], row.get("versus") or {}
                if not times["p50"] or row["placement"] == "heap" and name == "tutti":
                    continue  # the library has no such call
                ratio = versus.get("ratio") or 0
                hop = "same" if crowded else class_of(row.get("hop_ns") or [0])
                sample = Sample(hop, times["p50"], ratio, versus.get("low", ratio), versus.get("high", ratio),
                                row.get("bound_us") or 0)
                key = row["collective"], row["size"], "in" if row["inplace"] else "out"
            except (KeyError, TypeError):
                continue
            algorithm, samples = samples_of.setdefault(key, ([""], collections.defaultdict(list)))
            algorithm[0] = row.get("algorithm") or algorithm[0]
            samples[name].append(sample)
            taken += 1
        if not taken:
            raise Failed("its JSON has no row with a collective, a size and a time", "")

    def entry(self, key, name):
        """The ratio is that of the first jobs alone: those again are chosen by it."""
        entry = entry_of(self.samples[key][1][name])
        again = self.confirming.get(key, ("", {}))[1].get(name)
        refuted = entry.wins and again and any(sample.hop == entry.hop and sample.low <= 1 for sample in again)
        return entry._replace(wins=False, once=True) if refuted else entry

    def evaluate(self, old):
        for key, (algorithm, samples) in self.samples.items():
            own = samples.pop("tutti", None)
            if own:
                tutti, cell = entry_of(own), bench_record.Cell(*key)
                cell.hop, cell.algorithm, cell.tutti_us = tutti.hop, algorithm[0], tutti.us
                cell.bound_us = statistics.median(sample.bound_us for sample in own if sample.hop == tutti.hop)
                cell.entries = {name: self.entry(key, name) for name in self.options.contenders if name in samples}
                self.cells.append(cell)
        self.cells = bench_record.merge(old, self.cells)
        order = COLLECTIVES + PATTERNS
        self.cells.sort(key=lambda c: (order.index(c.collective), c.place != "out", c.size))

    def run(self, folder):
        present = [c for c in self.options.contenders.values() if not c.missing]
        plan = [(repetition, contender) for repetition in range(1, self.options.repeat + 1) for contender in present]
        cells = [sum(forms(name) for name, _ in contender.rows()) for _, contender in plan]
        weights = [contender.seconds() for _, contender in plan]
        begin, spent = time.monotonic(), 0.0

        def show(done, part):
            """After `done` jobs and `part` rows of the next one."""
            fraction = min(1, part / cells[done]) if done < len(plan) and cells[done] else 0
            weight = sum(weights[:done]) + (fraction * weights[done] if fraction else 0) - kept
            pace = spent / weight if weight > 20 else 1  # the plan's seconds count until there is experience
            left = pace * (sum(weights) - kept - weight)
            say(f"cell {sum(cells[:done]) + min(part, cells[done] if done < len(plan) else 0)} of {sum(cells)}, about "
                f"{clock(left)} left{f' here, {clock(left + self.options.then)} in all' if self.options.then else ''}")

        kept = 0.0
        for done, (repetition, contender) in enumerate(plan):
            contender.jobs += 1
            if self.recall(contender, contender, repetition, self.samples):
                kept += weights[done]
                say(f"job {done + 1} of {len(plan)}: {contender.name} was measured before the interruption")
                continue
            spent = time.monotonic() - begin
            say(f"job {done + 1} of {len(plan)}: {contender.name}, repetition {repetition} of {self.options.repeat}; "
                f"{clock(spent)} elapsed")

            def progress(rows, done=done):
                nonlocal spent
                spent = time.monotonic() - begin
                show(done, rows)

            self.measure(contender, contender, repetition, folder, progress, self.samples)
            spent = time.monotonic() - begin
            if done + 1 < len(plan):
                show(done + 1, 0)
        if self.options.confirm:
            self.confirm(folder, present)
        self.seconds = time.monotonic() - begin

    def confirm(self, folder, present):
        """Measures once more what a contender wins: of a thousand cells, each beside several contenders, noise alone gives some to
        a contender that is not faster."""
        plan = []
        for contender in present:
            won = [key for key, (_, samples) in self.samples.items()
                   if contender.name in samples and contender.name != HEAP and entry_of(samples[contender.name]).wins]
            for collective in dict.fromkeys(key[0] for key in won):
                sizes = sorted({key[1] or self.options.all_sizes[0] for key in won if key[0] == collective})
                plan.append((contender, contender.only(collective, sizes)))
        for done, (contender, rows) in enumerate(plan):
            say(f"once more, job {done + 1} of {len(plan)}: {contender.name}, {rows.options.collectives}")
            contender.jobs += 1
            if not self.recall(contender, rows, "confirm", self.confirming):
                self.measure(contender, rows, "confirm", folder, lambda _: None, self.confirming)

    def kept_at(self, rows, repetition):
        return self.options.jobs and self.options.jobs / f"{key_of(rows, repetition)}.json"

    def recall(self, contender, rows, repetition, samples_of):
        """Takes what this job has said before an interruption. False: it has not run."""
        path = self.kept_at(rows, repetition)
        if not path or not path.exists():
            return False
        self.take(contender, json.loads(path.read_text()), samples_of)
        return True

    def measure(self, contender, rows, repetition, folder, progress, samples_of):
        """Runs the job of a contender, all its rows or only some."""
        path = self.kept_at(rows, repetition)
        try:
            document = run_job(rows, folder, progress)
            self.take(contender, document, samples_of)
            if path:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.with_suffix(".new").write_text(json.dumps(document))
                path.with_suffix(".new").replace(path)
        except Failed as failure:  # costs only its own cells
            contender.failed, contender.failure = contender.failed + 1, failure.args[0]
            say(f"{contender.name}, repetition {repetition} failed: {''.join(failure.args)}")


def clock(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def settings_of(c, old):
    """Machine and contenders, for the record; those of contenders that were not run now are kept."""
    new = {"date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "tutti": c.config.get("version", "unknown")}
    new.update((name, c.config.get(name, "unknown")) for name in ("cpu", "kernel", "isa", "cpus"))
    new |= {"ranks": c.options.ranks, "repetitions": c.options.repeat,
            "seconds": f"{c.seconds + float(old.get('seconds', 0)):.0f}"}
    for name, contender in c.options.contenders.items():
        if contender.missing:
            if f"command {name}" not in old:
                new[f"missing {name}"] = contender.missing
            continue
        old = {key: value for key, value in old.items() if key.partition(" ")[2] != name}
        new[f"version {name}"], new[f"command {name}"] = contender.version, contender.command_line()
        if contender.failed:
            new[f"failed {name}"] = f"{contender.failed} of {contender.jobs} jobs: {contender.failure}"
    return old | new


def main():
    options = read_options()

    def end(number, _):
        for other in (signal.SIGTERM, signal.SIGINT):
            signal.signal(other, signal.SIG_IGN)  # the end of a job is not interrupted
        raise Ended(number)

    comparison = Comparison(options)
    if options.estimate:
        seconds = sum(c.seconds() for c in options.contenders.values() if not c.missing) * options.repeat
        print(round(seconds * (1 + CONFIRM_SHARE * options.confirm)))
        return 0
    try:
        # Opened before anything is measured; its old content stays until there are new results.
        with open(options.record or os.devnull, "a", encoding="utf-8") as record, tempfile.TemporaryDirectory() as folder:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, end)
            for contender in options.contenders.values():
                if contender.missing:
                    say(f"{contender.name} is missing: {contender.missing}")
            comparison.run(Path(folder))
            old, old_cells = bench_record.read(options.record) if options.merge and options.record else ({}, [])
            comparison.evaluate(old_cells)
            print_tables(comparison)
            if os.path.isfile(record.name):
                record.truncate(0)
            bench_record.write(record, settings_of(comparison, old), comparison.cells)
    except OSError as error:
        say(f"{options.record}: {error.strerror}")
        return 1
    except Ended as ended:
        say(f"{signal.strsignal(ended.args[0])}: the comparison was ended, nothing is written")
        return 128 + ended.args[0]
    return int(comparison.wrong > 0 or any(c.failed or c.wrong for c in options.contenders.values()))


if __name__ == "__main__":
    sys.exit(main())
