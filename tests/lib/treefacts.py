# SPDX-License-Identifier: Apache-2.0
"""What a directory tree is, as a dict that two trees can be compared by."""
import hashlib
import os
import stat


def tree(top, times=True, dir_times=False, root=False):
    """
    name -> all that is to be said of it; hard links as groups, so that inode numbers
    do not matter.  dir_times: of directories too, where unpacking made none of them by
    itself.  root: with ".", the top.
    """
    out, links = {}, {}
    for base, dirs, files in os.walk(top):
        for name in dirs + files + (["."] if root and base == top else []):
            p = os.path.join(base, name)
            rel, st = os.path.relpath(p, top), os.lstat(p)
            one = [oct(st.st_mode), st.st_uid, st.st_gid]
            # the opaque mark is overlayfs's business
            one.append(sorted((x, os.getxattr(p, x, follow_symlinks=False)) for x in os.listxattr(p, follow_symlinks=False)
                              if not x.startswith("trusted.overlay.")))
            # that of a whiteout is when it was made here
            if times and not stat.S_ISCHR(st.st_mode) and (dir_times or not stat.S_ISDIR(st.st_mode)):
                one.append(int(st.st_mtime))
            if stat.S_ISREG(st.st_mode):
                with open(p, "rb") as f:
                    one += [st.st_size, hashlib.sha256(f.read()).hexdigest()]
                if st.st_nlink > 1:
                    links.setdefault(st.st_ino, []).append(rel)
            elif stat.S_ISLNK(st.st_mode):
                one.append(os.readlink(p))
            out[rel] = one
    for group in links.values():
        for rel in group:
            out[rel].append("linked with " + ",".join(sorted(group)))
    return out


def same(x, y, what):
    diff = [f"{k}: {x.get(k)} / {y.get(k)}" for k in sorted(set(x) | set(y)) if x.get(k) != y.get(k)]
    assert not diff, f"{what}: {len(diff)} differ\n" + "\n".join(diff[:20])
