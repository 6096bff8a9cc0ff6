# SPDX-License-Identifier: GPL-2.0-only
#
# Every target that needs something first makes sure that it is there: see .ci/setup.

SHELL := /bin/bash
python := .venv/bin/python
# Three processes share the tests, file by file: docs/decisions/0011.
pytest := $(python) -m pytest -n 3 --dist loadfile --no-loadscope-reorder --durations=20 --durations-min=1
mypy := $(python) -m mypy
# Tests start the tool some thousand times: each time all of it would be compiled.
unexport PYTHONDONTWRITEBYTECODE
cache = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/prologue

.PHONY: help setup setup-demo setup-bench setup-test setup-kernels demo test test-kernels test-all check lint types
.PHONY: tests tests-all tests-fast plugins bench fuzz kernels docs man site clean

help:
	@echo 'make demo    scan, patch, verify, boot and audit a small kernel, then a real one of Debian (or VMLINUX=FILE)'
	@echo 'make test    lint, and the tests that need no more than make demo: five minutes'
	@echo 'make test-kernels  types, and the other tests, with compilers, more of Debian'"'"'s kernels and some built from source: an hour'
	@echo 'make test-all  all tests, and more of each kind: before a release, or a change of a rule'
	@echo 'make check   lint, types and the quick tests, which need no kernel: two minutes'
	@echo 'make bench   two small campaigns in QEMU, their tables and pictures in bench-out'
	@echo 'make plugins build the QEMU plugins that count instructions'
	@echo 'make fuzz    damaged inputs, guided by coverage, for half an hour (SECONDS=1800)'
	@echo 'make kernels builds and boots kernels with unusual configurations, for hours; writes docs/kernels.md'
	@echo 'make docs    write docs/rules from the rules'
	@echo 'make man     write a man page for each command into build/man/man1'
	@echo 'make site    build the pages as a site in build/site/html, and check their links'
	@echo 'make setup   only install what these need'
	@echo 'make clean   remove what make made here'

setup: setup-kernels

setup-demo:
	@.ci/setup demo

setup-bench:
	@.ci/setup bench

setup-test:
	@.ci/setup test

setup-kernels:
	@.ci/setup kernels

# What its second part needs is asked for after the first.
demo:
	@.ci/setup small
	$(python) bench/demo.py $(if $(VMLINUX),--vmlinux '$(VMLINUX)') $(if $(MODULES),--modules '$(MODULES)')

# One target after the other, also with -j: the tests share the CPUs among themselves.
.NOTPARALLEL:

test: lint tests

# mypy needs one CPU, some 40 s of it where nothing is cached: it runs beside the tests, and its lines come after theirs.
test-kernels: setup-kernels
	$(python) .ci/beside '$(mypy)' $(pytest) -m 'beyond and not extended'

test-all: lint tests-all

check: lint tests-fast

lint: setup-test
	$(python) -m ruff check .
	$(python) -m ruff format --check .

types: setup-kernels
	$(mypy)

# What is started here has the environment of a fresh machine.
tests: setup-test
	$(python) .ci/beside true $(pytest) -n 2 -m 'not beyond and not extended'

tests-all: setup-kernels
	$(python) .ci/beside '$(mypy)' $(pytest)

# These wait for nothing: more of them at once would only load everything once more.
tests-fast: setup-kernels
	$(python) .ci/beside '$(mypy)' $(pytest) -n 2 -m 'not kernel and not thorough and not extended'

# Commands build the plugins that they need; this shows that they can be built here.
plugins: setup-bench
	$(python) -m prologue_bench.exact.build

bench: plugins
	$(python) bench/small_campaign.py

# atheris has wheels for some releases of Python only, so it is not among the packages that tests need.
SECONDS ?= 1800
fuzz: setup-kernels
	$(python) -m pip install --disable-pip-version-check --no-input -q 'atheris>=2.3'
	nice -n 19 $(python) -m tests.fuzz $(SECONDS)

kernels: setup-kernels
	$(python) -m tests.kernels

docs: setup-test
	$(python) -m tests.support.rule_pages

# `man -M build/man prologue-verify` reads one.
man: setup-test
	$(python) -m prologue.cli.man_pages build/man/man1

site: setup-kernels
	NO_MKDOCS_2_WARNING=1 $(python) .ci/site

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist demo-out bench-out *.egg-info
	find prologue bench tests -name __pycache__ -type d -prune -exec rm -rf {} +
	@if [ -d '$(cache)' ]; then echo 'Downloads stay in $(cache): remove it to free them.'; fi
