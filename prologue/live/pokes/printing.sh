# ---- what was recorded
# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The end of record.sh, in whose shell it runs (record/run.py puts both together): prints the parts that record/output.py reads.

part() { printf '==== %s\n' "$1"; }
# In a process of its own: where the output is a terminal (a console), a shell loses the line that it writes when a
# background process ends, and the reader of the events has just been killed.
(
part "prologue writes record 1"
part machine
uname -m
uname -r
cat /sys/devices/system/cpu/online
part boot_id
cat /proc/sys/kernel/random/boot_id
part notes
od -An -v -tx1 /sys/kernel/notes 2>/dev/null
part kernel
echo "slot=$slot address=$place word=$word"
echo "_stext=$stext"
echo "_etext=$etext"
echo "voffset=$voffset"
sed 's/^KERNELOFFSET=/slide=/p; d' "$scratch/vmcoreinfo"
part probes
cat "$scratch/probes"
part lost
lost_events
# Misses of a probe: hits while a CPU was in another one. The last two columns are hits and misses.
while read -r event misses; do
	[ ! -d "$tracing/events/$group/$event" ] || [ "$misses" = 0 ] || echo "$event $misses missed by kprobes"
done <<-END
	$(awk 'NF >= 3 { print $(NF - 2), $NF }' "$tracing/kprobe_profile" 2>/dev/null)
END
part ended
echo "$status"
wc -l <"$scratch/events" | tr -d ' '
part events
cat "$scratch/events"
part changed
if [ -n "$compare" ]; then
	echo "compared $((pages * 1024)) words"
	# Pages that differ, in runs: first page, and how many.
	cmp -l "$scratch/before" "$scratch/after" 2>/dev/null | awk '
		{ page = int(($1 - 1) / 4096) }
		NR > 1 && page == last { next }
		NR > 1 && page == last + 1 { last = page; next }
		{ if (NR > 1) print first, last - first + 1; first = last = page }
		END { if (NR) print first, last - first + 1 }
	' | while read -r first count; do
		for side in before after; do
			echo "$side $((first * 1024))"
			dd if="$scratch/$side" bs=4096 skip="$first" count="$count" 2>/dev/null | od -An -v -tx4
		done
	done | awk '
		$1 == "before" { base = $2; n = 0; old = 1; next }
		$1 == "after" { n = 0; old = 0; next }
		{ for (k = 1; k <= NF; k++) {
			if (old) word[n] = $k
			# Strings: 121e7668 would be a number, and equal to others.
			else if ("" word[n] != "" $k) print base + n, word[n], $k
			n++
		} }
	'
else
	echo "not compared: $uncompared"
fi
part names
# Functions that hold an address of the events: start, start of what follows, name, owner. Return addresses lose what
# pointer authentication put into their upper bits, of which the highest eight may be zeros; bit 55 of an address of
# the kernel is always set (Arm ARM, "Pointer authentication").
awk -v voffset="$voffset" "$numbers"'
	{
		for (k = 1; k <= NF; k++) {
			if ($k !~ /^(page|addr|c[0-9]+)=0x[0-9a-f]+$/) continue
			split($k, part, "=0x")
			if (part[1] == "page") hex = virtual(part[2])
			else if (length(part[2]) >= 14) hex = substr(part[2], length(part[2]) - 11)
			else continue
			if (!(hex in seen)) { seen[hex] = 1; print "ffff" hex " ~" }
		}
	}
' "$scratch/events" >"$scratch/addresses"
awk '$2 ~ /^[tTwW]$/ && $3 !~ /^[$.]/ { print $1, $3, $4 }' /proc/kallsyms |
	cat - "$scratch/addresses" | LC_ALL=C sort | awk '
		$2 == "~" { wanted = (name != ""); next }
		$1 == start { next }
		{
			# What follows the last function of a module says nothing of where it ends.
			if (wanted) print start, (owner == $3) ? $1 : "-", name, owner
			wanted = 0; start = $1; name = $2; owner = $3
		}
		END { if (wanted) print start, "-", name, owner }
	'
part end
)
exit
