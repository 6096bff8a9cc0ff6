# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0-only
#
# What scripts share that trace: a group of events and a trace instance of their own, which go away again, also if the
# script is killed. Before this they set $program, the name in messages; then $group and $control, the file that makes events.

die() {
	echo "$program: $*" >&2
	exit 2
}

scratch= tracing= instance= job= listener= until_eof=

# The others' events are not touched; ours are named one by one. A write to the control file that does not append removes all.
take_off() {
	for process in $job $listener; do kill "$process"; done 2>/dev/null
	if [ -n "$instance" ] && [ -d "$instance" ]; then
		echo 0 >"$instance/tracing_on"
		[ ! -d "$instance/events/$group" ] || echo 0 >"$instance/events/$group/enable"
		# Who reads the events keeps the instance. A number alone might be another process by now.
		read -r process <"$scratch/reader" && grep -q "$group" "/proc/$process/cmdline" && kill "$process"
		rmdir "$instance" || sleep 1 && rmdir "$instance"
	fi 2>/dev/null
	if [ -n "$tracing" ] && [ -d "$tracing/events/$group" ]; then
		for event in "$tracing/events/$group"/*/; do
			event=${event%/}
			echo 0 >"$event/enable"
			echo "-:$group/${event##*/}" >>"$tracing/$control"
		done
	fi 2>/dev/null
	[ -n "$scratch" ] || return
	[ ! -e "$scratch/tracing/$control" ] || umount "$scratch/tracing"
	rm -rf "$scratch"
}

trap take_off EXIT
trap 'exit 129' HUP
trap 'exit 143' TERM
trap 'exit 141' PIPE
trap 'exit 130' INT

require_machine() {
	case $(uname -m) in aarch64) ;; *) die "is for arm64 machines: this is $(uname -m)" ;; esac
	[ "$(id -u)" = 0 ] || die "needs root"
}

# Sets $tracing, $instance (which is not made yet) and $scratch.
open_tracing() {
	for tracing in /sys/kernel/tracing /sys/kernel/debug/tracing; do
		[ ! -e "$tracing/$control" ] || break
	done
	scratch=$(mktemp -d "${TMPDIR:-/tmp}/prologue.XXXXXX") || die "no directory for scratch files (TMPDIR)"
	[ -e "$tracing/$control" ] || tracing=$scratch/tracing
	instance=$tracing/instances/$group
	main=$$
	# If this shell is killed, at whatever it is, this one cleans up after it. State Z: dead, and not yet waited for.
	(
		trap '' HUP INT TERM PIPE
		while [ -d "$scratch" ] && grep -q '^State:	[^Z]' /proc/$main/status; do sleep 1; done
		[ ! -d "$scratch" ] || take_off
	) >/dev/null 2>&1 </dev/null &
	cleaner=$!
	if [ ! -e "$tracing/$control" ]; then
		mkdir "$tracing"
		mount -t tracefs tracefs "$tracing" 2>/dev/null || die "no tracefs: CONFIG_FTRACE, or lockdown=confidentiality?"
		[ -e "$tracing/$control" ] || die "no $control: this kernel lacks these events (CONFIG_KPROBE_EVENTS)"
	fi
	# What is there already is somebody's, and is not taken away.
	for theirs in "$tracing/instances/$group" "$tracing/events/$group"; do
		[ -e "$theirs" ] || continue
		tracing=
		instance=
		die "$theirs is there already, and not of this run: remove it, or name another group"
	done
	debug=/sys/kernel/debug/kprobes
	[ "$(cat $debug/enabled 2>/dev/null)" != 0 ] || die "kprobes are switched off: echo 1 >$debug/enabled"
}

make_instance() { mkdir "$instance" 2>/dev/null || die "no trace instance can be made in $tracing/instances"; }
mark() { echo "prologue $1" >"$instance/trace_marker"; }

# set_buffer KIB: the ring buffer of each CPU.
set_buffer() {
	echo "$1" >"$instance/buffer_size_kb" ||
		die "no memory for a ring buffer of $1 KiB for each CPU: ask for less (--buffer, or -b of the script)"
}

# run_meanwhile SECONDS [COMMAND [ARGUMENT]...]: waits for the command, or that long (0: a day). A signal ends it, and so does
# the end of standard input if $until_eof is set. Sets $status: of the command, or stopped. Before it: catch_stop.
catch_stop() {
	stopped=
	trap 'stopped=yes' INT USR1
}
run_meanwhile() {
	if [ -n "$until_eof" ]; then
		exec 3<&0
		(
			while read -r _; do :; done
			kill -USR1 $main
		) <&3 >/dev/null 2>&1 &
		listener=$!
	fi
	duration=$1
	[ "$duration" != 0 ] || duration=86400
	shift
	if [ $# -gt 0 ]; then
		"$@" >&2 &
	else
		sleep "$duration" >/dev/null 2>&1 &
	fi
	job=$!
	[ -n "$stopped" ] || wait $job
	status=$?
	if [ -n "$stopped" ]; then
		kill $job 2>/dev/null
		status=stopped
	fi
	job=
}

# Prints what each CPU's ring buffer lost: cpu0 3 overrun.
lost_events() {
	for stats in "$instance"/per_cpu/cpu*/stats; do
		cpu=${stats%/stats}
		sed -n "s/^\(overrun\|commit overrun\|dropped events\): \([1-9][0-9]*\)$/${cpu##*/} \2 \1/p" "$stats"
	done
}
