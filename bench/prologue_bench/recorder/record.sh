# SPDX-License-Identifier: GPL-2.0-only
#
# Does one task on the machine it runs on and prints what it saw: lines of "@prologue " and one JSON object. Needs a
# POSIX shell, sed, grep, head, tail, tr, cut, od, dd, date, uname, sleep and wc; dmesg if there is one. Writes no file,
# except with counters (count.sh, which stands before this).
#
# Before this come assignments: plan (the task as JSON), label, runs, workloads, sites, stub, governor, and command_N and
# extract_N (a sed script, empty for wall time) for each workload.

LC_ALL=C
export LC_ALL
PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin
unset KBUILD_OUTPUT KBUILD_EXTMOD MAKEFLAGS MFLAGS # kernel-build cleans and builds in its own tree, nowhere else
label=${LABEL:-$label}
proc=${PROLOGUE_ROOT-}/proc # tests put a tree of their own here
sys=${PROLOGUE_ROOT-}/sys
newline='
'

# emit EVENT [MEMBERS]: one line
emit() {
	printf '@prologue {"event": "%s"%s}\n' "$1" "${2:+, $2}"
}

# quote TEXT: as a JSON string, bytes outside of printable ASCII as the code points of Latin-1
odd='*[!] -!#-[^-~]*'
quote() {
	case $1 in
	$odd) printf '"%s"' "$(printf %s "$1" | od -A n -v -t x1 | tr -d ' \n' | sed 's/../\\u00&/g')" ;;
	*) printf '"%s"' "$1" ;;
	esac
}

# quote_or_null TEXT: null if it is empty
quote_or_null() {
	if [ -n "$1" ]; then quote "$1"; else printf null; fi
}

# strings: lines of standard input as a JSON list
strings() {
	comma=
	printf '['
	while read -r line; do
		printf '%s%s' "$comma" "$(quote "$line")"
		comma=', '
	done
	printf ']'
}

# first FILE: its first line, without what ends a device-tree string
first() {
	[ -e "$1" ] && tr '\000' ' ' 2>/dev/null <"$1" | sed 's/ *$//; q'
}

# number FILE: what it holds if that is a whole number, else null
number() {
	value=$(first "$1")
	case $value in '' | *[!0-9]*) value=null ;; esac
	printf %s "$value"
}

# distinct FILE...: their different first lines
distinct() {
	seen=$newline
	for file; do
		{ read -r value <"$file"; } 2>/dev/null || continue
		case $seen in *"$newline$value$newline"*) ;; *) printf '%s\n' "$value" && seen=$seen$value$newline ;; esac
	done
}

# highest FILE...: the largest number in them, else null
highest() {
	max=null
	for file; do
		{ read -r value <"$file"; } 2>/dev/null || continue
		case $value in '' | *[!0-9]*) continue ;; esac
		if [ "$max" = null ] || [ "$value" -gt "$max" ]; then max=$value; fi
	done
	printf %s "$max"
}

# ---- time ----

# A clock that cannot be set comes first: a board without a battery gets its date from the network some time after boot.
now() {
	case $clock in
	timer_list) sed -n 's/^now at \([0-9]*\) nsecs.*/\1/p; 4q' "$proc/timer_list" 2>/dev/null ;;
	date) date +%s%N ;;
	uptime)
		read -r up rest <"$proc/uptime"
		echo $((${up%.*} * 1000000000 + 1${up#*.} * 10000000 - 1000000000))
		;;
	esac
}

# Of date that is 18 digits and more: some know only seconds.
find_clock() {
	for clock in timer_list date uptime; do
		case $clock:$(now) in *:*[!0-9]*) ;; timer_list:??????????* | date:??????????????????*) return ;; esac
	done
}

# ---- the machine ----

