"""The commands that the bench brings: each is a module of this room with ``add_options`` and ``run``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from prologue.cli.subcommands import Command, Subcommand, add_commands, add_listed

_BENCH: Final[tuple[tuple[str, str, str], ...]] = (  # name, help and examples
    (
        "run",
        "boot variants of one link in random order, and measure them",
        "  prologue bench run vmlinux --variants nop-nop,boot,build --boots 10 --runs 3 --seed 7 \\\n"
        "      --workload hackbench:process,sockets,g=10,l=1000 --target ssh:root@board -o campaign/\n"
        "  prologue bench run vmlinux --workload hackbench:g=1,l=100 --modules /lib/modules/6.1 -o smoke/\n"
        "  prologue bench run vmlinux --workload hackbench:g=1,l=20 --target icount -o exact/\n"
        "  prologue bench run vmlinux --workload hackbench:g=10,l=1000 --target labgrid:farm.yaml \\\n"
        "      --reserve board=rpi4 -o campaign/\n"
        "The same command resumes a campaign that was stopped, at whatever point.\n"
        "Exit codes: 0 every boot of the plan counts; 1 some stayed void; 2 bad input or another plan; 4 machine lost.",
    ),
    (
        "links",
        "link one build many times, each with another layout",
        "  prologue bench links linux/out -n 12 -o links/       # other orders of its objects; out/ stays as it is\n"
        "  prologue bench links a/vmlinux b/vmlinux c/vmlinux -o links/            # links that you made\n"
        "  prologue bench run --links links/ --workload hackbench:g=10,l=1000 --target ssh:root@board -o campaign/\n"
        "The same command resumes one that was stopped, and adds links if -n is larger.",
    ),
    (
        "expect",
        "say what campaign decides a margin: how many links, and boots of each",
        "  prologue bench expect --margin 0.5\n"
        "  prologue bench expect --margin 0.5 --boots-vary 0.8 --layouts-vary 0.4",
    ),
    (
        "record",
        "record this boot of this machine under a label, or write a script that does it elsewhere",
        "  prologue bench record --label nop-nop --vmlinux vmlinux --workload hackbench:g=10,l=1000 -o boots.jsonl\n"
        "  prologue bench record --label build --runs 5 -o boots.jsonl --command 'make -C linux -j8 clean vmlinux'\n"
        "  prologue bench record --label boot -o boots.jsonl --pattern 'Throughput \\([0-9.]*\\)' --unit MB/s \\\n"
        "      --direction higher --command 'dbench -t 60 8'\n"
        "  prologue bench record --label nop-nop --workload hackbench:g=10 --script > record.sh\n"
        "  LABEL=build sh record.sh >> boots.log     # on the board, as root, once for each boot\n"
        "  prologue bench compare boots.jsonl boots.log",
    ),
    (
        "compare",
        "compare variants with the base: difference, interval, verdict",
        "  prologue bench compare example:2019-a57\n  prologue bench compare results/ --margin 0.5\n"
        "  prologue bench compare monday/ tuesday/ --json\n"
        "  prologue bench compare --kernels stock/ native/",
    ),
    (
        "table",
        "describe what was measured: quartiles, extremes, outliers",
        "  prologue bench table example:2019-a53\n  prologue bench table results/ --json",
    ),
    (
        "plot",
        "draw every sample, and every difference with its interval",
        "  prologue bench plot example:2019-a53 -o a53.png\n"
        "  prologue bench plot results/ -o results.svg --margin 0.5",
    ),
    (
        "export",
        "write recorded results in another program's format: KernelCI's, benchstat's, CSV",
        "  prologue bench export results/ --csv -o samples.csv\n"
        "  prologue bench export results/ --benchstat -o samples.txt     # benchstat -col /variant samples.txt\n"
        "  prologue bench export results/ --kcidb --origin mylab -o report.json\n"
        "  prologue bench export monday/ tuesday/ --kcidb --origin mylab --tree mainline \\\n"
        "      --repository https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git --commit COMMIT\n"
        "  prologue bench export results/ --kcidb --origin mylab --checkout mylab:4711 | kcidb-submit ...",
    ),
    (
        "doctor",
        "check this host, or the machine to be measured, and say what to fix",
        "  prologue bench doctor\n  prologue bench doctor --vmlinux vmlinux --target ssh:root@board",
    ),
)  # fmt: skip


def add_bench(group: Subcommand) -> None:
    """Give ``bench`` its commands."""
    add_listed(add_commands(group), (_command(name, name, help_, examples) for name, help_, examples in _BENCH))


def _command(name: str, module: str, help_: str, examples: str) -> Command:
    place = f"prologue_bench.cli.{module}"
    return Command(name, f"{place}:run", help_, examples, options=f"{place}:add_options")


COMMANDS: Final = (
    Command(
        "bench", "", "measure variants of one link, and say what the samples prove",
        "  prologue bench run vmlinux --workload hackbench:g=10,l=1000 --target ssh:root@board -o results/\n"
        "  prologue bench compare example:2019-a57         # the report of a table that ships with the tool\n"
        "  prologue bench compare results/ --margin 0.5\n"
        "  prologue bench table results/\n"
        "  prologue bench plot results/ -o results.png\n",
        options="prologue_bench.cli.commands:add_bench",
    ),
    _command(
        "trace record", "trace_record",
        "record in QEMU which instructions a kernel executes: each range, with CPU, level and task",
        "  prologue trace record vmlinux -o hackbench.ptrace --command 'hackbench -g 1 -l 100'\n"
        "  prologue trace record vmlinux -o read.ptrace --begin vfs_read --count 10000000\n"
        "  prologue trace record vmlinux -o read.ptrace --function vfs_read --command 'head -c 64 /dev/zero'\n"
        "  prologue trace record vmlinux -o all.ptrace --save-truth all.words --save-memory all.core \\\n"
        "      --setup 'echo function >/sys/kernel/tracing/current_tracer'\n"
        "  prologue live overlay vmlinux all.core -o vmlinux.live     # the text that was executed\n",
    ),
    _command(
        "writes boot", "writes_boot",
        "record every write to kernel text in QEMU, from reset to power-off",
        "  prologue writes boot vmlinux -o boot.writes        # boots, and powers off as init's first act\n"
        "  prologue writes boot vmlinux --initrd initrd.cpio --append 'rdinit=/test.sh' -o test.writes\n"
        "  prologue writes judge boot.writes",
    ),
)  # fmt: skip


def _targets() -> Sequence[str]:
    return ("qemu", "icount", "ssh:", "labgrid:")


def _results() -> Sequence[str]:
    from prologue_bench.analysis.sources import examples

    return examples()


WORDS: Final[dict[str, Callable[[], Sequence[str]]]] = {"TARGET": _targets, "RESULTS": _results}
"""Words of a command line by the metavar that they stand for; RESULTS: names after ``example:``."""
