# external.mk of a BR2_EXTERNAL tree: the kernel is verified right after it was built, before anything installs it.
# prologue is in PATH; the configuration of linux has
# CONFIG_ARM64_FTRACE_BUILDTIME_PROLOGUE, and kbuild calls the tool that PROLOGUE= names.
LINUX_MAKE_FLAGS += PROLOGUE=prologue

define LINUX_VERIFY_PROLOGUES
	prologue verify $(@D)/vmlinux --image $(@D)/arch/arm64/boot/Image --release
endef
LINUX_POST_BUILD_HOOKS += LINUX_VERIFY_PROLOGUES
