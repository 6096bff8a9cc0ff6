"""CoreSight traces decoded by OpenCSD's library, in a process of its own; it knows no images and no kernels."""
