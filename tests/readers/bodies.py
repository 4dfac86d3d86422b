"""Reads the bodies of a list of jobs, all at once, by urllib, and tells how each of them ended, as this client sees it.

A job is {"url": …}; the list comes on stdin, and what is told goes to stdout.
"""

import base64
import concurrent.futures
import http.client
import json
import sys
import urllib.request

TAIL = 400


def read(job):
    count, tail, headers, clean = 0, b"", {}, True
    try:
        with urllib.request.urlopen(job["url"], timeout=60) as response:
            headers = response.headers
            while chunk := response.read(65536):
                count += len(chunk)
                tail = (tail + chunk)[-TAIL:]
    except http.client.IncompleteRead as error:
        clean = False
        count += len(error.partial)
        tail = (tail + error.partial)[-TAIL:]
    except OSError:
        clean = False
    except http.client.HTTPException:
        clean = False
    text = base64.b64encode(tail).decode()
    tag, stream = headers.get("rowstream-tag", ""), headers.get("rowstream-stream", "")
    return {"clean": clean, "bytes": count, "tail": text, "tag": tag, "stream": stream}


jobs = json.load(sys.stdin)
with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
    json.dump(list(pool.map(read, jobs)), sys.stdout)
