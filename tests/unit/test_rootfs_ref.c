/* SPDX-License-Identifier: Apache-2.0 */
/* Names of images and digests: what is one, and what it becomes. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rootfs/store/digest.h"
#include "rootfs/store/oci.h"
#include "rootfs/store/ref.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

Test(rootfs_ref, good_names_become_their_short_form)
{
	static const struct { const char *in, *name, *file; } rows[] = {
		{ "debian", "debian:latest", "debian:latest.json" },
		{ "debian:12", "debian:12", "debian:12.json" },
		{ "library/debian", "debian:latest", "debian:latest.json" },
		{ "docker.io/library/debian:12", "debian:12", "debian:12.json" },
		{ "index.docker.io/a/b", "a/b:latest", "a%b:latest.json" },
		{ "docker.io/library/a/b", "library/a/b:latest", "library%a%b:latest.json" },
		{ "localhost:5000/x:y", "localhost:5000/x:y", "localhost:5000%x:y.json" },
		{ "Reg.Example:443/a_b/c__d/e---f.g:V1.0_x-y", "Reg.Example:443/a_b/c__d/e---f.g:V1.0_x-y",
		  "Reg.Example:443%a_b%c__d%e---f.g:V1.0_x-y.json" },
		{ "a@sha256:" HEX, "a:latest", "a:latest.json" },
		{ "a:b@sha256:" HEX, "a:b", "a:b.json" },
	};
	char name[REF_NAME_MAX + 1], file[REF_NAME_MAX + 8];
	struct err e = { 0 };
	struct ref r;
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		cr_assert_eq(ref_parse(rows[i].in, &r, &e), 0, "%s: %s", rows[i].in, e.msg);
		ref_name(&r, name);
		ref_filename(&r, file);
		cr_expect_str_eq(name, rows[i].name);
		cr_expect_str_eq(file, rows[i].file);
	}
}

Test(rootfs_ref, bad_names_are_refused)
{
	static const char *const rows[] = {
		"", ":", "a:", ":a", "/a", "a/", "a//b", "../a", "a/../b", "./a", ".", "..", "-a", "a-", "a.", "_a",
		"a..b", "a___b", "a._b", "A", "a/B", "a b", "a\n", "a:b c", "a:b/c:", "a:-x", "a:.x", "a\xc3\xbc",
		"a@", "a@sha256:" , "a@sha256:" HEX "0", "a@md5:" HEX, "a@sha256:0123456789ABCDEF", "a@b@c",
		"sha256:" HEX, "sha256", "host:99999999/a", "x.y:/a", "x.y:12a/b", ".x.y/a", "x..y.z/a", "a%b", "a\\b",
		"a:" HEX HEX "x", "docker.io/ghcr.io/x", "docker.io/docker.io/x", "index.docker.io/localhost/x",
	};
	struct ref r;
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		struct err e = { 0 };

		cr_expect_eq(ref_parse(rows[i], &r, &e), -1, "'%s' was taken", rows[i]);
		cr_expect_eq(e.code, ERR_INVALID);
	}
}

Test(rootfs_ref, a_name_too_long_for_a_file_is_refused)
{
	char s[400];
	struct ref r;

	memset(s, 'a', sizeof(s));
	s[REF_NAME_MAX - 6] = '\0';
	cr_expect_eq(ref_parse(s, &r, NULL), -1);
	s[REF_NAME_MAX - 7] = '\0';
	cr_expect_eq(ref_parse(s, &r, NULL), 0);
	s[REF_NAME_MAX - 7] = 'a';
	s[399] = '\0';
	cr_expect_eq(ref_parse(s, &r, NULL), -1);
}

Test(rootfs_ref, only_the_plain_name_host_is_reserved)
{
	struct ref r;

	cr_assert_eq(ref_parse("host:7", &r, NULL), 0);
	cr_expect(ref_is_reserved(&r));
	cr_assert_eq(ref_parse("docker.io/library/host", &r, NULL), 0);
	cr_expect(ref_is_reserved(&r));
	cr_assert_eq(ref_parse("team/host", &r, NULL), 0);
	cr_expect(!ref_is_reserved(&r));
}

Test(rootfs_ref, a_name_is_made_of_a_file_name)
{
	static const struct { const char *in, *out; } rows[] = {
		{ "/a/b/Debian-12.tar.gz", "debian-12:latest" }, { "x.tgz", "x:latest" }, { "dir/", "dir:latest" },
		{ "my image!!.tar", "my-image:latest" }, { "a__b--c.oci", "a_b-c:latest" }, { "///", NULL },
		{ ".tar", "tar:latest" }, { "\xff\xfe", NULL }, { "-", NULL }, { "sha256", NULL },
	};
	char name[REF_NAME_MAX + 1];
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		int r = ref_from_filename(rows[i].in, name);

		cr_expect_eq(r, rows[i].out ? 0 : -1, "%s", rows[i].in);
		if (!r && rows[i].out)
			cr_expect_str_eq(name, rows[i].out);
	}
}

Test(rootfs_digest, only_sha256_in_lower_case_is_a_digest)
{
	static const char *const bad[] = {
		"", "sha256:", HEX, "sha256:" HEX "0", "SHA256:" HEX, "sha512:" HEX, "sha256:../../etc/passwd",
		"sha256:0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef", " sha256:" HEX,
		"sha256:" HEX "\n",
	};
	char copy[DIGEST_SIZE];
	size_t i;

	cr_expect(digest_is_valid("sha256:" HEX));
	for (i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e = { 0 };

		cr_expect_eq(digest_copy(copy, bad[i], "x", &e), -1, "'%s'", bad[i]);
		cr_expect_eq(e.code, ERR_CORRUPT);
	}
}

Test(rootfs_digest, algorithms_are_the_registered_ones)
{
	static const char *const unknown[] = { "md5:" HEX, "sha384:" HEX HEX, "blake3:" HEX, "sha256+b64u:" HEX, "sha512.x:" HEX HEX };
	static const char *const broken[] = { "sha512:" HEX, "sha256:" HEX HEX, "sha512:" HEX HEX "0", "sha512:../../x", "SHA512:" HEX HEX };
	char copy[DIGEST_SIZE], path[DIGEST_BLOB_PATH_SIZE];
	struct err e;
	size_t i;

	cr_assert_eq(digest_copy(copy, "sha512:" HEX HEX, "x", &e), 0);
	cr_expect_str_eq(copy, "sha512:" HEX HEX);
	cr_expect_str_eq(digest_hex(copy), HEX HEX);
	cr_expect(digest_is_valid(copy) && !digest_is_sha256(copy));
	digest_blob_path(path, copy);
	cr_expect_str_eq(path, "blobs/sha512/" HEX HEX);
	digest_blob_path(path, "sha256:" HEX);
	cr_expect_str_eq(path, "blobs/sha256/" HEX);
	for (i = 0; i < ARRAY_LEN(unknown); i++) {
		cr_expect_eq(digest_copy(copy, unknown[i], "x", &e), -1);
		cr_expect_eq(e.code, ERR_UNSUPPORTED, "%s", unknown[i]);
		cr_expect(strstr(e.msg, "algorithm") && !strncmp(strchr(e.msg, '\'') + 1, unknown[i], strcspn(unknown[i], ":")), "%s", e.msg);
	}
	for (i = 0; i < ARRAY_LEN(broken); i++) {
		cr_expect_eq(digest_copy(copy, broken[i], "x", &e), -1);
		cr_expect_eq(e.code, ERR_CORRUPT, "%s", broken[i]);
	}
}

Test(rootfs_digest, bytes_are_formatted_in_order)
{
	unsigned char sum[32];
	char out[DIGEST_SIZE];
	int i;

	for (i = 0; i < 32; i++)
		sum[i] = (unsigned char)(i * 8 + 1);
	digest_format(out, sum, 32);
	cr_expect_str_eq(out, "sha256:0109111921293139414951596169717981899199a1a9b1b9c1c9d1d9e1e9f1f9");
	cr_expect(digest_is_valid(out));
}

Test(rootfs_oci, platforms_are_read_and_compared)
{
	static const char *const bad[] = { "", "linux", "linux/", "/amd64", "linux/amd64/", "linux/amd64/v8/x",
					   "Linux/amd64", "linux/a b", "linux//x" };
	struct oci_platform want, have;
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++)
		cr_expect_eq(oci_platform_parse(bad[i], &want, NULL), -1, "'%s'", bad[i]);
	cr_assert_eq(oci_platform_parse("linux/arm64", &want, NULL), 0);
	cr_assert_eq(oci_platform_parse("linux/arm64/v8", &have, NULL), 0);
	cr_expect(oci_platform_fits(&have, &want));
	cr_assert_eq(oci_platform_parse("linux/arm/v7", &have, NULL), 0);
	cr_expect(!oci_platform_fits(&have, &want));
	memset(&have, 0, sizeof(have));
	cr_expect(oci_platform_fits(&have, &want), "a platform that is not said fits");
}

Test(rootfs_ref, names_of_tenants_are_read_only_where_they_may_stand)
{
	static const char *const bad[] = { "a@", "a@b@c", "a@B", "a@../x", "a@.x", "@b", "a@sha256:1@b",
					   "a:1@b/c", "host:@x" };
	char name[REF_NAME_MAX + 1], file[REF_NAME_MAX + 8], s[300];
	struct err e = { 0 };
	struct ref r;
	size_t i;

	cr_assert_eq(ref_parse_owned("Ghcr.io/a/b:1@alice", &r, &e), 0, "%s", e.msg);
	ref_name(&r, name);
	ref_filename(&r, file);
	cr_expect_str_eq(name, "Ghcr.io/a/b:1@alice");
	cr_expect_str_eq(file, "Ghcr.io%a%b:1@alice.json");
	cr_expect_str_eq(r.tenant, "alice");
	/* the same without one, and with a digest */
	cr_assert_eq(ref_parse_owned("docker.io/library/a", &r, &e), 0);
	ref_name(&r, name);
	cr_expect_str_eq(name, "a:latest");
	snprintf(s, sizeof(s), "a@sha256:%064d", 1);
	cr_expect(ref_parse_owned(s, &r, &e) == 0 && !r.tenant[0] && r.digest[0]);
	cr_expect_eq(ref_set_tenant(&r, "alice", &e), -1, "a digest was given to a tenant");
	for (i = 0; i < ARRAY_LEN(bad); i++)
		cr_expect_eq(ref_parse_owned(bad[i], &r, &e), -1, "'%s' was taken", bad[i]);
	cr_expect_eq(ref_parse("a@alice", &r, &e), -1, "an archive could name a tenant's image");
	/* both fit into a file's name together, or neither */
	memset(s, 'a', 210);
	strcpy(s + 210, "@b");
	cr_expect_eq(ref_parse_owned(s, &r, &e), 0, "%s", e.msg);
	strcpy(s + 210, "@bbbb");
	cr_expect_eq(ref_parse_owned(s, &r, &e), -1);
}
