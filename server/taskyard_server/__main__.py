"""`python -m taskyard_server` is the `taskyard` script."""

from .cli.script import main

if __name__ == "__main__":
    main()
