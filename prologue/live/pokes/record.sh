#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Records every write to kernel text that kprobe events can see, and prints it for `prologue writes judge`.
#
#     sh record.sh [-t SECONDS] [-b KIB] [-n] [-e] [COMMAND [ARGUMENT]...] >board.writes
#
# It records for SECONDS (default 10; 0: until Ctrl-C, at most a day), or while COMMAND runs; Ctrl-C ends either, and what was recorded
# is printed. KIB (default 8192) is the ring buffer of each CPU. -n compares no text. -e also ends with standard input.
#
# It needs root, tracefs with kprobe events, /proc/kallsyms, awk and the usual small programs; busybox has all of them.
# /proc/kcore is used if it is there. Its events are in a group of its own, recorded in a trace instance of its own; both go
# away again, also if it is killed.

program=record.sh
. instance.sh

seconds=10 kib=8192 compare=yes
while getopts t:b:ne option; do
	case $option in
	t) seconds=$OPTARG ;;
	b) kib=$OPTARG ;;
	n) compare= ;;
	e) until_eof=yes ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))

group=prologue_$$ control=kprobe_events
require_machine
case $seconds$kib in *[!0-9]* | '') die "-t and -b take whole numbers" ;; esac
open_tracing

# The kernel's own symbols that are asked for below; addresses without 0x.
awk 'NF == 3 && $3 ~ /^(_stext|_etext|__init_begin|__set_fixmap|__text_poke|copy_to_kernel_nofault|apply_alternatives_module)$/ ||
	NF == 3 && $3 ~ /^(__)?aarch64_insn_/' /proc/kallsyms >"$scratch/symbols"
address() { awk -v name="$1" '$3 == name { print $1; exit }' "$scratch/symbols"; }
stext=$(address _stext)
etext=$(address _etext)
case $stext in
ffff*) ;;
*) die "/proc/kallsyms hides its addresses: sysctl kernel.kptr_restrict=1" ;;
esac

# Addresses of the kernel begin with ffff, and shells calculate with signed 64 bits: the low 48 bits are what counts.
low() { echo $((0x${1#ffff})); }

# Segments of kcore: type (and flags), offset, virtual address, size in memory; one a line.
segments() {
	count=$(od -An -v -tu2 -j56 -N2 /proc/kcore) || return
	# shellcheck disable=SC2046 # words are what is wanted
	set -- $(od -An -v -tx8 -j64 -N$((count * 56)) /proc/kcore)
	while [ $# -ge 7 ]; do
		echo "$1 $2 $3 $6"
		shift 7
	done
}

# Offset in kcore of an address without 0x, whose segment must begin with ffff; nothing if it has none.
kcore_offset() {
	while read -r type offset start size; do
		case $type$start in ????????00000001ffff*) ;; *) continue ;; esac
		at=$(($(low "$1") - $(low "$start")))
		if [ $at -ge 0 ] && [ $at -lt $((0x$size)) ]; then
			echo $((0x$offset + at))
			return
		fi
	done <"$scratch/segments"
}

segments >"$scratch/segments" 2>/dev/null
dd if=/proc/kcore bs=4096 count=16 2>/dev/null | tr '\0' '\n' | grep -aE '^(KERNELOFFSET|NUMBER\(kimage_voffset\))=' |
	sort -u >"$scratch/vmcoreinfo"
# What to add to a physical address of the image for its virtual one: 64 bits, without 0x.
voffset=$(sed -n 's/^NUMBER(kimage_voffset)=0x//p' "$scratch/vmcoreinfo")
if [ -z "$voffset" ]; then
	# Its resource ends before __init_begin (request_standard_resources, arch/arm64/kernel/setup.c, 6.12).
	last=$(sed -n 's/^ *[0-9a-f]*-\([0-9a-f]*\) : Kernel code$/\1/p' /proc/iomem)
	case $last in '' | 0 | 00000000) die "neither /proc/kcore nor /proc/iomem says where the kernel is" ;; esac
	voffset=$(printf 'ffff%012x' $(($(low "$(address __init_begin)") - 1 - 0x$last)))
fi
case $voffset in ffff????????????) ;; *) die "the kernel is at an offset of $voffset, which is not understood" ;; esac

# ---- probes

# Return addresses: of the probed function (%lr), and of its callers, by the chain of frame records (AAPCS64, "The Frame
# Pointer"). A kernel's chain ends with a record of zeros.
callers='c1=%lr:x64' frame=%x29
for k in 2 3 4 5 6 7 8 9 10; do
	callers="$callers c$k=+8($frame):x64"
	frame="+0($frame)"
