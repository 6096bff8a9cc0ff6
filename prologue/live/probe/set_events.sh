# Events of prologue: sets them, traces, says what was hit and lost, and takes them off again, whatever happens.
#
#     sh THIS [SECONDS | COMMAND [ARGUMENT...]]      10 seconds if nothing is said
#
# The trace goes to standard output, the rest to standard error. It uses an instance of its own, and no other tool's
# buffer or events. It exits with 1 if the kernel refused an event, or else as COMMAND did.

set -u
say() { echo "$0: $*" >&2; }
fail() { say "$*"; exit 2; }

running=$(uname -r)
[ "$running" = "$RELEASE" ] || fail "made for $RELEASE, but this is $running"
tracing=
for directory in /sys/kernel/tracing /sys/kernel/debug/tracing; do
	if [ -e "$directory/$CONTROL" ]; then tracing=$directory; break; fi
done
if [ -z "$tracing" ] && mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null &&
	[ -e "/sys/kernel/tracing/$CONTROL" ]; then
	tracing=/sys/kernel/tracing
fi
[ -n "$tracing" ] || fail "no tracefs with $CONTROL: be root, on a kernel with these events"
[ ! -d "$tracing/events/$GROUP" ] || fail "there are events of the group $GROUP already: take them off, or give --group"
instance=$tracing/instances/$GROUP

clean() {
	trap '' HUP INT TERM
	[ ! -e "$instance/events/$GROUP/enable" ] || echo 0 >"$instance/events/$GROUP/enable"
	[ ! -d "$instance" ] || rmdir "$instance" || say "$instance is still there"
	for name in $NAMES; do
		[ ! -d "$tracing/events/$GROUP/$name" ] || echo "-:$GROUP/$name" >>"$tracing/$CONTROL" ||
			say "$GROUP/$name is still there"
	done
}
# What is there already is somebody's, and is not taken away.
[ ! -d "$instance" ] || fail "there is an instance $GROUP of tracefs already: remove it, or give --group"
trap clean EXIT
trap 'exit 130' HUP INT TERM

mkdir "$instance" || fail "no instance of tracefs"
events | while read -r line; do
	printf '%s\n' "$line" >>"$tracing/$CONTROL" 2>/dev/null || say "the kernel refuses: $line"
done
status=0
for name in $NAMES; do
	[ -d "$tracing/events/$GROUP/$name" ] || status=1
done
[ -e "$instance/events/$GROUP/enable" ] || fail "the kernel took none of the events"
echo 1 >"$instance/events/$GROUP/enable" || fail "events cannot be enabled"
case ${1:-10} in
*[!0-9]*)
	"$@"
	ended=$?
	say "$1 ended with $ended"
	[ "$status" -ne 0 ] || status=$ended
	;;
*) sleep "${1:-10}" ;;
esac
echo 0 >"$instance/tracing_on"
cat "$instance/trace"
say "hits and misses:"
grep -w -F "$(for name in $NAMES; do echo "$name"; done)" "$tracing/kprobe_profile" >&2
for statistics in "$instance"/per_cpu/cpu*/stats; do
	lost=$(sed -n -e 's/^overrun: //p' -e 's/^dropped events: //p' "$statistics" | tr '\n' '+')
	lost=$((${lost}0))
	[ "$lost" -eq 0 ] || say "$lost events lost, $statistics"
done
exit "$status"
