# SPDX-License-Identifier: BSD-3-Clause
#
# The short way to everything; the work is done by CMake and by the scripts in scripts/. `make help` lists the targets.

PREFIX ?= /usr/local
DESTDIR ?=
NAMES := src include tools tests examples bench python

.PHONY: all demo demo-gpt check check-all check-gpu check-python check-torch chaos bench bench-async bench-checks bench-decode bench-forms bench-hosts bench-torch fuzz format lint install uninstall clean help

all:
	@scripts/setup build
	@scripts/build release

demo:
	@scripts/setup demo
	@scripts/build release
	@scripts/demo build

demo-gpt:
	@scripts/setup demo-gpt
	@scripts/build release
	@scripts/demo_gpt build

check:
	@scripts/setup check
	@scripts/check

check-all:
	@scripts/setup check
	@scripts/check --all

# Without scripts/setup: machines with GPUs are seldom one's own.
check-gpu:
	@scripts/check_gpu

check-python:
	@scripts/setup build
	@scripts/check python

# Installs torch below build/.
check-torch:
	@scripts/setup build
	@scripts/check torch

chaos:
	@scripts/setup check
	@scripts/build release -DTUTTI_TESTS=ON
	@N="$(N)" scripts/chaos

bench:
	@scripts/setup bench
	@scripts/peers build
	@scripts/build release
	@scripts/bench build

bench-checks:
	@scripts/setup bench
	@scripts/bench_checks

bench-decode:
	@scripts/setup bench
	@scripts/build release
	@scripts/bench_decode build

bench-forms:
	@scripts/setup bench
	@scripts/build release
	@scripts/bench_forms build

bench-async: all
	@scripts/bench_async.py build

bench-torch:
	@scripts/setup build
	@scripts/bench_torch

fuzz:
	@scripts/setup fuzz
	@scripts/fuzz

bench-hosts:
	@scripts/setup bench
	@scripts/setup demo
	@scripts/build release
	@scripts/bench_hosts build

format:
	@scripts/setup check
	@find $(NAMES) -name '*.[ch]' -o -name '*.cc' -o -name '*.[ch]pp' | xargs clang-format-14 -i

lint:
	@scripts/setup check
	@scripts/lint

install: all
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"

uninstall:
	@scripts/uninstall build "$(DESTDIR)"

clean:
	@rm -rf build

help:
	@echo "make             build the library, the program \`tutti\` and the examples in build/"
	@echo "make demo        train a network on Fashion-MNIST with one rank per CPU"
	@echo "make demo-gpt    train a small GPT whose layers two ranks share, and let it write a paragraph (three minutes)"
	@echo "make check       run every test, also under sanitizers, and every lint (12 to 19 minutes on two CPUs)"
	@echo "make check-all   the same with all combinations of backends, ranks and settings: for every night"
	@echo "make check-gpu   test device tensors on this machine's GPUs, into bench/results/gpu-NAME.txt"
	@echo "make check-python build the wheel of python/, install it elsewhere, run its tests (needs PyPI)"
	@echo "make check-torch test the backend of PyTorch with a torch installed below build/ (scripts/check_torch --all: all of PyTorch's own tests, two minutes)"
	@echo "make chaos N=500 end ranks at random in that many rounds, and check how the other ranks react"
	@echo "make bench       compare with other libraries, into bench/results/ (25 minutes; BENCH_QUICK=1: some)"
	@echo "make bench-async measure the asynchronous operations, into bench/results/"
	@echo "make bench-decode measure a token of a model whose layers two ranks share, into bench/results/ (six minutes)"
	@echo "make bench-forms measure persistent operations and smaller wires beside ordinary calls, into bench/results/ (two minutes)"
	@echo "make bench-checks measure what looking for failures costs, into bench/results/"
	@echo "make fuzz        search for inputs that break something, a minute for each target (scripts/fuzz -t SECONDS)"
	@echo "make bench-hosts measure all_reduce over 2, 4 and 8 hosts with slow links, as root, into bench/results/ (10 minutes; BENCH_QUICK=1: some)"
	@echo "make bench-torch compare with gloo under torch.distributed, into bench/results/ (8 minutes; needs PyPI)"
	@echo "make lint        check format, layers, headers and clang-tidy's rules"
	@echo "make format      format all C and C++ sources"
	@echo "make install     install to PREFIX (/usr/local), below DESTDIR if set; make uninstall removes it"
	@echo "make clean       remove build/"
