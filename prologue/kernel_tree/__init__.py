"""The patches for kernel trees, and the code that installs and checks them."""
