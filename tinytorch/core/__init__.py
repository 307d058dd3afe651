"""The framework, one file per module of the course."""