describe() {
	midr=
	for file in "$sys"/devices/system/cpu/cpu[0-9]*/regs/identification/midr_el1; do
		{ read -r value <"$file"; } 2>/dev/null && midr="$midr${midr:+ }${value#0x}"
	done
	model=$(first "$proc/device-tree/model")
	dmi=$sys/class/dmi/id
	kvm=no
	if dmesg 2>/dev/null | grep -q 'KVM: hypervisor services detected' ||
		grep -q '^KVM' "$sys"/class/ptp/ptp*/clock_name 2>/dev/null; then
		kvm=yes
	fi
	printf '"label": %s, "task": %s, ' "$(quote "$label")" "$plan"
	printf '"release": %s, "boot_id": %s, ' "$(quote "$(uname -r)")" "$(quote "$(first "$proc/sys/kernel/random/boot_id")")"
	printf '"arch": %s, "cpus": %s, "midr": "%s", ' \
		"$(quote "$(uname -m)")" "$(quote "$(first "$sys/devices/system/cpu/online")")" "$midr"
	printf '"model": %s, "vendor": %s, ' \
		"$(quote "${model:-$(first "$dmi/product_name")}")" "$(quote "$(first "$dmi/sys_vendor")")"
	printf '"compatible": %s, "hypervisor": %s, "kvm": "%s", ' "$(quote "$(first "$proc/device-tree/compatible")")" \
		"$(quote "$(first "$sys/hypervisor/type")")" "$kvm"
	printf '"host": %s, ' "$(quote "$(first "$proc/sys/kernel/hostname")")"
	printf '"memory": %s, ' "$(quote "$(sed -n 's/^MemTotal: *//p' "$proc/meminfo" 2>/dev/null)")"
	[ -z "$counter" ] || printf '"counters": "per run", '
	printf '"started": "%s", "clock": "%s"' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$clock"
}

# ---- read-back ----

