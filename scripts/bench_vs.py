#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares Tutti with other libraries, each started by its own launcher, in one session.

    bench_vs.py [COLLECTIVE,...] -n N --vs CONTENDER,... [--record FILE.csv] [options of `tutti bench`]

A contender is a library with some settings. Its job runs `tutti bench --beside` in all ranks, which calls Tutti and the
library in turn. Each repetition runs one job of each contender, so a machine that changes meanwhile changes for all. A cell
holds the samples of all jobs for one collective, size, form, placement and class of hop. docs/bench.md explains the numbers.

Exit status: 0; 1 if a result was wrong or a job failed; 2 for a wrong command line; 128 + N if signal N ended it.
"""
import argparse
import collections
import csv
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COLLECTIVES = ("all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all",
               "sendrecv", "barrier")
NEAR_NS, SAME_NS = 150, 1000  # a hop below stays within a group of cores; one above means that two ranks share a CPU
HOPS = ("near", "far", "same", "moved", "unknown")
# Temporary buffers are kept; otherwise each call would fault their pages in again.
KEEP = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "8589934592", "MALLOC_TOP_PAD_": "67108864"}
UCX = {"UCX_TLS": "self,posix"}
OPENMPI = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]
# More messages are eager, and large ones go through shared memory instead of process_vm_readv.
OPENMPI_TUNED = [*OPENMPI, *(word for name, value in (("btl_vader_single_copy_mechanism", "none"),
                                                      ("btl_vader_eager_limit", "32768"),
                                                      ("btl_vader_max_send_size", "131072"))
                             for word in ("--mca", name, value))]
Setup = collections.namedtuple("Setup", "launch environment beside packages only")  # no launcher: `tutti run`
OPENMPI_PACKAGES, MPICH_PACKAGES = ("openmpi-bin", "libopenmpi-dev"), ("mpich", "libmpich-dev")
SETUPS = {
    "openmpi": Setup(OPENMPI, {}, "openmpi", OPENMPI_PACKAGES, None),
    "openmpi/t": Setup(OPENMPI_TUNED, {}, "openmpi", OPENMPI_PACKAGES, None),
    "openmpi/tm": Setup(OPENMPI_TUNED, KEEP, "openmpi", OPENMPI_PACKAGES, None),
    "mpich": Setup(["mpiexec.mpich"], {}, "mpich", MPICH_PACKAGES, None),
    "mpich/t": Setup(["mpiexec.mpich"], UCX, "mpich", MPICH_PACKAGES, None),
    "mpich/tm": Setup(["mpiexec.mpich"], UCX | KEEP, "mpich", MPICH_PACKAGES, None),
    "gloo/ring": Setup([], {}, "gloo:ring", (None, "libgloo-dev"), None),
    "gloo/bcube": Setup([], {}, "gloo:bcube", (None, "libgloo-dev"), "all_reduce"),  # makes no difference in others
}
COLUMNS = ("collective,ranks,size,place,buffers,hop,counted,contender,p50_us,p99_us,repetitions,ratio,low,high,best_peer,"
           "algorithm,bound_us").split(",")
PASSED_ON = ("-d", "-o", "--root", "-i", "--backend")  # options of `tutti bench`

Sample = collections.namedtuple("Sample", "p50 p99 ratio low high bound_us")


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
    parser.add_argument("--vs", required=True, help="openmpi, mpich, gloo: each with all its settings, or one, as openmpi/t")
    parser.add_argument("--repeat", type=at_least(1), default=3, help="jobs of each contender")
    parser.add_argument("--heap-from", type=size_of, help="from this size on, also with Tutti's buffers in the heap")
    parser.add_argument("--limit", type=at_least(1), help="seconds after which a job is ended (default: by its rows)")
    parser.add_argument("--record", help="the CSV file to write")
    options = parser.parse_args()
    if not os.access(options.build / "tutti", os.X_OK):
        parser.error(f"there is no {options.build}/tutti; run make first, or name the build by --build")
    options.names = COLLECTIVES if options.collectives == "all" else options.collectives.split(",")
    if set(options.names) - set(COLLECTIVES):
        parser.error(f"'{options.collectives}': there are {', '.join(COLLECTIVES)} and all")
    options.sizes = [options.least]
    while options.sizes[-1] * options.factor <= options.most:
        options.sizes.append(options.sizes[-1] * options.factor)
    heap = [size for size in options.sizes if options.heap_from and size >= options.heap_from]
    options.heap_least = heap[0] if heap and options.names != ["barrier"] else None
    options.limit = options.limit or 60 + 80 * len(options.sizes) * len(options.names)
    options.contenders = {}
    for word in options.vs.split(","):
        library, _, settings = word.partition("/")
        of_library = [name for name in SETUPS if name.split("/")[0] == library]
        if not of_library:
            parser.error(f"--vs {options.vs}: there is no contender '{word}'; there are openmpi, mpich and gloo")
        only = library if settings == "default" else word
        named = [only] if settings and only in SETUPS else [] if settings else \
            [name for name in of_library if SETUPS[name].only in (None, *options.names)]
        if not named:
            parser.error(f"--vs {word}: that library has no such settings; there are default, t and tm for openmpi and "
                         "mpich, ring and bcube for gloo")
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
        if self.setup.launch and not shutil.which(self.setup.launch[0]):
            return f"there is no program {self.setup.launch[0]}; to have it: install {to_run} (the name in Debian)"
        folder = Path(os.environ.get("TUTTI_BENCH_PEERS", self.options.build / "lib/tutti/bench"))
        if not (folder / f"{self.name.split('/')[0]}.so").exists():
            return f"this build has no plug-in file for it; to have it: install {to_build} (the name in Debian) and build again"
        return None

    def command(self, tutti, heap):
        o = self.options
        if self.setup.launch:
            words = [*self.setup.launch, "-n", str(o.ranks), tutti, "bench"]
        elif o.ranks <= len(os.sched_getaffinity(0)) and o.backend != "local":
            # On CPUs of their own: a scheduler that puts two ranks on one CPU would change the times.
            words = [tutti, "run", "-n", str(o.ranks), "--bind-to", "core", "--no-prefix", "--", tutti, "bench"]
        else:
            words = [tutti, "bench", "-n", str(o.ranks)]
        words += [self.setup.only or o.collectives, "-b", str(o.heap_least if heap else o.least), "-e", str(o.most),
                  "-f", str(o.factor)]
        for option in PASSED_ON:
            value = getattr(o, option.lstrip("-"))
            words += [option, value] if value is not None else []
        return [*words, *(["--placement", "heap"] if heap else []), "--beside", self.setup.beside]

    def command_line(self):
        """For the record; without folders, which differ on another machine."""
        return " ".join([*(f"{name}={value}" for name, value in self.setup.environment.items()),
                         *self.command("tutti", False)])


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


def run_job(contender, heap, folder):
    """The document that the job writes. A job with wrong results ends with 1, and has written them nevertheless."""
    options = contender.options
    path, job = folder / "rows.json", f"bench-{os.getpid()}-{os.urandom(8).hex()}"
    path.write_text("")
    command = [*contender.command(str((options.build / "tutti").resolve()), heap), "-J", str(path)]
    with tempfile.TemporaryFile("w+", dir=folder, errors="replace") as err:
        process = subprocess.Popen(command, env=os.environ | contender.setup.environment | {"TUTTI_JOB": job},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err, start_new_session=True)
        try:
            why = {0: None}.get(status := process.wait(options.limit), f"it ended with exit code {status}")
        except subprocess.TimeoutExpired:
            why = f"it took longer than {options.limit} s"
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


class Entry:
    """The samples of Tutti or of one contender in one cell, combined."""

    def __init__(self, samples):
        self.count = len(samples)
        of = Sample(*zip(*samples)) if samples else Sample(*[[0]] * 6)
        self.p50, self.p99, self.ratio, self.bound_us = map(statistics.median, (of.p50, of.p99, of.ratio, of.bound_us))
        self.low, self.high = min(of.low), max(of.high)
        self.wins = self.ratio > 0 and self.low > 1  # over Tutti


class Cell:
    def __init__(self, key):
        self.collective, self.heap, self.in_place, self.size, self.hop = key
        self.algorithm, self.samples = "", collections.defaultdict(list)
        self.place, self.buffers = "in" if self.in_place else "out", "heap" if self.heap else "private"

    def evaluate(self, alike):
        """`alike`: the cells that differ in the hop's class only, this one included; they are never mixed."""
        self.entries = {name: Entry(samples) for name, samples in self.samples.items()}
        peers = {name: entry for name, entry in self.entries.items() if name != "tutti" and entry.ratio > 0}
        # Not the least time: the times of two contenders come from different jobs, while each ratio comes from one.
        self.best = max(peers, key=lambda name: (peers[name].wins, peers[name].ratio), default=None)
        self.lost = self.best is not None and peers[self.best].wins
        settled = self.hop not in ("moved", "unknown")
        self.main = self is max(alike, key=lambda c: (c.hop in HOPS[:3], sum(map(len, c.samples.values())),
                                                      -HOPS.index(c.hop)))
        self.elsewhere = {name for other in alike for name in other.samples} - set(self.samples)
        self.shown = self.main or settled
        self.counted = self.best is not None and (self.main or (settled and (not self.elsewhere or self.lost)))


