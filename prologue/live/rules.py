"""Group PL5, rules of what runs: audits, hooks and recorded writes are judged elsewhere, so these have no ``check``.

``prologue.live.audit.run`` makes findings of PL501 to PL505 and PL508, ``prologue.live.hooks`` of PL509 to PL512,
PL514 and PL515, ``prologue.live.pokes.violations`` of PL506, PL507 and PL513.
"""

from __future__ import annotations

from typing import Final

from prologue.insn.cmodx import CITATION
from prologue.rules.base import Rule

PL501: Final = Rule(
    code="PL501",
    slug="live-first-slot-not-mov",
    severity="error",
    inputs=("C",),
    what="On a running kernel, a first slot that does not hold `MOV X9, X30`.",
    why="The site can be traced at any time: BL in the second slot overwrites X30, and without the MOV the return "
    "address is lost. A NOP there means that `ftrace_init` failed or never saw the record; anything else was "
    "written by code that does not know of ftrace.",
    example="first slot of vfs_read holds NOP although the kernel has booted",
    fix="look for `ftrace bug` in the kernel log; do not trace this kernel until it has been booted again",
    citation='kernel arch/arm64/kernel/ftrace.c "ftrace_init_nop" (6.1-7.2)',
    words=(0xD503201F, 0x94000400),
)
PL502: Final = Rule(
    code="PL502",
    slug="live-call-target-unknown",
    severity="error",
    inputs=("C",),
    what="On a running kernel, a second slot (or `ftrace_call`) that calls what ftrace does not know: neither "
    "`ftrace_caller` (`ftrace_regs_caller`), nor the PLT entry of a module for it, nor the direct trampoline "
    "of the `ftrace_ops` that the site belongs to.",
    why="Every call of that function runs foreign code first. This is how code hooks a function without ftrace.",
    example="second slot of vfs_read: BL to an address in a module that registered nothing with ftrace",
    fix="find out what is at the target; take a dump for evidence, and boot the machine from a known image",
    citation='kernel arch/arm64/kernel/ftrace.c "ftrace_find_callable_addr", "ftrace_update_ftrace_func" (6.1-7.2)',
    words=(0xAA1E03E9, 0x94123456),
)
PL503: Final = Rule(
    code="PL503",
    slug="live-text-unexplained",
    severity="error",
    inputs=("C",),
    what="A word of running text that differs from the vmlinux (or the module) and that no mechanism of the kernel "
    "owns. Words that follow each other are one finding, and so are pages of zeros that follow each other, whichever "
    "mechanism owns their words.",
    why="The kernel changes its text in a known number of ways, each with a table that says where. A word in no "
    "table was changed by something else: an intruder, a tool, a hardware error, or a mechanism that this "
    "version of prologue does not know. A page of zeros was wiped, or could not be read.",
    example="vfs_read+0x40 holds B to an address outside of the kernel; the vmlinux has LDR there",
    fix="find out who wrote there; if a part of the kernel did, report it as a gap of prologue with the kernel release",
    citation='prologue help live.md "What an audit knows"',
    words=(0x14000400,),
)
PL504: Final = Rule(
    code="PL504",
    slug="live-unstable",
    severity="warn",
    inputs=("C",),
    what="A word of running text that still changed after it had been read several times.",
    why="Nothing can be said of such a word: it may be half of a change. Switching tracers on and off does this, "
    "and is harmless.",
    example="second slot of schedule alternates between NOP and BL while a tracer is started and stopped",
    fix="audit again while no tracers or probes are switched, or take a dump of the stopped machine",
    citation='prologue help live.md "What can go wrong"',
)
PL505: Final = Rule(
    code="PL505",
    slug="kcore-wrong-kernel",
    severity="fatal",
    inputs=("C",),
    what="Memory whose kernel has another build-id than the vmlinux, or whose text is not where the slide of KASLR "
    "says. Nothing else is judged then, and the exit code is 2.",
    why="Compared with another build, or at another slide, every word is wrong or, worse, right by accident.",
    example="a vmcore of yesterday's kernel and the vmlinux of today's build",
    fix="take the vmlinux of the very build that runs (Debian: the package linux-image-...-dbg of that version)",
    citation='kernel kernel/vmcore_info.c "BUILD-ID", "KERNELOFFSET" (6.12); kernel/crash_core.c (6.1)',
)
PL506: Final = Rule(
    code="PL506",
    slug="live-write-without-maintenance",
    severity="error",
    inputs=("W",),
    what="A write to an instruction while another CPU could be executing it, after which the writer returned without "
    "all of: clean the data cache to the point of unification, DSB, invalidate the instruction cache, DSB, ISB; the "
    "first and the third for the line of what was written. Or an instruction that is on no list, and that a CPU "
    "executed for the first time after the write without an ISB or an exception return in between.",
    why="Instruction fetches do not look into the data cache, and instruction caches keep what they have: a CPU may go "
    "on executing the old instruction for any time. CTR_EL0.IDC makes the clean needless, and DIC the invalidation. "
    "What another CPU has fetched already, only that CPU can discard: it must synchronise its own context.",
    example="jump label: NOP became B, followed by DC CVAU and DSB only",
    fix="write text through aarch64_insn_patch_text_nosync(), or call caches_clean_inval_pou() for what was written; "
    "kick_all_cpus_sync() synchronises the other CPUs",
    citation='Arm ARM DDI 0487, "Synchronization and coherency issues between data and instruction accesses" (B2.2.5 '
    "or B2.4.4, numbers move), and CTR_EL0.IDC and DIC",
)
PL507: Final = Rule(
    code="PL507",
    slug="live-write-by-unknown",
    severity="error",
    inputs=("W",),
    what="A write to kernel text by a function that belongs to none of the kernel's mechanisms (ftrace, jump labels, "
    "kprobes, alternatives, relocation, runtime constants, dynamic SCS, KVM, BPF, static calls, module loading, kgdb), "
    "nor called by one.",
    why="Such a function follows no protocol that is known to be safe; root kits hook functions in this way.",
    example="a module stores a branch over the first instruction of a function",
    fix="find out from the call chain what it belongs to; a mechanism that is missing here is worth a report",
    citation="arch/arm64/kernel/patching.c and its callers, kernels 5.5 to 7.3",
)
PL508: Final = Rule(
    code="PL508",
    slug="live-word-wrong",
    severity="error",
    inputs=("C",),
    what="A word of running text that a mechanism owns, but that is not what the mechanism may have put there: a "
    "jump label against its key, a part of an alternative, a literal that points nowhere, a constant that is "
    "not its variable.",
    why="A variable in memory decides this word, and the word contradicts it: a decision of the kernel is inverted, "
    "or other code runs. An intruder who knows the tables hides there.",
    example="the jump label at may_open+0x30 branches although its key is not enabled:",
    fix="find out who wrote there; take a dump for evidence",
    citation='prologue help live.md "What an audit knows"; kernel arch/arm64/kernel/{alternative,jump_label,ftrace}.c '
    "(6.1-7.2)",
    words=(0x14000008,),
)
PL509: Final = Rule(
    code="PL509",
    slug="hook-without-owner",
    severity="fatal",
    inputs=("C",),
    what="A callback of an ftrace_ops, a direct call, a probe of a kprobe, tracepoint or fprobe, a BPF program's code "
    "or the replacement of a livepatch that is neither in the kernel's text nor in the text of a listed module, nor "
    "in code that a program or trampoline of BPF holds, or is in the middle of a function; code of BPF or a slot of "
    "kprobes where no such code is called, a function of the kernel with another prototype, a direct call without "
    "DIRECT, a kprobe event with another handler; a BPF program that is attached, and not among the loaded ones.",
    why="The kernel calls it, and nothing that the kernel lists has code there: a module that hides, memory that was "
    "freed, or code that somebody put there. Every word of text may be right all the same.",
    example="ftrace_ops on vfs_read: its callback is in a module that mod_tree has, and that the list of modules lacks",
    fix="take a dump from outside for evidence; find out what is at the address, and boot from a known image",
    citation="kernel kernel/trace/ftrace.c, kernel/kprobes.c, kernel/module/main.c, kernel/bpf/core.c (6.1-7.3)",
)
PL510: Final = Rule(
    code="PL510",
    slug="module-not-listed",
    severity="error",
    inputs=("C",),
    what="A module that is in one of the kernel's lists and not in another: the list that /proc/modules shows, "
    "mod_tree, the kobjects of /sys/module; or functions in ftrace's records where no listed module is. A livepatch "
    "that replaces a function, and is not on the list of livepatches, or has no directory in /sys/kernel/livepatch.",
    why="The kernel puts a live module into all of them, and takes it off all of them. A module that takes itself off "
    "a list wants not to be seen.",
    example="a module in mod_tree whose struct is on no list: lsmod does not show it, and its code runs",
    fix="take a dump from outside for evidence; the module's memory is where the message says",
    citation="kernel kernel/module/main.c, kernel/module/tree_lookup.c, kernel/module/sysfs.c, kernel/livepatch/core.c "
    "(6.1-7.3)",
)
PL511: Final = Rule(
    code="PL511",
    slug="executable-memory-without-owner",
    severity="error",
    inputs=("C",),
    what="Pages that the kernel's page tables let the kernel execute, and that are neither text of the kernel or of a "
    "listed module, nor a page of kprobes, nor BPF's. Code in a pack of BPF that its bitmap or its programs do not "
    "have; a slot of kprobes that holds more than an instruction to step; anything executable in the linear map.",
    why="Code that runs in the kernel lies in such pages. What allocates one and is not listed hides, or forgot to "
    "free it.",
    example="4,096 executable bytes among the modules, allocated by the module loader, where no listed module is",
    fix="take a dump from outside for evidence; find out what is there and which function allocated it",
    citation='Arm ARM DDI 0487, "VMSAv8-64 translation table format descriptors"; kernel mm/vmalloc.c (6.1-7.3)',
)
PL512: Final = Rule(
    code="PL512",
    slug="readonly-data-changed",
    severity="error",
    inputs=("C",),
    what="A word between `__start_rodata` and `__end_rodata` that is not as linked plus the slide: an entry of the "
    "table of system calls, a function of an operations table, a string. Alternatives of the vDSO are known. Of what "
    "is read-only after init, pointers to functions must lead to code that somebody owns.",
    why="Nothing of the kernel writes there after boot. A pointer that is changed there makes the kernel call other "
    "code, without a change of text and without a listener.",
    example="sys_call_table+0x340 leads into a module that is in no list",
    fix="take a dump from outside for evidence; find out what is where the pointer leads",
    citation="kernel include/asm-generic/vmlinux.lds.h RO_DATA, arch/arm64/mm/mmu.c mark_rodata_ro (6.1-7.3)",
)
PL513: Final = Rule(
    code="PL513",
    slug="live-write-before-execution",
    severity="warn",
    inputs=("W",),
    what="A live write to an instruction that no CPU had executed since its page became text, nor executed before the "
    "writer returned, if one of the two words is on no issue's list. If a CPU had executed it, it is PL308. Runtime "
    "constants, which are made to be written before their first use, are info.",
    why="The architecture permits such a change if no CPU executes the instruction meanwhile, the writer does the "
    "maintenance (PL506), and each CPU synchronises its context before it executes the new one. One recording shows "
    "that this was so once. Whether it is always so depends on what keeps other CPUs away until then.",
    example="futex_init() of 7.3 sets the mask of __futex_hash() while other CPUs run: UBFX W0, W19, #0, #32 became "
    "UBFX W0, W19, #0, #9",
    fix="make sure that the code cannot be reached before; better, write it while one CPU runs or in stop_machine",
    citation=f"{CITATION}; kernel arch/arm64/include/asm/runtime-const.h, kernel/futex/core.c (7.3)",
)
PL514: Final = Rule(
    code="PL514",
    slug="ftrace-lists-disagree",
    severity="error",
    inputs=("C",),
    what="A function whose record counts more or fewer users than the list of `ftrace_ops` has for it, or is enabled "
    "without a user. A direct call that is not the same in `direct_functions`, in the filter and target of the "
    "`ftrace_ops` that is DIRECT, and in the flags of the record. Every bucket of every filter is read. Nothing is "
    "said while `ftrace_lock` (for direct calls, `direct_mutex` as well) is held.",
    why="Registration counts. An ops that was taken off the list by hand is still called, where `enabled_functions` "
    "and every tool that walks the list do not show it. A direct call leads past ftrace: it goes where one of these "
    "lists says, while the others still have what was registered.",
    example="vfs_read: its record counts 1 user, and the list of ftrace_ops has 0 for it",
    fix="take a dump from outside for evidence; see where the second slot of the function leads",
    citation="kernel kernel/trace/ftrace.c __ftrace_hash_rec_update, referenced_filters (5.10-7.3); "
    "register_ftrace_direct (6.4-7.3)",
)

PL515: Final = Rule(
    code="PL515",
    slug="hook-of-tainted-module",
    severity="warn",
    inputs=("C",),
    what="A listener whose code is in a listed module that has no valid signature, was built outside of the kernel's "
    "tree, or was loaded by force, as the module's taints say.",
    why="Nobody who signed the kernel has seen this code, and the kernel calls it at the hook.",
    example="kprobe of vfs_read: its handler is on_read [watch], of the module watch, which is unsigned",
    fix="find out who loaded the module, and whether that was meant",
    citation="kernel include/linux/panic.h TAINT_UNSIGNED_MODULE, TAINT_OOT_MODULE, TAINT_FORCED_MODULE (5.10-7.3)",
)

RULES: Final = (
    PL501, PL502, PL503, PL504, PL505, PL506, PL507, PL508, PL509, PL510, PL511, PL512, PL513, PL514, PL515,
)  # fmt: skip
