#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""A driver of a plan's time table (docs/slots.md), to be changed into a real one.

Each argument is a transfer and how many milliseconds it takes: `driver.py nav/1/device-input=1 nav/1/device-output=1`. Each has a
thread of its own, which waits for its slots and sleeps in them where a driver would move data. Ends when solocore does.
Needs the package solocore (`pip install ./python`, or PYTHONPATH=python) and libsolocore.so.0 (`make client`; SOLOCORE_LIBRARY).
"""

import sys
import threading
import time

from solocore import client


def serve(name, seconds):
    try:
        client.attach_slot(name)
        while True:
            with client.slot() as missed:
                time.sleep(seconds)
            if missed:
                print(f"{name}: {missed} slots missed", file=sys.stderr)
    except client.Error as error:
        print(f"{name}: {error}", file=sys.stderr)


def main():
    wishes = [argument.rpartition("=") for argument in sys.argv[1:]]
    try:
        transfers = [(name, float(ms) / 1000) for name, _, ms in wishes if name]
    except ValueError:
        transfers = []
    if not transfers or len(transfers) != len(wishes):
        sys.exit("usage: driver.py SLOT=MILLISECONDS...")
    threads = [threading.Thread(target=serve, args=transfer) for transfer in transfers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
