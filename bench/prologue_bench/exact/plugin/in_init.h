/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What ftrace_init does to the text, besides writing words: lines of it that are
 * read and written, and how often each word is executed. Included by count.c.
 */
enum { LINE_SHIFT = 6, LINE_READ = 1, LINE_WRITTEN = 2 };

static uint8_t *lines;		/* of the text: LINE_READ and LINE_WRITTEN */
static uint64_t n_lines;
static uint32_t *profile;	/* of each word of the text; NULL: not asked for */

static int make_room(void)
{
	uint64_t end = text + 4 * classes.n;

	n_lines = ((end - 1) >> LINE_SHIFT) - (text >> LINE_SHIFT) + 1;
	lines = calloc(n_lines, sizeof(*lines));
	if (lines && profile_path)
		profile = calloc(classes.n, sizeof(*profile));
	if (lines && (profile || !profile_path))
		return 0;
	perror("count");
	return -1;
}

static bool in_ftrace_init(void)
{
	return places[BEGIN].reached && !places[END].reached;
}

static void count_word(unsigned int cpu, void *executed)
{
	if (in_ftrace_init())
		++*(uint32_t *)executed;
}

/* Bytes FROM to TO of the Image are read or written; the classes describe them */
static void touch_lines(uint64_t from, uint64_t to, uint8_t access)
{
	bool is_text = false;

	for (uint64_t k = (from - text) / 4; k <= (to - 1 - text) / 4; k++)
		is_text |= classes.of[k] != NO_TEXT;
	if (!is_text)
		return;
	for (uint64_t k = from >> LINE_SHIFT; k <= (to - 1) >> LINE_SHIFT; k++)
		lines[k - (text >> LINE_SHIFT)] |= access;
}

static uint64_t lines_with(uint8_t access)
{
	uint64_t n = 0;

	for (uint64_t k = 0; k < n_lines; k++)
		n += !!(lines[k] & access);
	return n;
}

static void write_profile(void)
{
	FILE *out;

	if (!profile)
		return;
	out = fopen(profile_path, "w");
	if (out && fwrite(profile, sizeof(*profile), classes.n, out) == classes.n &&
	    !fclose(out))
		return;
	perror(profile_path);
	exit(1);
}
