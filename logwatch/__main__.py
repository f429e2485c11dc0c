"""Level 8: `python -m logwatch`."""

from logwatch.cli import main

if __name__ == "__main__":
    main()
