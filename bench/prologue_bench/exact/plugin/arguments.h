/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Arguments of record.c, which describes them.
 */
static const struct {
	const char *name;
	uint64_t *number;
} numbers[] = {
	{ "load", &load }, { "base", &base }, { "pid", &pid_offset },
	{ "count", &limit }, { "arm", &places[ARM] },
	{ "begin", &places[BEGIN] }, { "from", &places[FROM] },
	{ "end", &places[END] }, { "until", &places[UNTIL] },
	{ "function", &places[FUNCTION] }, { "mapped", &places[MAPPED] },
};

static const struct {
	const char *name;
	const char **path;
} paths[] = {
	{ "out", &out.path }, { "truth", &truth.path },
	{ "status", &status_path },
};

static bool is_named(const char *argument, const char *name)
{
	size_t length = strlen(name);

	return !strncmp(argument, name, length) && argument[length] == '=';
}

static int read_argument(const char *argument)
{
	const char *value = strchr(argument, '=');

	if (!value++)
		goto bad;
	for (size_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++) {
		if (is_named(argument, numbers[k].name)) {
			*numbers[k].number = strtoull(value, NULL, 16);
			return 0;
		}
	}
	for (size_t k = 0; k < sizeof(paths) / sizeof(paths[0]); k++) {
		if (is_named(argument, paths[k].name)) {
			*paths[k].path = strdup(value);
			return 0;
		}
	}
	if (is_named(argument, "vectors") && n_vectors < 32) {
		char *end;

		vectors[n_vectors].offset = strtoull(value, &end, 16);
		vectors[n_vectors++].size = strtoull(end + 1, NULL, 16);
		return 0;
	}
	if (is_named(argument, "process")) {
		of_process = true;
		return 0;
	}
	if (is_named(argument, "stop")) {
		stops = true;
		return 0;
	}
	if (is_named(argument, "build-id")) {
		for (int k = 0; k < 20 && value[2 * k]; k++)
			sscanf(value + 2 * k, "%2hhx", &build_id[k]);
		return 0;
	}
bad:
	fprintf(stderr, "record: what is %s?\n", argument);
	return -1;
}
