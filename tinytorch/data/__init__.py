"""Data that ships with the package; ``README.md`` beside this file says what and from whom."""
