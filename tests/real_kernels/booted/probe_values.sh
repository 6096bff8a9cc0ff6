#!/bin/busybox sh
# The guest's only process: sets the events of /events in one go, does what they are to see, and prints the trace.
B=/bin/busybox
T=/sys/kernel/tracing
$B mount -t proc proc /proc
$B mount -t sysfs sysfs /sys
$B mount -t devtmpfs devtmpfs /dev
$B mount -t tracefs tracefs $T
TOKEN=$($B sed 's/.*prologue\.token=\([^ ]*\).*/\1/' /proc/cmdline)
$B cat /events > $T/kprobe_events
echo "status $?"
$B sed 's/^/set /' $T/kprobe_events
[ -d $T/events/mine ] && echo 1 > $T/events/mine/enable
printf 0123456789 > /tmp/known-name
$B chown 1234 /tmp/known-name
$B touch -d '2001-09-09 01:46:40' /tmp/known-name
$B cat /tmp/known-name > /dev/null
echo 0 > $T/tracing_on
$B sed 's/^/trace /' $T/trace
echo 0 > $T/events/mine/enable
echo > $T/kprobe_events
$B --install -s /bin
sh /probe.sh dd if=/tmp/known-name of=/dev/null 2>&1 | $B sed 's/^/script /'
$B sed 's/^/left /' $T/kprobe_events
echo "@$TOKEN {\"event\": \"end\"}"
$B poweroff -f
