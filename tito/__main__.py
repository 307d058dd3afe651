"""`python -m tito` is `tito`."""

from tito.cli import main

if __name__ == "__main__":
    main(prog_name="tito")
