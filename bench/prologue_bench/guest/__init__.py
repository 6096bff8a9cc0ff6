"""What a guest is made of: Debian's packages and kernels, kernels built from source, an initramfs, QEMU."""
