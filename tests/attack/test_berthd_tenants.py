# SPDX-License-Identifier: Apache-2.0
"""
What a tenant may name and learn.  Its image is one of the store or of the configuration: never a directory of the host,
which berthd would read as root (S19 of SECURITY.md).
"""
import berthtest as b
import daemon
from daemon import Daemon


def test_S19_no_directory_of_the_host_is_a_tenants_image():
    with Daemon(tcp=True) as d:
        for image in ("/", "/etc", "//", "/tmp/../", "../", "./x", ".", "..", "../" * 12 + "etc", b.root()):
            for path, body in (("/v1/sandboxes", {"image": image}), ("/v1/run", {"image": image, "argv": ["/bin/cat", "/shadow"]})):
                r = d.post(path, body, token=daemon.TENANT)
                assert r.status == 403, (image, path, r.status, r.body)
        for ref in ("/etc", "../etc", "./"):
            for path in ("/v1/images/inspect", "/v1/images/history"):
                assert d.get(f"{path}?ref={ref}", token=daemon.TENANT).status in (400, 404), (path, ref)
        assert not d.good("GET", "/v1/sandboxes")["sandboxes"]
        # an admin may, and both may have what has a name
        tree = b.busybox_rootfs()
        assert d.good("POST", "/v1/run", {"image": tree, "argv": ["/bin/busybox", "echo", "x"]})["verdict"]["exit_status"] == 0
        b.berth("image", "import", tree, "tiny", ok=True)
        assert d.good("POST", "/v1/run", {"image": "tiny", "argv": ["/bin/busybox", "true"]}, token=daemon.TENANT)["verdict"]["exit_status"] == 0


def test_S19_an_image_of_the_configuration_may_be_a_directory():
    tree = b.busybox_rootfs()
    with Daemon(tcp=True, config=f'[sandbox]\nimage = "{tree}"\n') as d:
        assert d.good("POST", "/v1/run", {"argv": ["/bin/busybox", "true"]}, token=daemon.TENANT)["verdict"]["exit_status"] == 0
        assert d.post("/v1/run", {"image": tree, "argv": ["/bin/busybox", "true"]}, token=daemon.TENANT).status == 403


def test_S19_a_taken_name_tells_nothing_of_whose_it_is():
    with Daemon(tcp=True) as d:
        theirs = d.create("taken", token=daemon.OTHER)
        r = d.post("/v1/sandboxes", {"image": "host", "name": "taken"}, token=daemon.TENANT)
        assert r.status == 409 and theirs not in r.body.decode() and "taken" in r.body.decode(), r