# The GNU build-id among the notes: each is name size, description size, type, name and description, padded to 4 bytes.
build_id() {
	set -- $(od -A n -v -t x1 "$sys/kernel/notes")
	while [ $# -gt 16 ]; do
		named=$(((0x$4$3$2$1 + 3) / 4 * 4)) size=$((0x$8$7$6$5)) type=$9
		shift 12
		owner=$1$2$3$4
		shift "$named"
		if [ "$type$owner" = 03474e5500 ]; then
			while [ $size -gt 0 ]; do
				printf %s "$1"
				size=$((size - 1))
				shift
			done
			return
		fi
		shift $(((size + 3) / 4 * 4))
	done
}

# Where _stext is: an address, or zeros for those who may not know.
stext() {
	sed -n '/ [Tt] _stext$/{s/ .*//p; q;}' "$proc/kallsyms"
}

# position ADDRESS: where /proc/kcore has it. Addresses have 64 bits and a shell's numbers 63, so that the first digit,
# always f, is left out.
position() {
	set -- "$1" $(dd if="$proc/kcore" bs=8 skip=8 count=$((7 * 64)) 2>/dev/null | od -A n -v -t x8)
	address=$1
	shift
	count=$(dd if="$proc/kcore" bs=8 skip=7 count=1 2>/dev/null | od -A n -t u2 | sed 's/^ *\([0-9]*\).*/\1/')
	# type and flags, offset, address, physical address, size in the file, in memory, alignment
	while [ "$count" -gt 0 ] && [ $# -ge 7 ]; do
		case $1:$3 in
		*00000001:f*)
			distance=$((0x${address#f} - 0x${3#f}))
			if [ $distance -ge 0 ] && [ $distance -lt $((0x$5)) ]; then
				echo $((0x$2 + distance))
				return
			fi
			;;
		esac
		count=$((count - 1))
		shift 7
	done
}

# The words at the sites, or why they cannot be read in $unread.
read_sites() {
	unread=
	if [ -z "$sites" ]; then
		unread='no sites were asked for'
	elif ! address=$(stext 2>/dev/null); then
		unread='no /proc/kallsyms: a kernel without CONFIG_KALLSYMS'
	elif [ -z "$address" ]; then
		unread='no _stext in /proc/kallsyms'
	elif [ -z "$(echo "$address" | tr -d 0)" ]; then
		unread='/proc/kallsyms shows no addresses: not root, or kptr_restrict is 2'
	elif ! [ -e "$proc/kcore" ]; then
		unread='no /proc/kcore: a kernel without CONFIG_PROC_KCORE'
	elif ! dd if="$proc/kcore" bs=8 count=1 >/dev/null 2>&1; then
		unread='/proc/kcore cannot be read: not root, or the kernel is locked down'
	else
		start=$(position "$address" 2>/dev/null)
		if [ -z "$start" ]; then
			unread='no segment of /proc/kcore holds _stext'
			return
		fi
		words=$(words_at $sites)
		stub_words=$(words_at $stub | tr -s ' \n' ' ')
	fi
}

# words_at OFFSET...: the words there, counted from _stext
words_at() {
	for offset; do
		dd if="$proc/kcore" bs=4 skip=$(((start + offset) / 4)) count=1 2>/dev/null
	done | od -A n -v -t x4
}

readback() {
	id=$(build_id 2>/dev/null)
	read_sites
	if [ -n "$unread" ]; then
		emit readback "\"build_id\": \"$id\", \"unread\": $(quote "$unread")"
		return
	fi
	mov=0 nop=0 other=
	set -- $sites
	asked=$#
	for word in $words; do
		case $word in
		aa1e03e9) mov=$((mov + 1)) ;;
		d503201f) nop=$((nop + 1)) ;;
		*) other="$other$1: $word$newline" ;;
		esac
		shift
	done
	if [ $# -gt 0 ]; then
		unread="/proc/kcore gave $((asked - $#)) of $asked words"
	fi
	emit readback "\"build_id\": \"$id\", \"unread\": $(quote_or_null "$unread"), \"sites\": $asked, \
\"mov\": $mov, \"nop\": $nop, \"other\": $(printf %s "$other" | head -n 8 | strings), \"stub\": $(quote "$stub_words")"
}

# ---- the gate ----

cpufreq=$sys/devices/system/cpu/cpufreq
saved='' refused='' last_number=0 last_message=''

set_governor() {
	[ -n "$governor" ] || return 0
	for file in "$cpufreq"/policy*/scaling_governor; do
		if ! { read -r old <"$file"; } 2>/dev/null; then
			refused="${refused}no CPU has a governor$newline"
			continue
		fi
		[ "$old" = "$governor" ] && continue
		saved="$saved$old $file$newline"
		{ echo "$governor" >"$file"; } 2>/dev/null
		read -r new <"$file"
		[ "$new" = "$governor" ] || refused="$refused${file#"$cpufreq"/}: stays $new$newline"
	done
}

restore_governor() {
	printf %s "$saved" | while read -r old file; do
		{ echo "$old" >"$file"; } 2>/dev/null
	done
	saved=
}

limits() {
	comma=
	printf '['
	for policy in "$cpufreq"/policy*; do
		[ -e "$policy/scaling_max_freq" ] || continue
		printf '%s{"policy": "%s", "min": %s, "max": %s, "hardware_min": %s, "hardware_max": %s}' "$comma" "${policy##*/}" \
			"$(number "$policy/scaling_min_freq")" "$(number "$policy/scaling_max_freq")" \
			"$(number "$policy/cpuinfo_min_freq")" "$(number "$policy/cpuinfo_max_freq")"
		comma=', '
	done
	printf ']'
}

# The highest state of whatever slows CPUs down to cool them; a fan is no harm.
cooling() {
	set --
	for device in "$sys"/class/thermal/cooling_device*; do
		case $(first "$device/type") in *cpufreq* | *idle* | Processor*) set -- "$@" "$device/cur_state" ;; esac
	done
	highest "$@"
}

# The first 16 digits of a file's SHA-256; nothing if it cannot be read, or the machine has no sha256sum.
digest() {
	[ -r "$1" ] && sha256sum <"$1" 2>/dev/null | cut -c 1-16
}

# The kernel's command line without what names the boot: the variant's file, and a mark of QEMU's guest.
command_line() {
	words=
	set -f
	for word in $(first "$proc/cmdline"); do
		case $word in BOOT_IMAGE=* | initrd=* | prologue.token=*) ;; *) words="$words $word" ;; esac
	done
	set +f
	printf %s "${words# }"
}

vulnerabilities() {
	for file in "$sys"/devices/system/cpu/vulnerabilities/*; do
		[ ! -r "$file" ] || echo "${file##*/}: $(first "$file")"
	done
}