done
# set_probe EVENT FUNCTION ARGUMENTS: says whether this kernel takes it.
set_probe() {
	event=$1 function=$2
	shift 2
	if [ -z "$(address "$function")" ]; then
		echo "$function absent" >>"$scratch/probes"
	elif echo "p:$group/$event $function $* $callers" >>"$tracing/kprobe_events" 2>/dev/null; then
		echo "$function set $event" >>"$scratch/probes"
	else
		why='ftrace does not trace it, and CONFIG_KPROBE_EVENTS_ON_NOTRACE is off'
		[ ! -e $debug/blacklist ] || ! grep -q "	$function$" $debug/blacklist || why='on the blacklist of kprobes'
		echo "$function refused $why" >>"$scratch/probes"
	fi
}

# Every writer of text that is mapped read-only goes through one slot of the fixmap: patch_map() asks __set_fixmap(index, page,
# flags) for it (arch/arm64/kernel/patching.c, 6.12; insn.c, 5.5). There the physical address is an argument. The virtual one
# and the new word are where this build's compiler keeps them: in a register, and on the writers' stack. They are looked for
# while a probe is armed and disarmed elsewhere, which writes a word that is known: BRK #4, and then another.
look='index=%x0:u32 page=%x1:x64'
for k in 19 20 21 22 23 24 25 26 27 28; do look="$look r$k=%x$k:x64"; done
k=0
while [ $k -lt 192 ]; do
	look="$look w$k=+$k(%sp):x32"
	k=$((k + 4))
done
set_probe_quietly() { echo "p:$group/$1 $2 $3" >>"$tracing/kprobe_events" 2>/dev/null; }
set_probe_quietly look __set_fixmap "$look" || die "this kernel takes no probe on __set_fixmap: nothing can be seen"

# How much is written, and what: BPF's programs (6.9 and later).
set_probe length __text_poke "addr=%x1:x64 size=%x3:u64"
# Text of a module before it can run; these writes do not go through the fixmap.
set_probe alternatives apply_alternatives_module "addr=%x0:x64 size=%x1:u64"
# With CONFIG_KPROBE_EVENTS_ON_NOTRACE this says the words once more.
set_probe word copy_to_kernel_nofault "size=%x2:u64 old=+0(%x0):x32 next=+4(%x0):x32 new=+0(%x1):x32 high=+4(%x1):x32"
# The writers themselves: what no kernel takes today, one may tomorrow.
for function in __aarch64_insn_write aarch64_insn_write aarch64_insn_patch_text_nosync aarch64_insn_patch_text \
	aarch64_insn_write_literal_u64 aarch64_insn_copy aarch64_insn_set; do
	set_probe "writer_$function" "$function" "addr=%x0:x64 value=%x1:x64"
done

make_instance
events=$instance/events/$group
echo 1 >"$events/look/enable" || die "the probe on __set_fixmap cannot be armed"
for event in length alternatives; do
	[ -d "$events/$event" ] || continue
	for turn in 1 2; do
		mark arm
		echo 1 >"$events/$event/enable" || die "a probe cannot be armed: $event"
		mark disarm
		echo 0 >"$events/$event/enable"
	done
done
echo 0 >"$events/look/enable"
# awk has no numbers of 64 bits: two times 24 bits are added.
numbers='
	function number(hex, i, n) { for (i = 1; i <= length(hex); i++) n = 16 * n + index("0123456789abcdef", substr(hex, i, 1)) - 1; return n + 0 }
	function virtual(page, l, h) { # the low 48 bits of the address of a page of the image; both without 0x
		while (length(page) < 12) page = "0" page
		l = number(substr(page, length(page) - 5)) + number(substr(voffset, 11))
		h = number(substr(page, length(page) - 11, 6)) + number(substr(voffset, 5, 6)) + int(l / 16777216)
		return sprintf("%06x%06x", h % 16777216, l % 16777216)
	}
