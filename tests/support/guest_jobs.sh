# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Jobs of the tests, after those of bench/prologue_bench/guest/jobs.sh, whose functions and variables they use.

# result WHAT COMMAND...: whether the command succeeded
result() {
	what=$1
	shift
	if "$@" >/tmp/error 2>&1; then
		emit result "\"what\": \"$what\", \"ok\": true"
	else
		emit result "\"what\": \"$what\", \"ok\": false, \"error\": $(quote "$(head -c 300 /tmp/error)")"
	fi
}

same() {
	[ "$(sha256sum <"$1")" = "$(sha256sum <"$2")" ]
}

# What each module is for, done for real; every check reads back what went through the module.
exercise_overlay() {
	rm -rf /tmp/ovl && mkdir -p /tmp/ovl/lower /tmp/ovl/upper /tmp/ovl/work /tmp/ovl/merged
	dd if=/dev/urandom of=/tmp/ovl/lower/file bs=4k count=16 2>/dev/null
	cp /tmp/ovl/lower/file /tmp/ovl/expected
	echo more >>/tmp/ovl/expected
	mount -t overlay overlay -o lowerdir=/tmp/ovl/lower,upperdir=/tmp/ovl/upper,workdir=/tmp/ovl/work /tmp/ovl/merged &&
		echo more >>/tmp/ovl/merged/file && same /tmp/ovl/merged/file /tmp/ovl/expected &&
		same /tmp/ovl/upper/file /tmp/ovl/expected && ! same /tmp/ovl/lower/file /tmp/ovl/expected
	status=$?
	umount /tmp/ovl/merged
	return $status
}

exercise_loop() {
	dd if=/dev/urandom of=/tmp/disk bs=64k count=8 2>/dev/null
	losetup /dev/loop0 /tmp/disk && same /dev/loop0 /tmp/disk
	status=$?
	losetup -d /dev/loop0
	return $status
}

exercise_brd() {
	dd if=/dev/urandom of=/tmp/block bs=64k count=8 2>/dev/null
	dd if=/tmp/block of=/dev/ram0 bs=64k conv=fsync 2>/dev/null && echo 3 >/proc/sys/vm/drop_caches &&
		dd if=/dev/ram0 of=/tmp/back bs=64k count=8 2>/dev/null && same /tmp/back /tmp/block
}

# trace_module NAME TRACER: only the functions of that module, while it works
trace_module() {
	echo 0 >$tracing/tracing_on
	echo >$tracing/trace
	echo ":mod:$1" >$tracing/set_ftrace_filter
	echo "$2" >$tracing/current_tracer || emit error "\"what\": \"$2 on $1\""
	echo 1 >$tracing/tracing_on
	result "$1 under $2" "exercise_$1"
	echo 0 >$tracing/tracing_on
	seen=$(entries 2000)
	echo nop >$tracing/current_tracer
	echo >$tracing/set_ftrace_filter
	emit module_traced "\"name\": \"$1\", \"tracer\": \"$2\", \"entries\": $seen"
}

# attempt WHAT EVENT-FILE TEXT: writes TEXT there; whether the kernel took it, and what it said if not
attempt() {
	what=$1 file=$2
	shift 2
	if echo "$*" 2>/tmp/error >>"$file"; then
		emit attempt "\"what\": \"$what\", \"error\": null"
	else
		emit attempt "\"what\": \"$what\", \"error\": $(quote "$(sed 's/.*: //' /tmp/error)")"
		return 1
	fi
}

# Where the kernel runs, and the list of what can be traced, in its order.
job_list() {
	emit place "\"stext\": \"$(sed -n 's/ [Tt] _stext$//p' /proc/kallsyms)\""
	emit list "\"count\": $(functions), \"sha256\": \"$(sha256sum <$tracing/available_filter_functions | cut -d' ' -f1)\""
}

# What ftrace said at boot: how many records, and how many prologues it took from the build; -1 if it did not say.
job_boot_log() {
	for what in 'entries=ftrace: allocating \([0-9]*\) entries' 'built=ftrace: build-time prologues: \([0-9]*\)'; do
		number=$(dmesg | sed -n "s/.*${what#*=}.*/\1/p")
		members="${members:+$members, }\"${what%%=*}\": ${number:--1}"
	done
	emit boot_log "$members"
}

# enabled: how many functions are traced now; -1 if ftrace is dead
enabled() {
	count=$(grep -c . $tracing/enabled_functions 2>/dev/null)
	echo "${count:--1}"
}

# Two tracers at once on everything, one of them in an instance of its own, on and off three times.
job_instance() {
	mkdir $tracing/instances/other
	for time in 1 2 3; do
		echo >$tracing/trace
		echo >$tracing/instances/other/trace
		echo 1 >$tracing/instances/other/tracing_on
		echo function >$tracing/instances/other/current_tracer
		echo function_graph >$tracing/current_tracer
		echo 1 >$tracing/tracing_on
		hackbench -g 1 -f 2 -l 20 >/dev/null
		echo 0 >$tracing/tracing_on
		echo 0 >$tracing/instances/other/tracing_on
		on=$(enabled)
		# Another tracer empties the buffer.
		seen=$(entries 2000)
		other=$(head -n 2000 $tracing/instances/other/trace | grep -vc '^#')
		echo nop >$tracing/current_tracer
		echo nop >$tracing/instances/other/current_tracer
		emit instance "\"entries\": $seen, \"other\": $other, \"on\": $on, \"off\": $(enabled)"
	done
	rmdir $tracing/instances/other
	echo 1 >$tracing/tracing_on
}