firmware() {
	words=
	for file in "$sys"/class/dmi/id/bios_vendor "$sys"/class/dmi/id/bios_version "$sys"/class/dmi/id/bios_date \
		"$proc"/device-tree/chosen/u-boot,version "$proc"/device-tree/model; do
		value=$(first "$file")
		words="$words${value:+${words:+ }$value}"
	done
	printf %s "$words"
}

# The programs that the workloads begin with, each with its digest.
programs() {
	index=0
	while [ $index -lt "$workloads" ]; do
		set -f
		eval "set -- \$command_$index"
		set +f
		program=$(command -v "$1" 2>/dev/null)
		case $program in /*) echo "$1 $(digest "$program")" ;; esac
		index=$((index + 1))
	done
}

# What the cores of each policy run at, in kHz: by the counters of the CPU, by the firmware, or as the kernel believes.
frequencies() {
	comma=
	printf '['
	for policy in "$cpufreq"/policy*; do
		[ -e "$policy/scaling_max_freq" ] || continue
		value=null
		for name in cpuinfo_avg_freq cpuinfo_cur_freq scaling_cur_freq; do
			[ "$value" != null ] || value=$(number "$policy/$name")
		done
		printf '%s%s' "$comma" "$value"
		comma=', '
	done
	printf ']'
}

# What else decides how fast this kernel runs here; null, or empty, if nothing says it
settings() {
	printf '"command_line": %s, "vulnerabilities": %s, ' "$(quote_or_null "$(command_line)")" "$(vulnerabilities | strings)"
	printf '"randomize_va_space": %s, "huge_pages": %s, ' "$(number "$proc/sys/kernel/randomize_va_space")" \
		"$(quote_or_null "$(first "$sys/kernel/mm/transparent_hugepage/enabled")")"
	printf '"compiler": %s, ' "$(quote_or_null "$(sed -n 's/^Linux version [^ ]* ([^ ]*) (\(.*\)) #.*/\1/p' "$proc/version" 2>/dev/null)")"
	printf '"config": %s, "firmware": %s, ' "$(quote_or_null "$(digest "$proc/config.gz")")" \
		"$(quote_or_null "$(firmware)")"
	memory=$(sed -n 's/^MemTotal: *\([0-9]*\) kB$/\1/p' "$proc/meminfo" 2>/dev/null)
	printf '"memory": %s, "programs": %s' "${memory:-null}" "$(programs | strings)"
}

# CPU time that was not idle since boot, in 1/100 s: user, nice, system, interrupts, and what a host took
ticks() {
	{ read -r cpu user nice kernel idle wait irq soft stolen rest <"$proc/stat"; } 2>/dev/null || return
	echo $((user + nice + kernel + irq + soft + stolen))
}

# How much others use the CPUs, in percent of one: the load average still shows what was before.
busy() {
	then=$(now)
	used=$(ticks)
	[ -n "$used" ] || { printf null && return; }
	sleep 1
	used=$(($(ticks) - used))
	printf %s $((used * 1000000000 / ($(now) - then)))
}

# The same, once the services that a boot starts have come to rest: asked for half a minute at most.
settle() {
	tries=30
	[ "$runs" -gt 0 ] || tries=1
	while used=$(busy) && [ $((tries -= 1)) -gt 0 ] && [ "$used" != null ] && [ "$used" -gt 50 ]; do :; done
	printf %s "$used"
}

# Which lines of the kernel's log are new: those after the one that was last, all if that is gone. The log loses lines
# only at its head: the same words further down, which without printk's times are no wonder, are another line.
new_messages() {
	old=$(dmesg 2>/dev/null | head -n "$last_number" | grep -n -x -F -e "$last_message" | tail -n 1 | cut -d : -f 1)
	dmesg 2>/dev/null | tail -n +$((${old:-0} + 1))
}
alarming='WARNING|BUG:|Oops|Internal error|Call trace|[Tt]hrottl|rcu.*stall|lockup|blocked for more than|[Uu]nder-?voltage det|Out of memory'