class Comparison:
    def __init__(self, options):
        self.options, self.cells, self.config, self.wrong = options, {}, {}, 0

    def take(self, contender, document):
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
                heap = (config.get("placement") or row["placement"]) == "heap"
                times, versus = row["time_us"], row.get("versus") or {}
                if not times["p50"] or (heap and row["collective"] == "barrier"):
                    continue  # the library has no such call; nothing has to be placed
                ratio = versus.get("ratio") or 0
                sample = Sample(times["p50"], times["p99"], ratio, versus.get("low", ratio), versus.get("high", ratio),
                                row.get("bound_us") or 0)
                hop = "same" if crowded else class_of(row.get("hop_ns") or [0])
                key = row["collective"], heap, row["inplace"], row["size"], hop
            except (KeyError, TypeError):
                continue
            cell = self.cells.setdefault(key, Cell(key))
            cell.algorithm = row.get("algorithm") or cell.algorithm
            cell.samples[name].append(sample)
            taken += 1
        if not taken:
            raise Failed("its JSON has no row with a collective, a size and a time", "")

    def evaluate(self):
        alike = collections.defaultdict(list)
        for key, cell in self.cells.items():
            alike[key[:4]].append(cell)
        order = sorted(self.cells, key=lambda k: (COLLECTIVES.index(k[0]), *k[1:4], HOPS.index(k[4])))
        self.cells = {key: self.cells[key] for key in order}
        for key, cell in self.cells.items():
            cell.evaluate(alike[key[:4]])

    def run(self, folder):
        present = [c for c in self.options.contenders.values() if not c.missing]
        plan = [(repetition, contender, heap) for repetition in range(1, self.options.repeat + 1) for contender in present
                for heap in ((False, True) if self.options.heap_least else (False,))]
        begin = time.monotonic()
        for done, (repetition, contender, heap) in enumerate(plan):
            elapsed = time.monotonic() - begin
            left = f", about {clock(elapsed / done * (len(plan) - done))} left" if done else ""
            say(f"job {done + 1} of {len(plan)}: {contender.name}{' (heap)' if heap else ''}, repetition {repetition} of "
                f"{self.options.repeat}; {clock(elapsed)} elapsed{left}")
            contender.jobs += 1
            try:
                self.take(contender, run_job(contender, heap, folder))
            except Failed as failure:  # costs only its own cells
                contender.failed, contender.failure = contender.failed + 1, failure.args[0]
                say(f"{contender.name}, repetition {repetition} failed: {''.join(failure.args)}")
        self.seconds = time.monotonic() - begin


