"""Read by each kernel: only errors are logged."""
c = get_config()  # noqa: F821  what IPython calls this file with
c.IPKernelApp.log_level = 40  # errors only
