"""Makes guests: Debian's packages and kernels, kernels built from source, an initramfs, QEMU."""
