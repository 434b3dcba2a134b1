#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
options.py OPS-GEN [--check]: writes the types of the options, as the table of berth has them (manager/ops/params.def), into the
Python and the TypeScript client, and the codes of errors (base/err.h) into doc/errors.md, each between two marks.
--check prints the files that differ, and changes none.
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = (("python", "python/berth/_options.py", "# <options>", "# </options>"),
         ("typescript", "javascript/src/index.d.ts", "// <options>", "// </options>"),
         ("errors", "../doc/errors.md", "<!-- codes -->", "<!-- end of codes -->"))


def main():
    for language, path, begin, end in FILES:
        path = os.path.join(HERE, path)
        with open(path) as f:
            text = f.read()
        made = subprocess.run([sys.argv[1], language], capture_output=True, text=True, check=True).stdout
        before, rest = text.split(begin + "\n")
        after = rest.split(end + "\n")[1]
        new = f"{before}{begin}\n{made}{end}\n{after}"
        if new == text:
            continue
        if "--check" in sys.argv:
            print(f"{os.path.relpath(path)} is not what the tables of manager/ops/params.def and base/err.h say; make options writes it")
        else:
            with open(path, "w") as f:
                f.write(new)


main()
