"""Follows a live tail, and prints the id of each row, until the last one.

Usage: tail.py URL LAST
"""

import sys

import rowstream

url, last = sys.argv[1:]
for row in rowstream.follow(url):
    print(row["id"], flush=True)
    if row["id"] == int(last):
        break