def clock(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


# ---- reports ----------------------------------------------------------------------------------------------------------

def time_text(us):
    return f"{us / 1000:.0f}k" if us >= 1e6 else f"{us:.{3 if us < 1 else 2 if us < 10 else 1 if us < 100 else 0}f}"


def ratio_text(ratio):
    return f"{ratio:.{4 if ratio < 0.1 else 2 if ratio < 10 else 1}f}"


def peer_text(cell, contender):
    if contender.name in cell.samples:
        entry = cell.entries[contender.name]
        return f"{time_text(entry.p50)} {ratio_text(entry.ratio):>6}{'!' if entry.wins else ' '}"
    failed = contender.jobs and contender.failed == contender.jobs
    return ("failed" if failed else "elsewhere" if contender.name in cell.elsewhere else "-") + " "


def mean_text(entries):
    if not entries:
        return "nothing to compare with"
    mean = math.exp(statistics.fmean(math.log(entry.ratio) for entry in entries))
    return (f"geometric mean of the ratios {mean:.3f} (Tutti is {1 / mean:.2f} times as fast); "
            f"{sum(entry.wins for entry in entries)} of {len(entries)} cells lost")


def print_tables(c):
    print("# time: median of the repetitions' medians. ratio: Tutti's time over the contender's, paired within each job; below 1\n"
          "#   Tutti is faster. interval: from the lowest to the highest of the repetitions' 95 % intervals; '!': it lies wholly\n"
          "#   above 1, the cell is lost")
    present = [contender for contender in c.options.contenders.values() if not contender.missing]
    last = None
    for cell in (cell for cell in c.cells.values() if cell.shown):
        if cell.collective != last:
            last = cell.collective
            print(f"#\n# {last}\n#{'size':>10} {'place':>5} {'where':>7} {'hop':>7} {'algo':>9} {'tutti':>9}",
                  *(f"{contender.name:>17}" for contender in present), " best peer: ratio, interval")
        tutti = cell.entries.get("tutti")
        best = cell.best and cell.entries[cell.best]
        print(f" {cell.size:>10} {cell.place:>5} {cell.buffers:>7} {cell.hop:>7} {cell.algorithm or '-':>9} "
              f"{time_text(tutti.p50) if tutti else '-':>9}", *(f"{peer_text(cell, contender):>17}" for contender in present),
              f" {cell.best}: {ratio_text(best.ratio)} [{ratio_text(best.low)}, {ratio_text(best.high)}]"
              f"{' !' if cell.lost else ''}" if best else "")
    counted = [cell for cell in c.cells.values() if cell.counted]
    print("#\n# To each contender:")
    for name, contender in c.options.contenders.items():
        if contender.missing:
            print(f"# {name:24} missing: {contender.missing}")
            continue
        entries = [cell.entries[name] for cell in counted if name in cell.samples and cell.entries[name].ratio > 0]
        print(f"# {name:24} {mean_text(entries)}; version {contender.version}")
        if contender.failed:
            print(f"# {'':24} {contender.failed} of {contender.jobs} jobs failed, the last because {contender.failure}")
        if contender.wrong:
            print(f"# {'':24} {contender.wrong} elements of its results were wrong; such rows are left out")
    print("#\n# To the best peer of each cell:")
    for name in (*COLLECTIVES, "all"):
        for buffers in ("private", "heap"):
            entries = [cell.entries[cell.best] for cell in counted
                       if cell.buffers == buffers and name in (cell.collective, "all")]
            if entries:
                print(f"# {name:16} {buffers:7} {mean_text(entries)}")
    if c.wrong:
        print(f"# Wrong elements of Tutti's results: {c.wrong} FAILED")
    print(f"# Cells: {len(counted)}, lost: {sum(cell.lost for cell in counted)}")


def write_record(c, file):
    """Lines `# NAME = VALUE` for machine and contenders, then a line for each contender in each cell. The line of Tutti holds
    the ratio to the best peer, and that peer's name."""
    def setting(name, text):
        file.write(f"# {name} = {' '.join(str(text).split(chr(10)))}\n")

    setting("date", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()))
    for name, key in (("tutti", "version"), *((name, name) for name in ("cpu", "kernel", "isa", "cpus"))):
        setting(name, c.config.get(key, "unknown"))
    setting("ranks", c.options.ranks)
    setting("repetitions", c.options.repeat)
    setting("seconds", f"{c.seconds:.0f}")
    for name, contender in c.options.contenders.items():
        if contender.missing:
            setting(f"missing {name}", contender.missing)
            continue
        setting(f"version {name}", contender.version)
        setting(f"command {name}", contender.command_line())
        if contender.failed:
            setting(f"failed {name}", f"{contender.failed} of {contender.jobs} jobs: {contender.failure}")
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(COLUMNS)
    for cell in (cell for cell in c.cells.values() if cell.shown):
        for name in ("tutti", *c.options.contenders):
            entry = cell.entries.get(name)
            judged = cell.entries.get(cell.best) if name == "tutti" else entry
            if entry:
                ratios = [f"{value:.4g}" for value in (judged.ratio, judged.low, judged.high)] if judged else [""] * 3
                of_tutti = [cell.best or "", cell.algorithm, f"{entry.bound_us:.4g}" if entry.bound_us else ""]
                rows.writerow([cell.collective, c.options.ranks, cell.size, cell.place, cell.buffers, cell.hop,
                               int(cell.counted), name, f"{entry.p50:.5g}", f"{entry.p99:.5g}", entry.count, *ratios,
                               *(of_tutti if name == "tutti" else [""] * 3)])


def main():
    options = read_options()

    def end(number, _):
        for other in (signal.SIGTERM, signal.SIGINT):
            signal.signal(other, signal.SIG_IGN)  # the end of a job is not interrupted
        raise Ended(number)

    comparison = Comparison(options)
    try:
        # Opened before anything is measured; its old content stays until there are new results.
        with open(options.record or os.devnull, "a", encoding="utf-8") as record, tempfile.TemporaryDirectory() as folder:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, end)
            for contender in options.contenders.values():
                if contender.missing:
                    say(f"{contender.name} is missing: {contender.missing}")
            comparison.run(Path(folder))
            comparison.evaluate()
            print_tables(comparison)
            if os.path.isfile(record.name):
                record.truncate(0)
            write_record(comparison, record)
    except OSError as error:
        say(f"{options.record}: {error.strerror}")
        return 1
    except Ended as ended:
        say(f"{signal.strsignal(ended.args[0])}: the comparison was ended, nothing is written")
        return 128 + ended.args[0]
    return int(comparison.wrong > 0 or any(c.failed or c.wrong for c in options.contenders.values()))


if __name__ == "__main__":
    sys.exit(main())
