"""`python -m bench [NAME]`: one measurement after the other, so that they don't disturb each other."""

import subprocess
import sys
import sysconfig

BENCHES = (
    "relay", "peers", "decide", "turn", "document", "stall", "ingest", "loop_under_ingest", "l2_probe", "l2_published",
    "observing", "page", "redis_match", "redis_apply", "index_memory", "takeover",
)  # fmt: skip


def main() -> int:
    """Run the benches that the command line names, or all. Returns the exit status."""
    wanted = sys.argv[1:] or BENCHES
    unknown = set(wanted) - set(BENCHES)
    if unknown:
        print(f"no bench is called {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    if "--enable-optimizations" not in (sysconfig.get_config_var("CONFIG_ARGS") or ""):
        # Distributions' and Docker's Python is, one that was built by hand often not: every figure depends on it.
        print(
            "this Python was built without --enable-optimizations: it takes a tenth to a third longer", file=sys.stderr
        )
    # Each in a process of its own: what one leaves in memory or pins to a core is not the next one's.
    return max(subprocess.run([sys.executable, "-m", f"bench.{name}"], check=False).returncode for name in wanted)


if __name__ == "__main__":
    sys.exit(main())