# gate WHEN
gate() {
	boost=$(number "$cpufreq/boost")
	case $(first "$sys/devices/system/cpu/intel_pstate/no_turbo") in 0) boost=1 ;; 1) boost=0 ;; esac
	messages=null warnings='[]'
	if dmesg >/dev/null 2>&1; then
		[ "$1" = before ] || warnings=$(new_messages | grep -E "$alarming" | head -n 8 | strings)
		messages=$(($(dmesg | wc -l)))
		last_number=$messages
		last_message=$(dmesg | head -n "$last_number" | tail -n 1)
	fi
	used=null speeds='[]'
	if [ "$1" = after ]; then speeds=$(frequencies); else used=$(settle); fi
	emit gate "\"when\": \"$1\", \"busy\": $used, \
\"governors\": $(distinct "$cpufreq"/policy*/scaling_governor | strings), \
\"governor_refused\": $(printf %s "$refused" | strings), \
\"boost\": $boost, \"limits\": $(limits), \"frequencies\": $speeds, $(settings), \
\"temperature\": $(highest "$sys"/class/thermal/thermal_zone*/temp), \"cooling\": $(cooling), \
\"load\": $(quote "$(first "$proc/loadavg" | cut -d ' ' -f 1)"), \"taint\": $(number "$proc/sys/kernel/tainted"), \
\"messages\": $messages, \"warnings\": $warnings, \
\"online\": $(quote "$(first "$sys/devices/system/cpu/online")"), \
\"affinity\": $(quote "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$proc/self/status" 2>/dev/null)"), \
\"midr\": $(distinct "$sys"/devices/system/cpu/cpu[0-9]*/regs/identification/midr_el1 | strings), \
\"perf\": $(command -v perf >/dev/null && echo true || echo false), \
\"unread\": $(quote_or_null "$unread")"
}

# ---- the work ----

# measure RUN INDEX COMMAND EXTRACT
measure() {
	begin=$(now)
	# The braces: bash complains of NUL bytes, which it leaves out.
	{
		output=$($runner "$3" </dev/null 2>&1)
		status=$?
	} 2>/dev/null
	taken=$(($(now) - begin))
	if [ -n "$4" ]; then
		value=$(printf '%s\n' "$output" | sed -n "$4" | tail -n 1)
	else
		value=$(printf '%d.%09d' $((taken / 1000000000)) $((taken % 1000000000)))
	fi
	why=
	if [ $status -ne 0 ]; then
		why="exit status $status"
	elif [ -z "$value" ]; then
		why='nothing matched the pattern'
	elif ! printf '%s\n' "$value" | grep -q '^[0-9]*\.\{0,1\}[0-9][0-9]*\([eE][-+]\{0,1\}[0-9][0-9]*\)\{0,1\}$'; then
		why="no number: $value"
	fi
	if [ -z "$why" ]; then
		read_counters
		emit value "\"run\": $1, \"workload\": $2, \"value\": \"$value\"$counted"
	else
		last=$(printf '%s\n' "$output" | sed -n '/[^[:space:]]/h; ${g; p;}' | cut -b 1-300)
		emit failed "\"run\": $1, \"workload\": $2, \"why\": $(quote "$why"), \"status\": $status, \"last\": $(quote "$last")"
	fi
}

# A signal is seen once the command that is running has ended. Each restores by itself: bash 5.2 may leave out the trap
# on EXIT when a signal ends a command substitution.
restore() {
	restore_governor
	end_counting
}
trap restore EXIT
trap 'restore; exit 129' HUP
trap 'restore; exit 130' INT
trap 'restore; exit 141' PIPE
trap 'restore; exit 143' TERM

find_clock
emit begin "$(describe)"
readback
begin_counting
if [ -n "$uncounted" ]; then
	emit uncounted "\"why\": $(quote "$uncounted")"
	exit 0
fi
set_governor
gate before
run=1
while [ $run -le "$runs" ]; do
	index=0
	while [ $index -lt "$workloads" ]; do
		eval "measure $run $index \"\$command_$index\" \"\$extract_$index\""
		index=$((index + 1))
	done
	run=$((run + 1))
done
gate after
restore
emit end
