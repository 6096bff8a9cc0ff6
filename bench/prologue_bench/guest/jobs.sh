# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The guest's jobs, job_NAME each, and what several of them do. init reads this; emit, quote, parameter and $tracing are its.

# entries LIMIT: how many trace entries there are, at most LIMIT; tracing must be off, or reading never ends
entries() {
	head -n "$1" $tracing/trace | grep -vc '^#'
}

# trace_once TRACER: swing every site, let it run, look, swing back
trace_once() {
	echo 0 >$tracing/tracing_on
	echo >$tracing/trace
	if ! echo "$1" 2>/tmp/error >$tracing/current_tracer; then
		emit error "\"what\": $(quote "$1: $(cat /tmp/error)")"
		return 1
	fi
	echo 1 >$tracing/tracing_on
	sleep 0.3
	echo 0 >$tracing/tracing_on
	seen=$(entries 2000)
	echo nop >$tracing/current_tracer
	emit traced "\"tracer\": \"$1\", \"entries\": $seen"
}

# start_load: hackbench again and again until stop_load
start_load() {
	rm -f /tmp/stop /tmp/load-ran /tmp/load-failed
	while [ ! -e /tmp/stop ]; do
		# Four tasks: with the usual eighty, the one that swings the sites would wait for all of them.
		hackbench -g 1 -f 2 -l 200 >/tmp/load-log 2>&1 || echo failed >>/tmp/load-failed
		echo ran >>/tmp/load-ran
	done &
	loader=$!
}

# stop_load EVENT [MEMBERS]: waits, and says how often it ran
stop_load() {
	touch /tmp/stop
	wait $loader
	emit "$1" "${2:+$2, }\"runs\": $(grep -c . /tmp/load-ran), \"failed\": $(cat /tmp/load-failed 2>/dev/null | grep -c .), \"last\": $(quote "$(tail -n 1 /tmp/load-log)")"
}

# Two more tracers, on a function that is never called, for jobs that start and stop tracing under load. With a single one
# ftrace_call calls that one's function, and takes its argument from function_trace_op: while they are exchanged, a CPU
# may use the one with the other's, a NULL pointer (6.1, arch/arm64/kernel/entry-ftrace.S, ftrace_common; kernels with
# CALL_OPS have it no more). A virtual CPU that its host lets wait is slow enough for that, processed kernel or not.
start_bystanders() {
	for name in one two; do
		mkdir $tracing/instances/$name
		echo kernel_halt >$tracing/instances/$name/set_ftrace_filter
		echo function >$tracing/instances/$name/current_tracer
	done
}

stop_bystanders() {
	for name in one two; do
		echo nop >$tracing/instances/$name/current_tracer
		rmdir $tracing/instances/$name
	done
}

job_smoke() { :; }

job_ftrace_cycle() {
	cycles=$(parameter cycles 10)
	start_bystanders
	start_load
	cycle=0
	while [ $cycle -lt "$cycles" ]; do
		trace_once function || break
		trace_once function_graph || break
		cycle=$((cycle + 1))
	done
	stop_load load
	stop_bystanders
}

job_trace_one() {
	function=$(parameter function vfs_read)
	echo "$function" >$tracing/set_ftrace_filter
	echo function >$tracing/current_tracer
	echo 1 >$tracing/tracing_on
	hackbench -g 1 -l 10 >/dev/null
	echo 0 >$tracing/tracing_on
	head -n 40 $tracing/trace | grep -v '^#' | head -n 5 | while read -r line; do
		emit entry "\"line\": $(quote "$line")"
	done
	emit traced "\"tracer\": \"function\", \"entries\": $(head -n 2000 $tracing/trace | grep -v '^#' | grep -cF "$function")"
	echo nop >$tracing/current_tracer
	echo >$tracing/set_ftrace_filter
}

# One function traced, so that it can be looked at from outside.
job_hold() {
	echo "$(parameter function vfs_read)" >$tracing/set_ftrace_filter
	echo function >$tracing/current_tracer
	emit held
	sleep "$(parameter seconds 60)"
	echo nop >$tracing/current_tracer
	echo >$tracing/set_ftrace_filter
}

# The recorder, whose lines go to a virtio port of our own and not to the console, where the kernel prints too.
job_record() {
	for file in /modules/*.ko; do
		[ -e "$file" ] || continue
		if ! insmod "$file" 2>/tmp/error; then
			emit error "\"what\": $(quote "$(cat /tmp/error)")"
			return
		fi
	done
	# The port gets its name from the host some time after the driver is loaded.
	for try in $(seq 100); do
		for port in /sys/class/virtio-ports/*; do
			if [ "$(cat "$port/name" 2>/dev/null)" = prologue.results ]; then
				# stdout is the port, stderr stays here
				sh /record.sh >"/dev/${port##*/}"
				return
			fi
		done
		sleep 0.1
	done
	emit error '"what": "no virtio port prologue.results: the kernel has no driver for it (virtio_mmio, virtio_console)"'
}
