# Events of prologue: sets them, traces, says what was hit and lost, and takes them off again, whatever happens.
#
#     sh THIS [-b KIB] [SECONDS | COMMAND [ARGUMENT...]]      10 seconds if nothing is said; 0: until Ctrl-C
#
# The trace goes to standard output, the rest to standard error. It uses an instance of its own, and no other tool's
# buffer or events. KIB (1408 if nothing is said) is the ring buffer of each CPU. It exits with 1 if the kernel refused an
# event, or else as COMMAND did.
# With -e all goes to standard output, in parts (trace_machine.py), and it also ends with standard input.

program=$0
. instance.sh

kib=1408
while getopts b:e option; do
	case $option in
	b) kib=$OPTARG ;;
	e) until_eof=yes ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
seconds=${1:-10}
case $seconds in *[!0-9]*) seconds=0 ;; *) [ $# -eq 0 ] || shift ;; esac
case $kib in *[!0-9]* | '') die "-b takes a whole number" ;; esac

say() { [ -n "$until_eof" ] || echo "$program: $*" >&2; }
show() { if [ -n "$until_eof" ]; then cat "$2"; else sed "s/^/$1/" "$2" >&2; fi; }
part() { [ -z "$until_eof" ] || echo "==== $group $1"; } # no string of a trace holds a group of this run

require_machine
running=$(uname -r)
[ "$running" = "$RELEASE" ] || die "runs $running, and these events are for $RELEASE"
notes=$(od -An -v -tx1 /sys/kernel/notes 2>/dev/null | tr -d ' \n')
case $notes in
*"474e5500$BUILD_ID"*) ;; # GNU, and the build-id
'') echo "the build-id of this machine cannot be read (od, /sys/kernel/notes): only its release was compared" >&2 ;;
*) die "runs another build of $running: these events are for the one with build-id $BUILD_ID" ;;
esac
open_tracing

make_instance
# Other options of the user's own tracing are inherited, and would change the text.
for option in context-info norecord-tgid event-fork nobin nohex noraw noverbose nofields; do
	echo $option >"$instance/trace_options"
done 2>/dev/null
set_buffer "$kib"
part refused
refused=
events | while read -r line; do
	printf '%s\n' "$line" >>"$tracing/$control" 2>/dev/null && continue
	if [ -n "$until_eof" ]; then printf '%s\n' "$line"; else say "the kernel refuses: $line"; fi
done
for name in $NAMES; do
	[ -d "$tracing/events/$group/$name" ] || refused=1
done
[ -e "$instance/events/$group/enable" ] || die "the kernel takes none of these events"
part events
catch_stop
# grep ends when the last mark has been printed. A reader that is killed would take events with it.
mkfifo "$scratch/printed"
grep -q "prologue end_of_$group\$" <"$scratch/printed" &
printed=$!
# shellcheck disable=SC2016 # for the inner shell
sh -c 'echo $$ >"$1"; exec cat "$2"' reader "$scratch/reader" "$instance/trace_pipe" | tee "$scratch/printed" &
printer=$!
until [ -s "$scratch/reader" ]; do :; done
# What these tasks and their children do is not traced (5.7 and later): each line that they print would make more of them.
for task in $PPID $cleaner $printed $printer $(cat "$scratch/reader"); do
	echo "$task" >>"$instance/set_event_notrace_pid"
done 2>/dev/null
echo 1 >"$instance/events/$group/enable" || die "events cannot be enabled"
run_meanwhile "$seconds" "$@"
echo 0 >"$instance/events/$group/enable"
# One mark may not be enough: a reader of 6.12 was seen that was not woken by the first event of a trace. Z: it has ended.
while grep -q '^State:	[^Z]' "/proc/$printed/status" 2>/dev/null; do
	mark "end_of_$group"
	sleep 1
done
part ended
[ -z "$until_eof" ] || echo "$status"
[ $# -eq 0 ] || say "$1 ended with $status"
part hits
say "hits and misses:"
for name in $NAMES; do
	awk -v name="$name" '$1 == name { print name, $(NF - 1), $NF }' "$tracing/kprobe_profile"
done >"$scratch/hits"
show "  " "$scratch/hits"
part lost
lost_events >"$scratch/lost"
show "  lost: " "$scratch/lost"
part end
[ "$status" != stopped ] || status=0
[ -z "$refused" ] || status=1
[ -z "$until_eof" ] || status=0
exit "$status"
