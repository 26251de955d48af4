"""`python -m jobyard` is `jobyard`."""

from jobyard.cli.main import main

if __name__ == "__main__":
    main()
