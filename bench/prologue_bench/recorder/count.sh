# ---- counters ----
#
# Before this comes counter: the program count.c, in the form of printf's %b; empty if nothing is to be counted.

counting='' # the directory that holds the program
counted=''  # the member of a value's line
runner='sh -c'

# Put the program where it can run, and see that it counts; why not in $uncounted.
begin_counting() {
	uncounted=
	[ -n "$counter" ] || return 0
	set -- "$sys"/bus/event_source/devices/*/cpus
	if [ $# -gt 1 ]; then
		uncounted="this board has $# kinds of CPUs, and an event counts on CPUs of one kind only"
		return
	fi
	if ! counting=$(mktemp -d "${TMPDIR:-/tmp}/prologue.XXXXXX" 2>/dev/null); then
		uncounted="no directory can be made in ${TMPDIR:-/tmp}: set TMPDIR to another one"
		return
	fi
	printf %b "$counter" >"$counting/count"
	chmod 700 "$counting/count"
	runner=run_counted
	if ! $runner : 2>/dev/null; then
		uncounted="the program that counts is for arm64, and cannot run in $counting: if that is mounted noexec, set TMPDIR"
	elif ! grep -q '[0-9]$' "$counting/report"; then
		error=$(sed -n '1s/.* //p' "$counting/report")
		case $error in
		EACCES | EPERM)
			why="be root, or set kernel.perf_event_paranoid to 1 (it is $(first "$proc/sys/kernel/perf_event_paranoid"))"
			;;
		ENOSYS) why='the kernel lacks CONFIG_PERF_EVENTS' ;;
		*) why='this kernel knows no counters of the CPU: see its log for what it says of the PMU' ;;
		esac
		uncounted="perf_event_open allows no event ($error): $why"
	fi
}

run_counted() {
	"$counting/count" "$counting/report" "$1"
}

# read_counters: keep the counters of the run that has ended
read_counters() {
	[ -z "$counting" ] || counted=", \"counters\": $(strings <"$counting/report")"
}

end_counting() {
	[ -z "$counting" ] || rm -rf "$counting"
	counting=
}
