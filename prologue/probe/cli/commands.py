"""The commands that probe brings."""

from __future__ import annotations

from typing import Final

from prologue.cli.subcommands import Command

COMMANDS: Final = (
    Command(
        "probe", "prologue.probe.cli.probe:run", "say whether a kprobe can be put at a place, or why not",
        "  prologue probe vmlinux vfs_read vfs_read+4 0xffff800080444118\n"
        "  prologue probe vmlinux vfs_read 'vfs_read%return' --event >> /sys/kernel/tracing/kprobe_events\n"
        "  prologue probe vmlinux 'do_wait wo->wo_type' fsnotify_access --event --group mine\n"
        "  prologue probe vmlinux schedule+0x10 --json | jq .places[].answer",
        options="prologue.probe.cli.probe:add_options",
    ),
    Command(
        "live probe", "prologue.probe.cli.live_probe:run",
        "trace places of a running kernel by kprobe events, with arguments as C has them",
        "  prologue live probe vmlinux ssh:root@board 'do_wait wo->wo_type' 'do_wait%return'     # 10 seconds\n"
        "  prologue live probe vmlinux /proc/kcore 'vfs_read file->f_path.dentry->d_name.name:string' --seconds 0\n"
        "  prologue live probe vmlinux ssh:root@board kernel_clone --command 'make' --json | jq '.hits[].values'",
        options="prologue.probe.cli.live_probe:add_options",
    ),
)  # fmt: skip
