"""One file per command; each has a click command named `command` and imports what is heavy when it runs."""
