"""Start as the build of the site wants it; no name is left behind for a page to lean on."""
__import__("kernels").start()