'
found=$(awk -v voffset="$voffset" "$numbers"'
	/: prologue (arm|disarm)$/ { arming = $NF == "arm" }
	!/ look: / { next }
	{
		page = ""
		for (k = 1; k <= NF; k++) {
			split($k, part, "=0x")
			if ($k ~ /^index=/) slot = substr($k, 7)
			if (part[1] == "page") page = part[2]
		}
		if (page == "0" || page == "") next
		events++
		if (first == "") first = slot
		if (slot != first) events = -1000 # something else used the fixmap meanwhile
		for (k = 1; k <= NF; k++) {
			split($k, part, "=0x")
			if (part[1] ~ /^r/ && part[2] == "ffff" virtual(page)) holds[part[1]]++
			if (part[1] ~ /^w/ && (part[2] == "d4200080") == arming) holds[part[1]]++
			value[part[1]] = substr("00000000" part[2], length(part[2]) + 1)
		}
		for (k = 0; k < 192; k += 8) if (value["w" k + 4] value["w" k] == "ffff" virtual(page)) holds["s" k]++
	}
	END {
		if (events < 2) exit
		for (k = 184; k >= 0; k -= 8) if (holds["s" k] == events) place = "+" k "(%sp)"
		for (k = 28; k >= 19; k--) if (holds["r" k] == events) place = "%x" k
		for (k = 188; k >= 4; k -= 4) if (holds["w" k] == events) word = k
		print first, (place == "") ? "none" : place, (word == "") ? "none" : word
	}
' "$instance/trace")
# shellcheck disable=SC2086 # words are what is wanted
set -- $found -- "$@"
[ $# -gt 3 ] && [ "$1" != -- ] || die "no write was seen when a probe was armed: this kernel's __set_fixmap is not understood"
slot=$1 place=$2 word=$3
shift 4
case $place$word in *none*) die "address and word of a write were not found, by this build's compiler elsewhere or by others' writes: try again" ;; esac
# A literal has 64 bits, and its upper half where a writer of instructions has the word (the same frame, 6.12).
arguments="index=%x0:u32 page=%x1:x64 addr=$place:x64 old=+0($place):x32 next=+4($place):x32"
arguments="$arguments low=+$((word - 4))(%sp):x32 new=+$word(%sp):x32"
echo "-:$group/look" >>"$tracing/kprobe_events"
set_probe fixmap __set_fixmap "$arguments"
[ -d "$events/fixmap" ] || die "this kernel takes no probe on __set_fixmap with: $arguments"
# After each write the slot is cleared, with page 0: until then the word was written. Without it the end of a write is not known.
set_probe_quietly unmap __set_fixmap 'index=%x0:u32 phys=%x1:x64' || :

# ---- recording

echo 0 >"$instance/tracing_on"
echo >"$instance/trace"
set_buffer "$kib"
echo "index == $slot && page != 0" >"$events/fixmap/filter" || die "the filter of an event was refused"
[ ! -d "$events/unmap" ] || echo "index == $slot && phys == 0" >"$events/unmap/filter" || die "the filter of an event was refused"
catch_stop

# copy NAME: of the kernel's text, in whole pages.
text=$(kcore_offset "$stext")
pages=$((($(low "$etext") - $(low "$stext") + 4095) / 4096))
copy() {
	[ -n "$compare" ] || return 1
	if [ -z "$text" ]; then
		uncompared='/proc/kcore is not there, or has no text'
	elif grep -q kvm-arm.mode=protected /proc/cmdline 2>/dev/null; then
		# The text of nVHE is the hypervisor's then, and 6.12 panics when the host reads it (HYP panic).
		uncompared='this host runs with kvm-arm.mode=protected, and may panic if its text is read'
	elif ! dd if=/proc/kcore bs=4096 skip=$((text / 4096)) count=$pages of="$scratch/$1" 2>"$scratch/said"; then
		uncompared=$(head -n 1 "$scratch/said")
	else
		return 0
	fi
	compare=
}
uncompared='switched off (-n)'

# A reader that begins while the clock is one that is not in ns prints times as they are, also after the clock is changed
# back; otherwise it cuts them off to microseconds (kernel/trace/trace.c, tracing_open_pipe, 6.1 to 7.3).
echo counter >"$instance/trace_clock" || die "the clock of the trace cannot be set"
cat "$instance/trace_pipe" >"$scratch/events" 2>"$scratch/said" &
echo $! >"$scratch/reader"
# Waits until the events of before a mark are in the file.
wait_for() {
	mark "$1"
	until tail -n 20 "$scratch/events" | grep -q ": prologue $1$"; do
		kill -0 "$(cat "$scratch/reader")" 2>/dev/null || die "the events cannot be kept in $scratch: $(cat "$scratch/said")"
		sleep 1
	done
}
echo 1 >"$instance/tracing_on"
wait_for opened
echo local >"$instance/trace_clock" || die "the clock of the trace cannot be set"
echo 1 >"$events/fixmap/enable" || die "the probe on __set_fixmap cannot be armed"
# The kernel arms the others now, by writing to its text: these writes have to be seen.
for event in "$events"/*/; do
	echo 1 >"${event}enable" || die "a probe cannot be armed: ${event%/}"
done
mark armed
copy before
mark begin
run_meanwhile "$seconds" "$@"
mark end
copy after
wait_for last
echo 0 >"$instance/tracing_on"
echo 0 >"$events/enable"
kill "$(cat "$scratch/reader")" 2>/dev/null
rm "$scratch/reader"

