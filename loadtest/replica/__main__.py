"""`python -m loadtest.replica`: the same as `kvgate replica`."""

import argparse
import sys

from loadtest.replica.command import Replica


def main() -> int:
    command = Replica()
    parser = argparse.ArgumentParser(prog="kvgate replica", description=command.help)
    command.add_arguments(parser)
    return command.run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
