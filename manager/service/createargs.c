/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/service/createargs.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/ops/call.h"
#include "manager/ops/params.h"

/* ---- the body of a request ---- */

const char *const createargs_members[CREATEARGS_MEMBERS] = {"image", "pull", "options", "command"};

int createargs_are_given(const json_t *body)
{
	size_t i;

	for (i = 0; i < CREATEARGS_MEMBERS; i++) {
		const json_t *v = json_object_get(body, createargs_members[i]);

		if (v && !json_is_null(v))
			return 1;
	}
	return 0;
}

static int check_tenant_args(struct createargs *c, const char *image, const char *pull, struct err *e)
{
	const char *name;
	json_t *v;

	/* root reads a host directory: a tenant gets an image of the store, or the configured one
	 */
	if (image && (image[0] == '/' || image[0] == '.'))
		return err_set(e, ERR_DENIED,
			       "a directory as the image needs an admin token; hint: the name of "
			       "an image");
	/* a tenant may not choose what is fetched, or from where */
	if (pull && strcmp(pull, "never"))
		return err_set(e, ERR_DENIED, "\"pull\" needs an admin token");
	json_object_foreach (c->options, name, v)
		if (tenantopts_check(name, v, e) < 0)
			return -1;
	c->pull = "never";
	return 0;
}

int createargs_read(struct createargs *c, const json_t *body, struct err *e)
{
	const char *image = NULL, *pull = NULL;
	json_t *command = json_object_get(body, "command");
	json_t *one;
	size_t i;

	c->options = NULL;
	if (json_get_str(body, "image", &image, "body", e) < 0 ||
	    json_get_str(body, "pull", &pull, "body", e) < 0 ||
	    json_get_obj(body, "options", &c->options, "body", e) < 0) {
		e->code = ERR_INVALID; /* a corrupt value is the caller's fault here */
		return -1;
	}
	c->command = json_is_null(command) ? NULL : command;
	if (c->command && !json_is_array(c->command))
		return err_set(e, ERR_INVALID, "body.command is not an array");
	json_array_foreach (c->command, i, one)
		if (!json_is_string(one))
			return err_set(e, ERR_INVALID,
				       "body.command holds something else than strings");
	if (c->tenant && check_tenant_args(c, image, pull, e) < 0)
		return -1;
	if (image)
		c->image = image;
	if (pull)
		c->pull = pull;
	return 0;
}

json_t *createargs_call(const struct createargs *c, struct err *e)
{
	autojson json_t *checked = json_array();
	json_t *call;

	if (params_from_json(c->options, PARAM_OF_CREATE | PARAM_FROM_AFAR, checked, e) < 0)
		return NULL;
	call = call_of("create", NULL);
	call_text(call, "pull", c->pull);
	call_options(call, c->options);
	call_options(call, c->own);
	/* berth then applies [tenant], and writes the name beside the sandbox before that is visible */
	call_text(call, "tenant", c->tenant);
	if (c->zygote && c->zygote[0]) {
		call_text(call, "zygote", c->zygote);
		return call;
	}
	call_operand(call, c->image);
	call_operands(call, c->command);
	return call;
}