# Nothing was traced yet, if the command line asks for none of the kernel's own tests.
job_untraced() {
	held untraced
}

# The kernel was started with ftrace=function.
job_from_start() {
	tracer=$(cat $tracing/current_tracer)
	echo 0 >$tracing/tracing_on
	on=$(enabled)
	seen=$(entries 2000)
	held 'from the start'
	echo nop >$tracing/current_tracer
	emit from_start "\"tracer\": \"$tracer\", \"entries\": $seen, \"on\": $on, \"off\": $(enabled)"
}

# A kernel whose prologues were damaged: what it says when everything is to be traced, and whether it works on.
job_damaged() {
	echo function 2>/dev/null >$tracing/current_tracer
	hackbench -g 1 -f 2 -l 20 >/dev/null
	on=$(enabled)
	held damaged
	echo nop 2>/dev/null >$tracing/current_tracer
	hackbench -g 1 -f 2 -l 20 >/dev/null && alive=true || alive=false
	emit damaged "\"on\": $on, \"alive\": $alive, \"message\": $(quote "$(dmesg | sed -n 's/.*\(ftrace: \(no \|records are\|too many\).*\)/\1/p' | head -n 1)"), \"bugs\": $(dmesg | grep -cE 'ftrace bug|ftrace: failed to allocate')"
}

# Probes on every instruction of a function's entry, alone and while the function is traced.
job_kprobes() {
	name=$(parameter function vfs_read)
	for offset in $(parameter offsets '0 4'); do
		if attempt "kprobe $offset" $tracing/kprobe_events "p:at_$offset $name+$offset"; then
			echo 1 >$tracing/events/kprobes/at_$offset/enable
		fi
	done
	echo "$name" >$tracing/set_ftrace_filter
	for tracer in nop function; do
		echo $tracer >$tracing/current_tracer
		hackbench -g 1 -l 20 >/dev/null
		for offset in $(parameter offsets '0 4'); do
			hits=$(sed -n "s/^ *at_$offset  *\([0-9]*\) .*/\1/p" $tracing/kprobe_profile)
			emit kprobe "\"offset\": $offset, \"tracer\": \"$tracer\", \"hits\": ${hits:-0}"
		done
	done
	echo nop >$tracing/current_tracer
	echo >$tracing/set_ftrace_filter
	echo 0 >$tracing/events/kprobes/enable 2>/dev/null
	echo >$tracing/kprobe_events
}

# All sites, or those that toggled= matches, on and off again and again, while the machine works.
job_toggle() {
	set -f
	for glob in $(parameter toggled ''); do
		echo "$glob" >>$tracing/set_ftrace_filter
	done
	set +f
	start_bystanders
	start_load
	toggles=0
	while [ $toggles -lt "$(parameter toggles 50)" ]; do
		echo function >$tracing/current_tracer && echo nop >$tracing/current_tracer || break
		toggles=$((toggles + 1))
	done
	stop_load toggle "\"toggles\": $toggles"
	stop_bystanders
	echo >$tracing/set_ftrace_filter
}

# direct_calls TRACER: how many calls of wake_up_process() the sample module's own trampoline sees
direct_calls() {
	echo "$1" >$tracing/current_tracer
	echo >$tracing/trace
	echo 1 >$tracing/tracing_on
	hackbench -g 1 -l 20 >/dev/null
	echo 0 >$tracing/tracing_on
	emit direct "\"tracer\": \"$1\", \"calls\": $(grep -c 'waking up' $tracing/trace)"
	echo nop >$tracing/current_tracer
}

