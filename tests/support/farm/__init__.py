"""A farm on this host: labgrid's coordinator and exporters as they are, and boards that are QEMU guests."""
