/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Arguments of writes.c, which describes them.
 */
static bool read_number(const char *name, const char *value)
{
	static const struct {
		const char *name;
		uint64_t *number;
	} numbers[] = {
		{ "load", &image_load }, { "ram", &ram_size },
		{ "size", &image_size }, { "root", &root_offset },
		{ "modules", &modules_offset }, { "ctr", &ctr_offset },
		{ "freed", &freed_offset }, { "stext", &stext_offset },
		{ "ns", &is_ns }, { "graph", &graph_offset },
	};

	for (size_t k = 0; k < sizeof(numbers) / sizeof(*numbers); k++) {
		if (strcmp(name, numbers[k].name))
			continue;
		*numbers[k].number = strtoull(value, NULL, 16);
		return true;
	}
	if (!strcmp(name, "page"))
		page_shift = strtoul(value, NULL, 16);
	return !strcmp(name, "page");
}

static bool read_range(const char *name, const char *value)
{
	char *end;
	uint64_t from = strtoull(value, &end, 16), to = strtoull(end + !!*end, NULL, 16);

	if (!strcmp(name, "stop")) {
		stop.start = from;
		stop.end = to;
	} else if (!strcmp(name, "init")) {
		init.start = from;
		init.end = to;
	} else if (!strcmp(name, "text") && n_texts < MAX_RANGES) {
		texts[n_texts].start = from;
		texts[n_texts++].end = to;
	} else if (!strcmp(name, "vectors") && n_vectors < MAX_RANGES) {
		vectors[n_vectors].start = from;
		vectors[n_vectors++].end = to;
	} else if (!strcmp(name, "writer") && n_writers < MAX_RANGES) {
		writers[n_writers].start = from;
		writers[n_writers++].end = to;
	} else {
		return false;
	}
	return true;
}

static int read_argument(char *argument)
{
	char *value = strchr(argument, '=');

	if (value) {
		*value++ = 0;
		if (read_number(argument, value) || read_range(argument, value))
			return 0;
		if (!strcmp(argument, "rows"))
			return (rows_path = strdup(value)) ? 0 : -1;
		if (!strcmp(argument, "out"))
			return (out_path = strdup(value)) ? 0 : -1;
	}
	fprintf(stderr, "writes: what is %s?\n", argument);
	return -1;
}
