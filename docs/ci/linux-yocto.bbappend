# recipes-kernel/linux/linux-yocto_%.bbappend: the step runs inside of the kernel's own build; its result is verified
# before it is installed. HOSTTOOLS makes the build machine's prologue visible to recipes (conf/local.conf has
# HOSTTOOLS += "prologue").
EXTRA_OEMAKE += "PROLOGUE=prologue"

do_verify_prologues() {
    prologue verify ${B}/vmlinux --image ${B}/arch/arm64/boot/Image --release
}
addtask verify_prologues after do_compile before do_install
