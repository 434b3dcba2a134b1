/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The published vectors: "Signature Calculations for the Authorization Header:
 * Transferring Payload in a Single Chunk" of the S3 API reference, and get-vanilla
 * and others of the Signature Version 4 test suite.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/mem.h"
#include "manager/objects/sigv4.h"

#define KEY "AKIAIOSFODNN7EXAMPLE"
#define SECRET "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define HOST { "host", "examplebucket.s3.amazonaws.com" }
#define DATE { "x-amz-date", "20130524T000000Z" }
#define EMPTY { "x-amz-content-sha256", SIGV4_EMPTY_HASH }

static void expect(struct sigv4_request r, const char *signature)
{
	autobuf struct buf b = BUF_INIT(8192);
	struct err e = { 0 };
	const char *found;

	cr_assert_eq(sigv4_sign(&r, &b, &e), 0, "%s", e.msg);
	found = strstr(b.data, "Signature=");
	cr_assert_not_null(found);
	cr_expect_str_eq(found + strlen("Signature="), signature);
}

static struct sigv4_request s3(const char *method, const char *path, const struct sigv4_pair *h, size_t n)
{
	return (struct sigv4_request){ .method = method, .path = path, .headers = h, .header_count = n,
				       .payload_sha256 = SIGV4_EMPTY_HASH, .date = "20130524T000000Z", .region = "us-east-1",
				       .service = "s3", .access_key = KEY, .secret_key = SECRET };
}

Test(sigv4, get_object_of_the_s3_reference)
{
	const struct sigv4_pair h[] = { HOST, { "range", "bytes=0-9" }, EMPTY, DATE };

	expect(s3("GET", "/test.txt", h, ARRAY_LEN(h)), "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

Test(sigv4, put_object_of_the_s3_reference_has_a_path_to_encode)
{
	const char *sum = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
	const struct sigv4_pair h[] = { { "x-amz-storage-class", "REDUCED_REDUNDANCY" }, { "date", "Fri, 24 May 2013 00:00:00 GMT" },
					HOST, { "x-amz-content-sha256", sum }, DATE };
	struct sigv4_request r = s3("PUT", "/test$file.text", h, ARRAY_LEN(h));

	r.payload_sha256 = sum;
	expect(r, "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

Test(sigv4, bucket_lifecycle_of_the_s3_reference_has_a_query_without_value)
{
	const struct sigv4_pair h[] = { HOST, EMPTY, DATE }, q[] = { { "lifecycle", "" } };
	struct sigv4_request r = s3("GET", "/", h, ARRAY_LEN(h));

	r.query = q;
	r.query_count = 1;
	expect(r, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

Test(sigv4, list_objects_of_the_s3_reference_has_a_query_to_sort)
{
	const struct sigv4_pair h[] = { DATE, EMPTY, HOST }, q[] = { { "prefix", "J" }, { "max-keys", "2" } };
	struct sigv4_request r = s3("GET", "/", h, ARRAY_LEN(h));

	r.query = q;
	r.query_count = 2;
	expect(r, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

static struct sigv4_request suite(const struct sigv4_pair *h, size_t n)
{
	return (struct sigv4_request){ .method = "GET", .path = "/", .headers = h, .header_count = n,
				       .payload_sha256 = SIGV4_EMPTY_HASH, .date = "20150830T123600Z", .region = "us-east-1",
				       .service = "service", .access_key = "AKIDEXAMPLE",
				       .secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" };
}

#define SUITE { "host", "example.amazonaws.com" }, { "x-amz-date", "20150830T123600Z" }

Test(sigv4, get_vanilla_of_the_test_suite)
{
	const struct sigv4_pair h[] = { SUITE };

	expect(suite(h, 2), "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
}

Test(sigv4, get_vanilla_query_order_key_case_of_the_test_suite)
{
	const struct sigv4_pair h[] = { SUITE }, q[] = { { "Param2", "value2" }, { "Param1", "value1" } };
	struct sigv4_request r = suite(h, 2);

	r.query = q;
	r.query_count = 2;
	expect(r, "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
}

Test(sigv4, what_is_not_plain_is_encoded)
{
	autobuf struct buf b = BUF_INIT(100);
	struct err e;

	cr_assert_eq(sigv4_encode("a b/~+%\xc3\xa9", 1, &b, &e), 0);
	cr_assert_str_eq(b.data, "a%20b/~%2B%25%C3%A9");
	b.len = 0;
	cr_assert_eq(sigv4_encode("a/b", 0, &b, &e), 0);
	cr_assert_str_eq(b.data, "a%2Fb");
}