# samples/ftrace/ftrace-direct.c, alone and while the same function is traced
job_direct() {
	result 'load ftrace-direct' insmod /modules/*-ftrace-direct.ko
	direct_calls nop
	echo wake_up_process >$tracing/set_ftrace_filter
	direct_calls function
	echo >$tracing/set_ftrace_filter
	result 'unload ftrace-direct' rmmod ftrace_direct
}

job_modules() {
	names=
	for file in /modules/*.ko; do
		case $file in *-ftrace-direct.ko | *-livepatch-sample.ko) continue ;; esac
		name=$(basename "$file" .ko | cut -d- -f2- | tr - _)
		if insmod "$file" 2>/tmp/error; then
			names="$name $names"
			emit module "\"name\": \"$name\", \"loaded\": true, \"functions\": $(grep -c "\[$name\]" $tracing/available_filter_functions)"
		else
			emit module "\"name\": \"$name\", \"loaded\": false, \"error\": $(quote "$(cat /tmp/error)")"
		fi
	done
	for name in $names; do
		result "$name untraced" "exercise_$name"
		trace_module "$name" function
		trace_module "$name" function_graph
	done
	for name in $names; do
		result "unload $name" rmmod "$name"
	done
}

# livepatch_settled VALUE: waits until the patch is on (1) or off (0) for all tasks
livepatch_settled() {
	patch=/sys/kernel/livepatch/livepatch_sample
	for try in $(seq 600); do
		[ "$(cat $patch/enabled 2>/dev/null || echo 0)" = "$1" ] &&
			[ "$(cat $patch/transition 2>/dev/null || echo 0)" = 0 ] && return
		sleep 0.1
	done
	emit error "\"what\": \"livepatch: no transition to $1 within 60 s\""
}

# samples/livepatch/livepatch-sample.c, alone and while the function that it replaces is traced. While it is on,
# /proc/cmdline says something else: no parameter can be read.
job_livepatch() {
	result 'load livepatch-sample' insmod /modules/*-livepatch-sample.ko
	livepatch_settled 1
	echo cmdline_proc_show >$tracing/set_ftrace_filter
	for tracer in nop function; do
		echo $tracer >$tracing/current_tracer
		emit livepatch "\"tracer\": \"$tracer\", \"patched\": $(grep -c 'live patched' /proc/cmdline)"
	done
	echo nop >$tracing/current_tracer
	echo >$tracing/set_ftrace_filter
	held livepatch
	echo 0 >/sys/kernel/livepatch/livepatch_sample/enabled
	livepatch_settled 0
	result 'unload livepatch-sample' rmmod livepatch_sample
	emit livepatch "\"tracer\": \"unloaded\", \"patched\": $(grep -c 'live patched' /proc/cmdline)"
}

# Every mechanism that writes text, while the machine works: modules come and go, tracers, kprobes on every Nth
# function that can be traced, a static key.
job_text() {
	start_bystanders
	start_load
	names=
	for file in /modules/*.ko; do
		[ -e "$file" ] || continue
		name=$(basename "$file" .ko | cut -d- -f2- | tr - _)
		if insmod "$file" 2>/tmp/error; then
			names="$name $names"
		else
			emit error "\"what\": $(quote "$name: $(cat /tmp/error)")"
		fi
	done
	cycle=0
	while [ $cycle -lt "$(parameter cycles 2)" ]; do
		trace_once function || break
		trace_once function_graph || break
		cycle=$((cycle + 1))
	done
	cut -d' ' -f1 $tracing/available_filter_functions | awk "NR % $(parameter step 200) == 0" |
		head -n "$(parameter kprobes 200)" | while read -r function; do
		echo "p:k_$function $function" >>$tracing/kprobe_events
	done 2>/dev/null
	echo 1 >$tracing/events/kprobes/enable
	sleep 0.5
	emit kprobes "\"set\": $(grep -c . $tracing/kprobe_events)"
	echo 0 >$tracing/events/kprobes/enable
	echo >$tracing/kprobe_events
	echo 1 >/proc/sys/kernel/sched_schedstats
	echo 0 >/proc/sys/kernel/sched_schedstats
	for name in $names; do
		rmmod "$name" 2>/tmp/error || emit error "\"what\": $(quote "$(cat /tmp/error)")"
	done
	emit text "\"modules\": $(echo "$names" | wc -w)"
	stop_load load
	stop_bystanders
}

# held STATE: waits for a line on the console, which says that memory has been looked at from outside
held() {
	sleep 0.5
	emit held "\"state\": \"$1\", \"tracer\": \"$(cat $tracing/current_tracer)\", \"kprobes\": $(grep -c . $tracing/kprobe_events)"
	read -r -t 300 answer || emit error '"what": "no answer from outside for 300 s"'
}

# States of the kernel's text for a look from outside; the probe is on a first slot.
job_states() {
	echo 0 >$tracing/tracing_on
	held idle
	attempt 'kprobe for a look' $tracing/kprobe_events "p:held $(parameter function vfs_read)+$(parameter first 0)" &&
		echo 1 >$tracing/events/kprobes/held/enable
	for tracer in function function_graph; do
		echo $tracer >$tracing/current_tracer || emit error "\"what\": \"$tracer\""
		held $tracer
	done
	echo nop >$tracing/current_tracer
	echo 0 >$tracing/events/kprobes/enable
	echo >$tracing/kprobe_events
	held after
	echo 1 >$tracing/tracing_on
}

# What the kernel's own tests said at boot (CONFIG_FTRACE_STARTUP_TEST).
job_startup_tests() {
	emit startup_tests "\"passed\": $(dmesg | grep -c PASSED), \"failed\": $(quote "$(dmesg | grep -E 'FAILED|failed!')")"
}

# The kernel's self-test of its prologues, and what runs it, lie in /ftrace.
job_selftest() {
	(cd /ftrace && mkdir -p logs && sh ./ftracetest test.d/ftrace/func_arm64_prologue.tc) >/tmp/selftest 2>&1
	emit selftest "\"outcome\": $(quote "$(grep -oE '\[(PASS|FAIL|UNRESOLVED|UNTESTED|UNSUPPORTED|XFAIL)\]' /tmp/selftest)")"
}
